/* SPDX-License-Identifier: MIT
 * history.c - a conversation told in another protocol's items, put together as the messages the engine renders.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/request/history.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_fini(struct history *h)
{
	json_decref(h->messages);
	json_decref(h->calls);
	free(h->from);
	buf_fini(&h->instructions);
	buf_fini(&h->reasoning);
	buf_fini(&h->content);
	*h = (struct history){ 0 };
}

static void history_append(struct history *h, int from, json_t *message)
{
	must(message);
	if (!h->messages)
		h->messages = json_array();
	must_zero(json_array_append_new(h->messages, message));
	if (!(h->n_from & (h->n_from - 1)))
		h->from = mem_grow(h->from, h->n_from ? 2 * h->n_from : 1, sizeof *h->from);
	h->from[h->n_from++] = from;
}

/* The instructions in front are over. */
static void history_begin(struct history *h)
{
	if (!h->fronted)
		return;
	h->fronted = false;
	history_append(h, h->front_from, json_pack("{s:s, s:o}", "role", "system", "content",
		error_text(buf_str(&h->instructions), h->instructions.len)));
	buf_fini(&h->instructions);
}

static void history_add(struct history *h, int from, json_t *message)
{
	history_begin(h);
	history_append(h, from, message);
}

static void history_close(struct history *h)
{
	json_t *m;

	if (!h->open)
		return;
	m = json_pack("{s:s, s:o}", "role", "assistant", "content", error_text(buf_str(&h->content), h->content.len));
	must(m);
	if (h->reasoning.len)
		must_zero(json_object_set_new(m, "reasoning_content",
			error_text(buf_str(&h->reasoning), h->reasoning.len)));
	if (h->calls)
		must_zero(json_object_set(m, "tool_calls", h->calls));
	json_decref(h->calls);
	h->calls = NULL;
	buf_clear(&h->content);
	buf_clear(&h->reasoning);
	h->open = false;
	history_add(h, h->open_from, m);
}

static void history_open(struct history *h, int from)
{
	if (h->open)
		return;
	h->open = true;
	h->open_from = from;
}

void history_system(struct history *h, int from, const char *text, size_t len)
{
	history_close(h);
	if (h->n_from) {
		history_add(h, from, json_pack("{s:s, s:o}", "role", "user", "content", error_text(text, len)));
		return;
	}
	if (h->fronted)
		buf_adds(&h->instructions, "\n\n");
	else
		h->front_from = from;
	h->fronted = true;
	buf_add(&h->instructions, text, len);
}

void history_user(struct history *h, int from, json_t *content)
{
	history_close(h);
	history_add(h, from, json_pack("{s:s, s:o}", "role", "user", "content", content));
}

void history_earlier(struct history *h, const json_t *messages)
{
	json_t *m, *content;
	size_t i;

	json_array_foreach(messages, i, m) {
		content = json_object_get(m, "content");
		if (!strcmp(json_string_value(json_object_get(m, "role")), "system")) {
			history_system(h, HISTORY_EARLIER, json_string_value(content), json_string_length(content));
		} else if (json_is_true(json_object_get(m, "wo_eos"))) {
			/* The answer went on with this one. */
			json_t *r = json_object_get(m, "reasoning_content");

			if (r)
				history_reasoning(h, HISTORY_EARLIER, json_string_value(r), json_string_length(r));
			history_text(h, HISTORY_EARLIER, json_string_value(content), json_string_length(content));
		} else {
			history_close(h);
			history_add(h, HISTORY_EARLIER, json_incref(m));
		}
	}
}

void history_result(struct history *h, int from, const char *id, json_t *content)
{
	history_close(h);
	history_add(h, from, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "content", content));
}

void history_reasoning(struct history *h, int from, const char *text, size_t len)
{
	history_open(h, from);
	if (h->reasoning.len && len)
		buf_adds(&h->reasoning, "\n\n");
	buf_add(&h->reasoning, text, len);
}

void history_text(struct history *h, int from, const char *text, size_t len)
{
	history_open(h, from);
	buf_add(&h->content, text, len);
}

void history_call(struct history *h, int from, const char *id, const char *name, json_t *arguments)
{
	json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name", name,
		"arguments", arguments);

	must(call);
	history_open(h, from);
	if (!h->calls)
		h->calls = json_array();
	must_zero(json_array_append_new(h->calls, call));
}

bool history_ends_with_calls(const struct history *h)
{
	return h->open && h->calls;
}

json_t *history_end(struct history *h)
{
	history_close(h);
	history_begin(h);
	return h->messages;
}

/* ---- errors ---- */

/* The client's path of what the engine calls messages[index]. */
static void history_path(const struct history *h, size_t index, char *out, size_t cap)
{
	if (index >= h->n_from)
		snprintf(out, cap, "%s", h->list);
	else if (h->from[index] == HISTORY_EARLIER)
		snprintf(out, cap, "%s", h->earlier);
	else if (h->from[index] == HISTORY_FRONT)
		snprintf(out, cap, "%s", h->front);
	else
		snprintf(out, cap, "%s[%d]", h->list, h->from[index]);
}

void history_error(const struct history *h, struct error *err)
{
	char from[sizeof err->param], to[sizeof err->param];
	unsigned long index;

	if (err->rc == RC_CONTEXT)
		snprintf(err->param, sizeof err->param, "%s", h->list);
	if (strncmp(err->param, "messages[", strlen("messages["))) {
		if (strcmp(h->list, "messages"))
			error_rename(err, "messages", h->list);
		return;
	}
	/* What is inside a message has other names at the client: the item is as near as we can tell. */
	index = strtoul(err->param + strlen("messages["), NULL, 10);
	history_path(h, index, to, sizeof to);
	memcpy(from, err->param, sizeof from);
	error_rename(err, from, to);
}
