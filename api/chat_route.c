/* SPDX-License-Identifier: MIT
 * chat_route.c - POST /v1/chat/completions: submits, then streams or waits.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/body.h"
#include "api/exchange.h"
#include "api/chat.h"
#include "api/chat_request.h"
#include "api/chat_stream.h"
#include "api/server.h"
#include "api/sse.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>

#define CHAT_ROUTE_BURST                                                                                     \
	65536 /* bytes of a stream made in one go, so that a long backlog shares its thread */

/* One answer on its way: exactly one of `chat` and a begun `stream`. */
struct chat_route {
	struct generation *generation;
	struct chat *chat;
	struct chat_stream stream;
	bool begun;
	double quiet_since;    /* seconds; the last time a stream wrote something */
};

static void chat_route_notify(void *arg)
{
	exchange_wake(arg, EXCHANGE_EVENTS);
}

static void chat_route_end(void *arg)
{
	struct chat_route *cr = arg;

	/* Cancels what still runs: the client may have vanished. After it no notify comes. */
	generation_unref(&cr->generation);
	chat_free(&cr->chat);
	chat_stream_fini(&cr->stream);
	free(cr);
}

/* ---- streamed ---- */

static void chat_route_pump(struct exchange *x, struct chat_route *cr)
{
	struct gen_event ev;
	struct gen_usage usage;

	while (!cr->stream.ended && x->out.len < CHAT_ROUTE_BURST && generation_next(cr->generation, &ev)) {
		generation_usage(cr->generation, &usage);
		if (ev.kind == GEN_EV_FINISH && !chat_json_finish(ev.finish))
			snprintf(x->failed, sizeof x->failed, "%s",
				 ev.finish != GEN_CANCELLED ? "error" :
				 ev.rc == RC_DRAINING ? "draining" : "cancelled");
		chat_stream_event(&cr->stream, &ev, &usage, &x->out);
		gen_event_fini(&ev);
	}
}

static void chat_route_stream_step(struct exchange *x, void *arg, unsigned why)
{
	struct chat_route *cr = arg;
	struct error err = { 0 };

	if (!cr->begun)
		chat_stream_begin(&cr->stream, &x->out);
	cr->begun = true;
	chat_route_pump(x, cr);
	if (!cr->stream.ended && (why & EXCHANGE_STOPPING)) {
		error_set(&err, RC_DRAINING, NULL, "the server is shutting down");
		chat_stream_fail(&cr->stream, &err, &x->out);
		error_fini(&err);
	} else if (!cr->stream.ended && (why & EXCHANGE_TICK) && exchange_gone(x)) {
		exchange_finish(x);
	} else if (!x->out.len && clock_s() - cr->quiet_since >= http_keep_alive(x->http)) {
		sse_comment(&x->out, "keep-alive");
	}
	if (x->out.len)
		cr->quiet_since = clock_s();
	if (cr->stream.ended)
		exchange_finish(x);
}

/* ---- whole ---- */

static void chat_route_reply(struct exchange *x, struct chat_route *cr)
{
	struct error err = { 0 };
	struct gen_usage usage;
	json_t *body;

	generation_usage(cr->generation, &usage);
	if (chat_response(cr->chat, &usage, &body, &err))
		exchange_fail(x, &err);
	else
		exchange_reply(x, MHD_HTTP_OK, body);
	error_fini(&err);
}

static void chat_route_whole_step(struct exchange *x, void *arg, unsigned why)
{
	struct chat_route *cr = arg;
	struct error err = { 0 };
	struct gen_event ev;
	bool done = false;

	while (!done && generation_next(cr->generation, &ev)) {
		done = chat_add(cr->chat, &ev);
		gen_event_fini(&ev);
	}
	if (done) {
		chat_route_reply(x, cr);
	} else if (why & EXCHANGE_STOPPING) {
		error_set(&err, RC_DRAINING, NULL, "the server is shutting down");
		exchange_fail(x, &err);
		error_fini(&err);
	} else if ((why & EXCHANGE_TICK) && exchange_gone(x)) {
		exchange_finish(x);
	}
}

/* ---- the route ---- */

static int chat_route_submit(struct exchange *x, struct chat_request *r, struct chat_route *cr,
			     struct error *err)
{
	struct buf why = { 0 };
	int rc;

	r->spec.id = x->id;
	r->spec.label = "http";
	r->spec.notify = chat_route_notify;
	r->spec.arg = x;
	rc = engine_submit(x->engine, &r->spec, &cr->generation, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	buf_fini(&why);
	return rc;
}

static void chat_route_start(struct exchange *x, const struct chat_request *r, struct chat_route *cr)
{
	struct exchange_work work = { r->stream ? chat_route_stream_step : chat_route_whole_step,
				      chat_route_end, cr };

	cr->quiet_since = clock_s();
	if (!r->stream) {
		cr->chat = chat_new(x->engine, x->id);
		exchange_defer(x, &work);
		return;
	}
	cr->stream = (struct chat_stream){ .head = { x->engine, x->id, time(NULL) },
					   .include_usage = r->include_usage };
	exchange_stream(x, &work);
}

void chat_route(struct exchange *x)
{
	struct chat_route *cr;
	struct chat_request r;
	struct error err = { 0 };
	json_t *body = NULL;
	int rc = body_parse(x->body, x->body_len, &body, &err);

	if (!rc)
		rc = chat_request_parse(x->engine, body, &r, &err);
	if (!rc) {
		cr = mem_new(sizeof *cr);
		rc = chat_route_submit(x, &r, cr, &err);
		if (rc)
			free(cr);
		else
			chat_route_start(x, &r, cr);
		chat_request_fini(&r);
	}
	if (rc)
		exchange_fail(x, &err);
	error_fini(&err);
	json_decref(body);
}
