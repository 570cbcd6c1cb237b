/* SPDX-License-Identifier: MIT
 * engine_step.c - one step of the engine: runs what the scheduler planned, samples, and whom a failed pass is laid to.
 * Threads: engine. Lock: engine, never while computing. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"
#include "engine/serve/request_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* So many forward passes in a row that fail by a kernel, none succeeding between, are the engine's fault and
 * not the requests'. */
#define ENGINE_MAX_BAD_RUNS 16

static int engine_logits(struct engine *e, int n)
{
	if (n <= e->n_logits)
		return 0;
	free(e->logits);
	e->n_logits = 0;
	e->logits = mem_try((size_t)n * (size_t)e->model->config->vocab_size, sizeof *e->logits);
	if (!e->logits)
		return -ENOMEM;
	e->n_logits = n;
	return 0;
}

static void engine_tally_token(struct engine *e, struct request *r, int reasoning)
{
	long long now = clock_ns(), before = r->token_ns ? r->token_ns : r->submitted_ns;

	tally_token(&e->tally, r->token_ns == 0, (double)(now - before) * 1e-9, reasoning);
	r->token_ns = now;
}

/* The request's next token is sampled from logits. False: it was the last. */
static bool engine_sample(struct engine *e, struct request *r, const float *logits)
{
	int reasoning = r->usage.reasoning_tokens;
	struct request_end end;
	bool ended;

	lock_take(&e->lock);
	e->count.generated_tokens++;
	lock_drop(&e->lock);
	ended = request_answer_sample(r, e->work, logits, &end);
	engine_tally_token(e, r, r->usage.reasoning_tokens - reasoning);
	if (r->looped)
		tally_looped(&e->tally, loopguard_loop(r->guard));
	r->looped = false;
	if (ended) {
		/* Before the end is told: the next turn may come at once. */
		if (end.finish != GEN_ERROR) {
			request_cache_publish(r);
			request_cache_finish(r);
		}
		engine_end(e, r, &end);
	} else {
		generation_flush(r->gen);
		request_cache_publish(r);
		engine_memory_held(e, r);
	}
	return !ended;
}

/* The n tokens fed were one and drafts: from one to the next the answer goes as if each had been fed alone, until it is
 * another than the draft. Returns how many stand; 0: the request ended. */
static int engine_decode(struct engine *e, struct request *r, int n, const float *logits)
{
	size_t vocab = (size_t)e->model->config->vocab_size;
	int stand = 1;

	r->task.drafts = 0;
	r->usage.drafted_tokens += n - 1;
	tally_drafts(&e->tally, n - 1, 0);
	for (;; stand++) {
		int32_t draft = stand < n ? r->next[stand] : -1;

		request_computed(r, 1);
		if (!engine_sample(e, r, logits + (size_t)(stand - 1) * vocab))
			return 0;
		if (r->next[0] != draft)
			return stand;
		sequence_commit(r->seq, 1);
		r->usage.accepted_tokens++;
		tally_drafts(&e->tally, 0, 1);
	}
}

/* The request's n tokens were computed; the next one is sampled if they were the last of its prompt, or decoding.
 * Returns as engine_decode(). */
static int engine_advance(struct engine *e, struct request *r, const struct forward_item *f, const float *logits)
{
	if (r->task.left == 0)
		return engine_decode(e, r, f->n, logits);
	request_computed(r, f->n);
	if (f->n_logits)
		return engine_sample(e, r, logits) ? f->n : 0;
	request_cache_publish(r);
	engine_memory_held(e, r);
	return f->n;
}

/* The forward pass over items [0, n), which agree in set and numerics. Changes nothing when it fails. */
static int engine_forward(struct engine *e, enum dsv4_phase phase, const struct sched_item *item, int n,
			  struct buf *why)
{
	const struct sched_task *head = item[0].task;
	struct forward_batch b = { .kset = head->kset, .numerics = &head->numerics, .phase = phase,
				   .drafts = phase == DSV4_DECODE };
	struct forward_item *f = e->items;
	int i, n_logits = 0, rc;

	for (i = 0; i < n; i++) {
		struct request *r = request_of(item[i].task);

		f[i] = (struct forward_item){ .seq = r->seq, .tokens = request_tokens(r), .n = item[i].n };
		f[i].n_logits = b.drafts ? item[i].n : item[i].n == item[i].task->left;
		n_logits += f[i].n_logits;
		e->names[i] = generation_id(r->gen);
	}
	rc = engine_logits(e, n_logits);
	if (rc)
		return buf_why(why, rc, "no memory for the logits of %d tokens", n_logits);
	b.item = f;
	b.n_item = n;
	b.logits = n_logits ? e->logits : NULL;
	b.tap = e->speculate ? speculate_begin(e->speculate, item, n) : NULL;
	b.watch = engine_shadow_watch(e, b.kset);
	b.name = e->names;
	return forward_run(e->forward, &b, why);
}

static void engine_tally_batch(struct engine *e, enum dsv4_phase phase, const struct sched_item *item, int n)
{
	int tokens = 0;

	for (int i = 0; i < n; i++)
		tokens += item[i].n;
	tally_batch(&e->tally, phase, n, tokens);
}

/* Does the engine answer for it? Not where all the requests brought their own kernels. */
static bool engine_answers(const struct sched_item *item, int n)
{
	for (int i = 0; i < n; i++)
		if (!request_of(item[i].task)->own)
			return true;
	return false;
}

