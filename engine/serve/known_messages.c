/* SPDX-License-Identifier: MIT
 * known_messages.c - messages as a record keeps them: the fields that prompts are made of, the
 * mark of a gap, and no others.
 * Threads: any. Locks: none. */
#include "engine/serve/known_messages.h"
#include "engine/base/must.h"


/* One field of an object; `in` names those of the object, or of the array's objects, that it
 * holds. NULL: kept whole. */
struct known_field {
	const char *name;
	const struct known_field *in;
};

static const struct known_field known_part[] = { { "type", NULL }, { "text", NULL }, { NULL, NULL } };
static const struct known_field known_function[] = { { "name", NULL }, { "arguments", NULL }, { NULL, NULL } };
static const struct known_field known_call[] = {
	{ "id", NULL }, { "type", NULL }, { "function", known_function }, { NULL, NULL },
};
static const struct known_field known_message[] = {
	{ "role", NULL },         { "content", known_part },    { "reasoning_content", NULL },
	{ "reasoning", NULL },    { "tool_calls", known_call }, { "tool_call_id", NULL },
	{ "task", NULL },         { "wo_eos", NULL },           { "tools", NULL },
	{ "response_format", NULL }, { "reasoning_gap", NULL }, { NULL, NULL },
};

/* A new reference. Text, numbers and what is kept whole are shared with the request, not copied. */
static json_t *known_messages_copy(json_t *v, const struct known_field *f)
{
	json_t *out, *one;
	size_t i;

	if (!f || (!json_is_array(v) && !json_is_object(v)))
		return json_incref(v);
	if (json_is_array(v)) {
		out = json_array();
		json_array_foreach(v, i, one)
			must_zero(json_array_append_new(out, known_messages_copy(one, f)));
		return out;
	}
	out = json_object();
	for (; f->name; f++) {
		one = json_object_get(v, f->name);
		if (one)
			must_zero(json_object_set_new(out, f->name, known_messages_copy(one, f->in)));
	}
	return out;
}

static int known_messages_put(const char *data, size_t len, void *arg)
{
	buf_add(arg, data, len);
	return 0;
}

void known_messages_dump(json_t *messages, struct buf *out)
{
	json_t *known = known_messages_copy(messages, known_message);

	json_dump_callback(known, known_messages_put, out, JSON_COMPACT);
	json_decref(known);
}
