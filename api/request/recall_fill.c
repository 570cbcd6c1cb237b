/* SPDX-License-Identifier: MIT
 * recall_fill.c - histories whose reasoning got lost on the way: filled in from the server's own copy, or marked.
 * Threads: any. Locks: none of its own. */
#include "api/request/recall_fill.h"
#include "api/http/error.h"
#include "engine/base/must.h"

#include <string.h>

static bool recall_fill_has(const json_t *m, const char *key)
{
	const json_t *v = json_object_get(m, key);

	return v && !json_is_null(v);
}

static bool recall_fill_gap(const json_t *m)
{
	const char *role = json_string_value(json_object_get(m, "role"));

	return role && !strcmp(role, "assistant") && json_array_size(json_object_get(m, "tool_calls")) &&
		!recall_fill_has(m, "reasoning_content") && !recall_fill_has(m, "reasoning");
}

/* By any of its calls: a client may have left some out. */
static bool recall_fill_find(struct recall *r, const json_t *m, struct buf *out)
{
	const json_t *call;
	size_t i;

	json_array_foreach (json_object_get(m, "tool_calls"), i, call) {
		const char *id = json_string_value(json_object_get(call, "id"));

		if (id && recall_reasoning(r, id, out))
			return true;
	}
	return false;
}

/* The message as it is to be; NULL when it is complete: the answer had no reasoning. */
static json_t *recall_fill_one(struct recall *r, json_t *m)
{
	struct buf text = { 0 };
	bool known = recall_fill_find(r, m, &text);
	json_t *copy = NULL;

	if (!known || text.len) {
		copy = json_copy(m); /* the body's own stays as it came */
		must(copy);
		must_zero(json_object_set_new(copy, "reasoning_gap", json_string(known ? "filled" : "open")));
	}
	if (text.len)
		must_zero(json_object_set_new(copy, "reasoning_content", error_text(buf_str(&text), text.len)));
	buf_fini(&text);
	return copy;
}

void recall_fill(const struct engine *e, const char *label, json_t *messages)
{
	struct recall *r = NULL;
	json_t *m;
	size_t i;

	json_array_foreach (messages, i, m) {
		json_t *filled;

		if (!recall_fill_gap(m))
			continue;
		r = r ? r : engine_recall(e, label);
		filled = recall_fill_one(r, m);
		if (filled)
			must_zero(json_array_set_new(messages, i, filled));
	}
	recall_free(&r);
}
