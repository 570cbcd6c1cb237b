/* SPDX-License-Identifier: MIT
 * answer.c - generations on their way to a client: submits, then streams or waits; a form says what it looks like.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/request/answer.h"
#include "api/http/server.h"
#include "api/http/sse.h"
#include "api/request/guard_field.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of a stream made in one go, so that a long backlog shares its thread. */
#define ANSWER_BURST 65536

struct answer {
	struct exchange *x;
	const struct answer_form *as;
	void *form;
	struct generation *generation[ANSWER_MAX_CHOICES];
	struct collect collect[ANSWER_MAX_CHOICES]; /* of a whole answer */
	bool done[ANSWER_MAX_CHOICES];
	int n, n_done;
	int each;              /* choices per prompt, one prompt's after the other's */
	bool begun, ended;
	double quiet_since;    /* seconds; the last time a stream wrote something */
};

static void answer_notify(void *arg)
{
	exchange_wake(arg, EXCHANGE_EVENTS);
}

static bool answer_full(void *arg)
{
	return exchange_full(arg);
}

static void answer_end(void *arg)
{
	struct answer *a = arg;

	/* Cancels what still runs: the client may have vanished. After it no notify comes. */
	for (int i = 0; i < a->n; i++) {
		if (atomic_load(&a->x->cut))
			engine_cancel(a->x->engine, generation_id(a->generation[i]), RC_UNREAD);
		generation_unref(&a->generation[i]);
		collect_fini(&a->collect[i]);
	}
	a->as->free(a->form);
	free(a);
}

/* The choices of one prompt share it: it counts once, and what was cached of it is what the first one found. */
static void answer_usage(const struct answer *a, struct gen_usage *ret_u)
{
	struct gen_usage one;

	*ret_u = (struct gen_usage){ 0 };
	for (int i = 0; i < a->n; i++) {
		generation_usage(a->generation[i], &one);
		ret_u->completion_tokens += one.completion_tokens;
		ret_u->reasoning_tokens += one.reasoning_tokens;
		ret_u->prompt_tokens += i % a->each ? 0 : one.prompt_tokens;
		ret_u->cached_tokens += i % a->each ? 0 : one.cached_tokens;
	}
}

/* Of what was generated only the figure: texts are not logged. */
static void answer_log_loop(const struct answer *a, int choice, const struct gen_event *ev)
{
	struct buf what = { 0 };

	if (ev->kind != GEN_EV_FINISH || !ev->loop.kind)
		return;
	loopguard_describe(&ev->loop, &what);
	log_event(LOG_LV_WARN, "looped", "id=%s part=%s what=%s token=%d ended=%d",
		generation_id(a->generation[choice]), loopguard_part_name(ev->loop.part), LOGQ(buf_str(&what)),
		ev->loop.token, ev->loop.ended);
	buf_fini(&what);
}

static void answer_stopping(struct error *err)
{
	error_set(err, RC_DRAINING, NULL, "the server is shutting down");
}

/* ---- streamed ---- */

static void answer_stream_fail(struct answer *a, const struct error *err, struct buf *out)
{
	a->as->fail(a->form, err, out);
	a->ended = true;
}

static void answer_stream_broken(struct exchange *x, struct answer *a, const struct gen_event *ev)
{
	struct error err = { 0 };

	snprintf(x->failed, sizeof x->failed, "%s",
		ev->finish != GEN_CANCELLED ? "error" : ev->rc == RC_DRAINING ? "draining" : "cancelled");
	collect_error(ev, &err);
	answer_stream_fail(a, &err, &x->out);
	error_fini(&err);
}

static void answer_stream_event(struct exchange *x, struct answer *a, int choice, const struct gen_event *ev)
{
	struct gen_usage usage;

	if (ev->kind == GEN_EV_FINISH && !collect_finish_ok(ev->finish)) {
		answer_stream_broken(x, a, ev);
		return;
	}
	answer_usage(a, &usage);
	a->as->event(a->form, choice, ev, &usage, &x->out);
	if (ev->kind != GEN_EV_FINISH)
		return;
	a->done[choice] = true;
	if (++a->n_done == a->n) {
		a->as->end(a->form, &usage, &x->out);
		a->ended = true;
	}
}

/* Takes from each choice in turn, so that none waits for another's end. True when there was something. */
static bool answer_stream_round(struct exchange *x, struct answer *a)
{
	struct gen_event ev;
	bool any = false;

	for (int i = 0; i < a->n && !a->ended; i++)
		if (!a->done[i] && generation_next(a->generation[i], &ev)) {
			answer_log_loop(a, i, &ev);
			answer_stream_event(x, a, i, &ev);
			gen_event_fini(&ev);
			any = true;
		}
	return any;
}

static void answer_stream_begin(struct answer *a, struct buf *out)
{
	struct gen_usage usage;

	if (a->begun)
		return;
	a->begun = true;
	answer_usage(a, &usage);
	a->as->begin(a->form, &usage, out);
}

static void answer_stream_quiet(struct answer *a, struct buf *out)
{
	if (a->as->quiet)
		a->as->quiet(a->form, out);
	else
		sse_comment(out, "keep-alive");
}

