/* SPDX-License-Identifier: MIT
 * verbs_explain.c - io.dsv4.Kernels.Explain: whether the indexer took what holds a text, on the ops thread, beside the
 * running engine.
 * Threads: control; explain_job_run() and its progress on ops. Locks: none (ops.h hands everything over). */
#include "daemon/daemon.h"
#include "daemon/verbs/explain_reply.h"
#include "daemon/kernels/side.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_ROWS 8
#define EXPLAIN_MAX_ROWS 256
#define EXPLAIN_SECONDS 600
#define EXPLAIN_MAX_SECONDS 86400
#define EXPLAIN_NOTE_MS 100    /* between two notes of progress */

/* The control thread fills it, ops runs it, control answers. */
struct explain_job {
	struct warming warming;        /* before the job; its call is control's alone; NULL once the peer is gone */
	struct ops_job job;
	struct daemon *daemon;
	struct side side[2];           /* as they were typed */
	struct kset *set[2];           /* pins; reply.side has them too */
	struct explain_ask ask;
	struct explain_reply reply;
	int seconds;
	long long noted;               /* clock_ms() of the last note */
	int rc;
	struct buf why;
	struct explain_result result[2];
	long long end;                 /* clock_ms(): no rerun goes on after it; 0: any may */
	struct explain_verify verify;
};

struct explain_note {
	struct ops_note note;
	struct explain_job *job;
	long long done, total;
};

static void explain_job_free(struct explain_job *j)
{
	for (int i = 0; i < 2; i++) {
		kset_unpin(&j->set[i]);
		side_fini(&j->side[i]);
		explain_result_fini(&j->result[i]);
	}
	explain_verify_fini(&j->verify);
	explain_ask_fini(&j->ask);
	buf_fini(&j->why);
	free(j);
}

/* ---- on the ops thread ---- */

static void explain_job_note_deliver(struct ops_note *n)
{
	struct explain_note *p = list_entry(n, struct explain_note, note);

	if (p->job->warming.call)
		call_progress(p->job->warming.call,
			      json_pack("{s:{s:s, s:I, s:I}}", "progress", "op", "explain", "done",
					(json_int_t)p->done, "total", (json_int_t)p->total));
	free(p);
}

static void explain_job_progress(void *arg, int64_t done, int64_t total)
{
	struct explain_job *j = arg;
	struct explain_note *n;

	if (done < total && clock_ms() - j->noted < EXPLAIN_NOTE_MS)
		return;
	j->noted = clock_ms();
	n = mem_new(sizeof *n);
	*n = (struct explain_note){ .note.fn = explain_job_note_deliver, .job = j, .done = done, .total = total };
	ops_post(j->daemon->ops, &n->note);
}

/* The position that was asked about, under another top-k. */
static int explain_job_again(void *arg, int topk, struct explain_result *ret_r, struct buf *why)
{
	struct explain_job *j = arg;
	struct engine_explain_options o = {
		.side = { j->reply.side[0] },
		.n_side = 1,
		.tokens = j->ask.id,
		.n_tokens = (int)j->result[0].position + 1,
		.n_prompt = j->ask.n_prompt,
		.cancel = &j->job.cancel,
		.progress = explain_job_progress,
		.arg = j,
	};
	long long left = j->end ? (j->end - clock_ms() + 999) / 1000 : 0;

	if (j->end && left < 1)
		return buf_why(why, RC_TIMEOUT, "the time was used up");
	o.seconds = (int)left;
	o.side[0].numerics.index_topk = topk;
	return engine_explain(j->daemon->engine, &o, ret_r, why);
}

static void explain_job_run(struct ops_job *job)
{
	struct explain_job *j = list_entry(job, struct explain_job, job);
	struct explain_span span[EXPLAIN_MAX_PLACES];
	struct engine_explain_options o = {
		.side = { j->reply.side[0], j->reply.side[1] },
		.n_side = j->reply.n_side,
		.tokens = j->ask.id,
		.n_tokens = j->ask.position + 1,
		.n_prompt = j->ask.n_prompt,
		.first = j->ask.best ? j->ask.n_prompt - 1 : 0,
		.n_span = j->ask.best ? j->ask.n_place : 0,
		.span = span,
		.seconds = j->seconds,
		.cancel = &job->cancel,
		.progress = explain_job_progress,
		.arg = j,
	};

	for (int i = 0; i < o.n_span; i++)
		span[i] = (struct explain_span){ j->ask.place[i].begin, j->ask.place[i].end };
	j->end = j->seconds ? clock_ms() + 1000LL * j->seconds : 0;
	j->rc = engine_explain(j->daemon->engine, &o, j->result, &j->why);
	if (j->rc == 0) {
		j->verify.place = j->ask.place;
		j->verify.n_place = j->ask.n_place;
		j->verify.again = explain_job_again;
		j->verify.arg = j;
		j->rc = explain_verify(&j->verify, &j->result[0]);
	}
}

