/* SPDX-License-Identifier: MIT
 * completion_text.c - a whole completion as text to a message, through the streaming parser.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/text/completion.h"

#include <string.h>

#define COMPLETION_TEXT_END "<｜end▁of▁sentence｜>"

struct completion_message {
	struct buf reasoning, content, name, args;
	json_t *calls;
};

static json_t *completion_string(const struct buf *b)
{
	json_t *s = json_stringn(buf_str(b), b->len);

	must(s != NULL);
	return s;
}

static void completion_message_call(struct completion_message *m)
{
	json_t *function = json_object(), *call = json_object();

	json_object_set_new(function, "name", completion_string(&m->name));
	json_object_set_new(function, "arguments", completion_string(&m->args));
	json_object_set_new(call, "type", json_string("function"));
	json_object_set_new(call, "function", function);
	json_array_append_new(m->calls, call);
}

static void completion_message_event(void *arg, const struct completion_event *ev)
{
	struct completion_message *m = arg;

	switch (ev->kind) {
	case COMPLETION_REASONING:
		buf_add(&m->reasoning, ev->text, ev->len);
		break;
	case COMPLETION_CONTENT:
		buf_add(&m->content, ev->text, ev->len);
		break;
	case COMPLETION_TOOL_BEGIN:
		buf_clear(&m->name);
		buf_clear(&m->args);
		buf_add(&m->name, ev->text, ev->len);
		break;
	case COMPLETION_TOOL_ARGS:
		buf_add(&m->args, ev->text, ev->len);
		break;
	case COMPLETION_TOKEN:
		break;
	case COMPLETION_TOOL_END:
	default:
		completion_message_call(m);
		break;
	}
}

static json_t *completion_message_take(struct completion_message *m)
{
	json_t *msg = json_object();

	json_object_set_new(msg, "role", json_string("assistant"));
	json_object_set_new(msg, "content", completion_string(&m->content));
	json_object_set_new(msg, "reasoning_content", completion_string(&m->reasoning));
	json_object_set_new(msg, "tool_calls", m->calls);
	buf_fini(&m->content);
	buf_fini(&m->reasoning);
	buf_fini(&m->name);
	buf_fini(&m->args);
	return msg;
}

void completion_parse_text(const char *text, size_t len, bool thinking, size_t chunk, json_t **ret_message,
	struct completion_verdict *ret_v)
{
	struct completion_message m = { .calls = json_array() };
	struct completion_options o = {
		.mode = thinking ? COMPLETION_THINKING : COMPLETION_CHAT,
		.spelled = true, .emit = completion_message_event, .arg = &m,
	};
	const char *end = memmem(text, len, COMPLETION_TEXT_END, strlen(COMPLETION_TEXT_END));
	size_t n = end ? (size_t)(end - text) : len, i, step;
	struct completion *c = NULL;

	must_zero(completion_new(&o, &c, NULL));
	for (i = 0; i < n; i += step) {
		struct completion_token t = { .bytes = text + i };

		step = chunk && chunk < n - i ? chunk : n - i;
		t.len = step;
		completion_put(c, &t);
	}
	completion_end(c, end ? COMPLETION_EOS : COMPLETION_MAX_TOKENS, ret_v);
	completion_free(&c);
	if (end && n + strlen(COMPLETION_TEXT_END) < len)
		ret_v->flags |= COMPLETION_AFTER_END;
	*ret_message = completion_message_take(&m);
}