static void answer_stream_step(struct exchange *x, void *arg, unsigned why)
{
	struct answer *a = arg;
	struct error err = { 0 };

	answer_stream_begin(a, &x->out);
	while (!a->ended && x->out.len < ANSWER_BURST && answer_stream_round(x, a))
		;
	if (!a->ended && (why & EXCHANGE_STOPPING)) {
		answer_stopping(&err);
		answer_stream_fail(a, &err, &x->out);
		error_fini(&err);
	} else if (!a->ended && (why & EXCHANGE_TICK) && exchange_gone(x)) {
		exchange_abandon(x);
	} else if (!x->out.len && clock_s() - a->quiet_since >= http_keep_alive(x->http)) {
		answer_stream_quiet(a, &x->out);
	}
	if (x->out.len)
		a->quiet_since = clock_s();
	if (a->ended)
		exchange_finish(x);
}

/* ---- whole ---- */

static void answer_whole_reply(struct exchange *x, struct answer *a)
{
	struct gen_usage usage;

	for (int i = 0; i < a->n; i++)
		if (a->collect[i].error.rc) {
			exchange_fail(x, &a->collect[i].error);
			return;
		}
	answer_usage(a, &usage);
	exchange_reply(x, MHD_HTTP_OK, a->as->reply(a->form, a->collect, a->n, &usage));
}

static void answer_whole_step(struct exchange *x, void *arg, unsigned why)
{
	struct answer *a = arg;
	struct error err = { 0 };
	struct gen_event ev;

	for (int i = 0; i < a->n; i++)
		while (!a->done[i] && generation_next(a->generation[i], &ev)) {
			answer_log_loop(a, i, &ev);
			a->done[i] = collect_add(&a->collect[i], &ev);
			a->n_done += a->done[i];
		}
	if (a->n_done == a->n) {
		answer_whole_reply(x, a);
	} else if (why & EXCHANGE_STOPPING) {
		answer_stopping(&err);
		exchange_fail(x, &err);
		error_fini(&err);
	} else if ((why & EXCHANGE_TICK) && exchange_gone(x)) {
		exchange_abandon(x);
	}
}

/* ---- the start ---- */

static int answer_submit_one(struct exchange *x, struct generation_spec *spec, struct answer *a, struct error *err)
{
	char id[sizeof x->id + 8];
	struct buf why = { 0 };
	int rc;

	if (a->n)
		snprintf(id, sizeof id, "%s-%d", x->id, a->n);
	else
		snprintf(id, sizeof id, "%s", x->id);
	spec->id = id;
	rc = engine_submit(x->engine, spec, &a->generation[a->n], &why);
	if (rc)
		error_from_engine(err, rc, &why);
	else
		a->n++;
	buf_fini(&why);
	spec->id = NULL;
	return rc;
}

/* Several answers are admitted all or none: those that came first must not keep the others out. */
static int answer_reserve(struct exchange *x, const struct answer_order *o, struct error *err)
{
	int n = o->n_specs * o->each, rc;
	struct buf why = { 0 };

	if (n == 1)
		return 0;
	rc = engine_reserve(x->engine, n, &why);
	if (rc == RC_INVALID)
		error_set(err, rc, o->each > 1 ? "n" : "prompt", "%s: %s", o->each > 1 ? "n" : "prompt", buf_str(&why));
	else if (rc)
		error_from_engine(err, rc, &why);
	for (int i = 0; i < o->n_specs; i++)
		o->spec[i].reserved = true;
	buf_fini(&why);
	return rc;
}

static int answer_submit(struct exchange *x, struct generation_spec *spec, struct answer *a, bool stream,
			 struct error *err)
{
	int rc = 0;

	spec->label = x->label;
	guard_default(&spec->guard, http_repetition_guard(x->http), &spec->sampling);
	spec->notify = answer_notify;
	spec->full = stream ? answer_full : NULL;
	spec->arg = x;
	for (int i = 0; i < a->each && !rc; i++) {
		rc = answer_submit_one(x, spec, a, err);
		spec->sampling.seed++;
	}
	return rc;
}

static int answer_bound(const struct answer_order *o, struct error *err)
{
	for (int i = 0; i < o->n_specs; i++) {
		struct generation_spec *s = &o->spec[i];
		int most = ANSWER_MAX_LOGPROBS / (o->n_specs * o->each * (1 + s->sampling.top_logprobs));

		if (o->stream || !s->sampling.logprobs)
			continue;
		if (s->max_tokens > most)
			return error_set(err, RC_INVALID, "max_tokens",
					 "max_tokens: at most %d with so many log-probabilities and answers; a stream "
					 "has no limit", most);
		if (s->max_tokens <= 0)
			s->max_tokens = most;
	}
	return 0;
}

int answer_start(struct exchange *x, const struct answer_order *o, struct error *err)
{
	struct answer *a = mem_new(sizeof *a);
	struct exchange_work work = { o->stream ? answer_stream_step : answer_whole_step, answer_end, a };
	int rc, n = o->n_specs * o->each, held;

	must(o->each >= 1 && o->n_specs >= 1 && o->each <= ANSWER_MAX_CHOICES &&
		o->n_specs <= ANSWER_MAX_CHOICES / o->each);
	a->x = x;
	a->as = o->as;
	a->form = o->form;
	a->each = o->each;
	rc = answer_bound(o, err);
	rc = rc ? rc : keys_answers(&x->pass, o->n_specs * o->each, err);
	rc = rc ? rc : answer_reserve(x, o, err);
	held = rc || n == 1 ? 0 : n;
	for (int i = 0; i < o->n_specs && !rc; i++)
		rc = answer_submit(x, &o->spec[i], a, o->stream, err);
	if (held > a->n)
		engine_unreserve(x->engine, held - a->n);
	if (rc) {
		answer_end(a);
		return rc;
	}
	a->quiet_since = clock_s();
	if (o->stream)
		exchange_stream(x, &work);
	else
		exchange_defer(x, &work);
	return 0;
}
