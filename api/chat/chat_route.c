/* SPDX-License-Identifier: MIT
 * chat_route.c - POST /v1/chat/completions.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/chat/chat.h"
#include "api/chat/chat_stream.h"
#include "api/request/answer.h"
#include "api/request/chat_request.h"
#include "api/request/handle.h"
#include "engine/base/mem.h"

#include <stdlib.h>

static void chat_route_begin(void *form, const struct gen_usage *usage, struct buf *out)
{
	(void)usage;
	chat_stream_begin(form, out);
}

static void chat_route_event(void *form, int choice, const struct gen_event *ev, const struct gen_usage *usage,
	struct buf *out)
{
	(void)usage;
	chat_stream_event(form, choice, ev, out);
}

static void chat_route_end(void *form, const struct gen_usage *usage, struct buf *out)
{
	chat_stream_end(form, usage, out);
}

static void chat_route_fail(void *form, const struct error *err, struct buf *out)
{
	chat_stream_fail(form, err, out);
}

static json_t *chat_route_reply(void *form, const struct collect *choice, int n, const struct gen_usage *usage)
{
	struct chat_stream *s = form;

	return chat_response(&s->head, choice, n, usage);
}

static void chat_route_free(void *form)
{
	chat_stream_fini(form);
	free(form);
}

static const struct answer_form chat_route_form = {
	chat_route_begin, chat_route_event, chat_route_end, chat_route_fail, NULL, chat_route_reply, chat_route_free,
};

static int chat_route_answer(struct exchange *x, json_t *body, struct error *err)
{
	struct chat_stream *s;
	struct settings r;
	int rc = chat_request_parse(x->engine, x->label, body, &r, err);

	if (rc)
		return rc;
	s = mem_new(sizeof *s);
	*s = (struct chat_stream){ .head = { x->engine, x->id, time(NULL) }, .n = r.n,
				   .include_usage = r.include_usage };
	rc = answer_start(x, &(struct answer_order){ &r.spec, 1, r.n, r.stream, &chat_route_form, s }, err);
	if (rc)
		chat_request_name_schema(&r, err);
	settings_fini(&r);
	return rc;
}

void chat_route(struct exchange *x)
{
	handle_body(x, chat_route_answer);
}