/* ---- on the control thread ---- */

static void explain_job_done(struct ops_job *job)
{
	struct explain_job *j = list_entry(job, struct explain_job, job);

	if (j->warming.call && j->rc)
		call_fail(&j->warming.call, j->rc, buf_str(&j->why));
	else if (j->warming.call)
		call_reply(&j->warming.call, explain_reply_json(&j->reply, j->result));
	explain_job_free(j);
}

static void explain_job_gone(struct call *c)
{
	struct explain_job *j = c->arg;

	j->warming.call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

/* ---- what to explain ---- */

static int explain_job_number(const struct call *c, const char *name, long long fallback, long long least,
			      long long most, int *ret_n, struct buf *why)
{
	long long n = call_int(c, name, fallback);

	if (n < least || n > most)
		return buf_why(why, RC_INVALID, "%s: must be within %lld to %lld", name, least, most);
	*ret_n = (int)n;
	return 0;
}

/* Parameters that are not named are the request's. NULL: the set that the request ran under. */
static int explain_job_side(struct explain_job *j, int side, const char *text, struct buf *why)
{
	struct side *s = &j->side[side];
	char generation[32];
	int r;

	snprintf(generation, sizeof generation, "%llu", (unsigned long long)j->ask.generation);
	r = side_read(s, &j->ask.numerics, text ? text : generation, why);
	j->reply.side[side].numerics = s->numerics;
	if (r == 0 && s->numerics.drop_thinking != j->ask.numerics.drop_thinking)
		r = buf_why(why, RC_INVALID, "drop_thinking: the prompt is the one that the request had");
	return r;
}

static int explain_job_fill(struct explain_job *j, const struct call *c, struct buf *why)
{
	const char *set = call_string(c, "set", NULL), *against = call_string(c, "against", NULL);
	int r = explain_job_number(c, "rows", EXPLAIN_ROWS, 0, EXPLAIN_MAX_ROWS, &j->reply.rows, why);

	r = r ? r : explain_job_number(c, "seconds", EXPLAIN_SECONDS, 0, EXPLAIN_MAX_SECONDS, &j->seconds, why);
	j->reply.tokenizer = engine_tokenizer(j->daemon->engine);
	j->reply.config = engine_config(j->daemon->engine);
	r = r ? r : explain_job_number(c, "reruns", EXPLAIN_RERUNS, 0, EXPLAIN_MAX_RERUNS, &j->verify.reruns, why);
	j->reply.ask = &j->ask;
	j->reply.verify = &j->verify;
	j->reply.n_side = against ? 2 : 1;
	j->reply.set_from = set ? "given" : "request";
	r = r ? r : explain_ask_fill(&j->ask, c, why);
	r = r ? r : explain_job_side(j, 0, set, why);
	return r || !against ? r : explain_job_side(j, 1, against, why);
}

static int explain_job_resolve(struct explain_job *j, int side, struct buf *why)
{
	int r = kernels_resolve(j->daemon, buf_str(&j->side[side].set), &j->set[side], why);

	if (r == RC_NOT_FOUND && side == 0 && !strcmp(j->reply.set_from, "request")) {
		j->reply.set_from = "active"; /* the request's own is gone */
		buf_clear(why);
		r = kernels_resolve(j->daemon, "active", &j->set[side], why);
	}
	j->reply.side[side].kset = j->set[side];
	return r;
}

static int explain_job_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	struct explain_job *j = list_entry(w, struct explain_job, warming);
	int r = 0;

	(void)ret_reply;
	for (int side = 0; side < j->reply.n_side && !r; side++)
		r = warming_set(w, buf_str(&j->side[side].set), why);
	for (int side = 0; side < j->reply.n_side && !r; side++)
		r = explain_job_resolve(j, side, why);
	r = r ? r : ops_submit(j->daemon->ops, &j->job, why);
	if (r)
		return r;
	w->call->arg = j;
	w->call->gone = explain_job_gone;
	return WARMING_TAKEN;
}

static void explain_job_end(struct warming *w)
{
	explain_job_free(list_entry(w, struct explain_job, warming));
}

int verb_explain(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct explain_job *j;
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	j = mem_new(sizeof *j);
	j->warming = (struct warming){ .daemon = c->daemon, .call = c, .attempt = explain_job_attempt,
				       .end = explain_job_end };
	j->job.run = explain_job_run;
	j->job.done = explain_job_done;
	j->daemon = c->daemon;
	r = explain_job_fill(j, c, why);
	if (r) {
		explain_job_free(j);
		return r;
	}
	return warming_begin(&j->warming, ret_reply, why);
}
