/* SPDX-License-Identifier: MIT
 * responses_list.c - what a response that is kept was asked with, as items, a page at a time.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/responses/responses_list.h"
#include "api/responses/responses_store.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESPONSES_LIST_DEFAULT 20
#define RESPONSES_LIST_MAX 100

/* ---- items ---- */

struct responses_list {
	const char *response;  /* its id */
	json_t *items;
};

/* Takes over the item. The same one has the same id whenever it is asked for. */
static void responses_list_add(struct responses_list *l, const char *prefix, json_t *item)
{
	const char *own = strchr(l->response, '_');
	char id[96];

	must(item);
	snprintf(id, sizeof id, "%s_%.64s_%zu", prefix, own ? own + 1 : l->response, json_array_size(l->items));
	must_zero(json_object_set_new(item, "id", json_string(id)));
	must_zero(json_object_set_new(item, "status", json_string("completed")));
	must_zero(json_array_append_new(l->items, item));
}

static void responses_list_message(struct responses_list *l, const char *role, json_t *text)
{
	bool said = !strcmp(role, "assistant");
	json_t *part = json_pack("{s:s, s:O}", "type", said ? "output_text" : "input_text", "text", text);

	must(part);
	if (said)
		must_zero(json_object_set_new(part, "annotations", json_array()));
	responses_list_add(l, "msg", json_pack("{s:s, s:s, s:[o]}", "type", "message", "role", role, "content", part));
}

static void responses_list_call(struct responses_list *l, const json_t *call)
{
	const json_t *f = json_object_get(call, "function");
	json_t *arguments = json_object_get(f, "arguments"), *text;
	char *dump;

	if (json_is_string(arguments)) {
		text = json_incref(arguments);
	} else {
		dump = json_dumps(arguments, JSON_COMPACT);
		must(dump);
		text = json_string(dump);
		free(dump);
	}
	responses_list_add(l, "fc", json_pack("{s:s, s:O*, s:O*, s:o}", "type", "function_call", "call_id",
		json_object_get(call, "id"), "name", json_object_get(f, "name"), "arguments", text));
}

static void responses_list_assistant(struct responses_list *l, const json_t *m)
{
	json_t *reasoning = json_object_get(m, "reasoning_content"), *content = json_object_get(m, "content"), *call;
	size_t i;

	if (json_string_length(reasoning))
		responses_list_add(l, "rs", json_pack("{s:s, s:[], s:[{s:s, s:O}]}", "type", "reasoning", "summary",
			"content", "type", "reasoning_text", "text", reasoning));
	if (json_string_length(content))
		responses_list_message(l, "assistant", content);
	json_array_foreach(json_object_get(m, "tool_calls"), i, call)
		responses_list_call(l, call);
}

static json_t *responses_list_items(const char *id, const json_t *messages)
{
	struct responses_list l = { id, json_array() };
	const json_t *m;
	size_t i;

	json_array_foreach(messages, i, m) {
		const char *role = json_string_value(json_object_get(m, "role"));
		json_t *content = json_object_get(m, "content");

		if (!strcmp(role, "assistant"))
			responses_list_assistant(&l, m);
		else if (!strcmp(role, "tool"))
			responses_list_add(&l, "fco", json_pack("{s:s, s:O*, s:O*}", "type", "function_call_output",
				"call_id", json_object_get(m, "tool_call_id"), "output", content));
		else
			responses_list_message(&l, role, content);
	}
	return l.items;
}

/* ---- pages ---- */

struct responses_page {
	const char *after;
	size_t limit;
	bool up;               /* the first item first */
};

static const char *responses_list_argument(const struct exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

static int responses_list_page(const struct exchange *x, struct responses_page *p, struct error *err)
{
	const char *limit = responses_list_argument(x, "limit"), *order = responses_list_argument(x, "order");
	char *end = NULL;
	long n = limit ? strtol(limit, &end, 10) : RESPONSES_LIST_DEFAULT;

	if (responses_list_argument(x, "before"))
		return error_set(err, RC_UNSUPPORTED, "before", "before: use after, with the other order");
	if (responses_list_argument(x, "include") || responses_list_argument(x, "include[]"))
		return error_set(err, RC_UNSUPPORTED, "include",
				 "include: an item is listed with all that is kept of it");
	if (limit && (*end || end == limit || n < 1 || n > RESPONSES_LIST_MAX))
		return error_set(err, RC_INVALID, "limit", "limit: expected a number from 1 to %d", RESPONSES_LIST_MAX);
	if (order && strcmp(order, "asc") && strcmp(order, "desc"))
		return error_set(err, RC_INVALID, "order", "order: expected asc or desc");
	p->limit = (size_t)n;
	p->up = order && !strcmp(order, "asc");
	p->after = responses_list_argument(x, "after");
	return 0;
}

static const char *responses_list_id(const json_t *items, size_t i)
{
	return json_string_value(json_object_get(json_array_get(items, i), "id"));
}

/* How many of the items, in the order of the page, come before it; or an error. */
static int responses_list_skip(const struct responses_page *p, const json_t *items, size_t *ret_skip, struct error *err)
{
	size_t n = json_array_size(items), i = 0;

	*ret_skip = 0;
	if (!p->after)
		return 0;
	while (i < n && strcmp(responses_list_id(items, i), p->after))
		i++;
	if (i == n)
		return error_set(err, RC_NOT_FOUND, "after", "after: no item \"%.64s\"", p->after);
	*ret_skip = p->up ? i + 1 : n - i;
	return 0;
}

static json_t *responses_list_cut(const struct responses_page *p, const json_t *items, size_t skip)
{
	size_t n = json_array_size(items), i;
	json_t *data = json_array(), *reply;

	for (i = skip; i < n && i - skip < p->limit; i++)
		must_zero(json_array_append(data, json_array_get(items, p->up ? i : n - 1 - i)));
	reply = json_pack("{s:s, s:O, s:s?, s:s?, s:b}", "object", "list", "data", data, "first_id",
		responses_list_id(data, 0), "last_id", responses_list_id(data, json_array_size(data) - 1), "has_more",
		i < n);
	must(reply);
	json_decref(data);
	return reply;
}

void responses_list_reply(struct exchange *x, const char *id)
{
	json_t *messages = NULL, *items = NULL;
	struct responses_page page = { 0 };
	struct error err = { 0 };
	size_t skip = 0;
	int rc = responses_list_page(x, &page, &err);

	rc = rc ? rc : responses_store_asked(x, id, &messages, &err);
	if (!rc)
		items = responses_list_items(id, messages);
	rc = rc ? rc : responses_list_skip(&page, items, &skip, &err);
	if (rc)
		exchange_fail(x, &err);
	else
		exchange_reply(x, MHD_HTTP_OK, responses_list_cut(&page, items, skip));
	json_decref(messages);
	json_decref(items);
	error_fini(&err);
}