/* Picks the next token of each item whose logits were computed, of one with drafts the first; engine_advance() passes
 * it on. */
static void engine_pick(struct engine *e, const struct sched_item *item, int n)
{
	const float *logits = e->logits;

	for (int i = 0; i < n; i++) {
		if (e->items[i].n_logits > 0)
			picking_add(e->picking, request_of(item[i].task), logits);
		logits += (size_t)e->items[i].n_logits * (size_t)e->model->config->vocab_size;
	}
	picking_run(e->picking);
}

/* The forward pass over items [0, n) succeeded: each goes on with its logits, and gets drafts of what comes next. */
static void engine_ran(struct engine *e, enum dsv4_phase phase, const struct sched_item *item, int n)
{
	const struct kset *ks = item->task->kset; /* requests may end; who has drafts made has it pinned */
	const float *logits = e->logits;
	int rc;

	engine_pick(e, item, n);
	for (int i = 0; i < n; i++) {
		int stand = engine_advance(e, request_of(item[i].task), &e->items[i], logits);

		logits += (size_t)e->items[i].n_logits * (size_t)e->model->config->vocab_size;
		if (e->speculate)
			speculate_stand(e->speculate, i, stand);
	}
	rc = e->speculate ? speculate_draft(e->speculate, e->forward, e->work, phase, NULL) : 0;
	if (rc)
		engine_set_ran(e, ks, rc);
}

/* Nothing can be computed any more: says so, and to every request. */
static void engine_break(struct engine *e, int rc, const char *why)
{
	e->broken = true;
	e->broken_rc = rc;
	lock_take(&e->lock);
	e->count.failed = 1;
	snprintf(e->count.why_failed, sizeof e->count.why_failed, "%s", why);
	lock_drop(&e->lock);
}

/* Runs items [0, n) together. When that fails, each alone: only the one at fault is to fail. And one with drafts
 * without them first: they are nobody's fault. Returns how many tokens were computed. */
static int engine_run(struct engine *e, enum dsv4_phase phase, const struct sched_item *item, int n)
{
	struct buf why = { 0 };
	int done = 0, rc = engine_forward(e, phase, item, n, &why);

	engine_set_ran(e, item->task->kset, rc);
	if (rc && engine_device_lost(e)) {
		engine_break(e, RC_DEVICE, buf_str(&why)); /* and all requests end with that */
	} else if (rc == 0) {
		engine_tally_batch(e, phase, item, n);
		e->bad_runs = engine_answers(item, n) ? 0 : e->bad_runs;
		engine_ran(e, phase, item, n);
		for (int i = 0; i < n; i++)
			done += item[i].n;
	} else if (n > 1) {
		for (int i = 0; i < n && !e->broken; i++)
			done += engine_run(e, phase, &item[i], 1);
	} else if (item->task->drafts) {
		const struct sched_item alone = { item->task, 1 };

		item->task->drafts = 0;
		request_of(item->task)->speculate = 0;
		done = engine_run(e, phase, &alone, 1);
	} else {
		e->bad_runs += (rc == RC_KERNEL || rc == RC_DEVICE) && engine_answers(item, n);
		engine_end_failed(e, request_of(item->task), rc, buf_str(&why));
		if (e->bad_runs >= ENGINE_MAX_BAD_RUNS)
			engine_break(e, rc, buf_str(&why));
	}
	buf_fini(&why);
	return done;
}

/* The batch's requests that nobody has cancelled since the step was planned. Returns the tokens computed. */
static int engine_batch(struct engine *e, const struct sched_batch *b)
{
	struct sched_item *item = e->sched.item + b->first;
	int i, n = 0;

	for (i = 0; i < b->n; i++) {
		if (engine_end_due(e, request_of(item[i].task)))
			continue;
		item[n++] = item[i];
	}
	return n ? engine_run(e, b->phase, item, n) : 0;
}

/* Runs what was planned, and learns what it cost, which waiting for others on the same GPUs is no part of. Returns the
 * prompt tokens computed beside decoding. */
static int engine_batches(struct engine *e)
{
	double seconds[DSV4_N_PHASE] = { 0 };
	int tokens[DSV4_N_PHASE] = { 0 };

	for (int i = 0; i < e->sched.n_batch && !e->broken; i++) {
		const struct sched_batch *b = &e->sched.batch[i];
		long long begun = clock_ns() - forward_waited(e->forward);

		tokens[b->phase] += engine_batch(e, b);
		seconds[b->phase] += clock_since(begun + forward_waited(e->forward));
	}
	if (tokens[DSV4_DECODE] == 0)
		return 0;
	pace_ran(&e->sched.pace, seconds[DSV4_DECODE], seconds[DSV4_PREFILL], tokens[DSV4_PREFILL]);
	return tokens[DSV4_PREFILL];
}

void engine_step(struct engine *e)
{
	long long begun = clock_ns();
	int beside;

	if (scheduler_plan(&e->sched) == 0)
		return;
	engine_shadow_begin(e);
	beside = engine_batches(e);
	engine_shadow_end(e);
	atomic_store(&e->step_end_ns, clock_ns());
	tally_step(&e->tally, clock_since(begun), beside);
	lock_take(&e->lock);
	e->count.steps++;
	e->count.pace.decode = e->sched.pace.decode;
	e->count.pace.token = e->sched.pace.token;
	lock_drop(&e->lock);
}
