/* SPDX-License-Identifier: MIT
 * forward_ranks.c - a step on several GPUs: a thread for each, the same pass on all of them,
 * and what they give each other.
 * Threads: rank 0's is the caller's, the others are made here. Lock: a leaf in struct forward_crew.
 *
 * Every GPU computes all that it has a copy of, so that in a layer only two things cross: what each one's heads gave,
 * before the second output projection, and what each one's experts gave, which all of them add up in the same order.
 * Who fails says so where the others wait before they give; so nobody waits for what will not come. */
#include "engine/base/altstack.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/device/ranks.h"
#include "engine/model/forward_priv.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define FORWARD_PLAIN_PASSES 64 /* until a graph is tried again that there was no memory for */

/* A GPU beside the first. */
struct forward_other {
	struct forward_crew *crew;
	struct forward *forward;
	struct pool *pool;
	pthread_t thread;
	bool started;
	struct buf why;
	int rc;                        /* of the last pass */
};

struct forward_crew {
	struct ranks *ranks;
	pthread_mutex_t mutex;         /* a leaf; for all below but `other`, which a pass's end hands over */
	pthread_cond_t wake, done;
	uint64_t pass;                 /* counts them */
	int running;                   /* others that have not ended the pass */
	bool stopping;
	forward_pass_f *run;
	const void *batch;
	int n;
	struct forward_other *other;   /* [n] */
};

/* ---- a pass of one rank ---- */

/* Once more where a GPU has no memory for a graph: nothing that was captured has run, and all ranks come here alike. */
static int forward_one(struct forward *f, forward_pass_f *pass, const void *batch)
{
	int rc;

	f->n_pass++;
	rc = pass(f, batch);
	if (rc != FORWARD_NO_GRAPH)
		return rc;
	f->plain_until = f->n_pass + FORWARD_PLAIN_PASSES;
	return pass(f, batch);
}

/* ---- threads ---- */

/* Waits for the pass after `last`; false: there is none any more. */
static bool forward_crew_wait(struct forward_crew *c, uint64_t last)
{
	bool more;

	must_zero(pthread_mutex_lock(&c->mutex));
	while (c->pass == last && !c->stopping)
		must_zero(pthread_cond_wait(&c->wake, &c->mutex));
	more = !c->stopping;
	must_zero(pthread_mutex_unlock(&c->mutex));
	return more;
}

static void *forward_crew_main(void *arg)
{
	struct forward_other *o = arg;
	struct forward_crew *c = o->crew;

	altstack_use();
	for (uint64_t pass = 0; forward_crew_wait(c, pass); pass++) {
		o->rc = forward_one(o->forward, c->run, c->batch);
		must_zero(pthread_mutex_lock(&c->mutex));
		if (--c->running == 0)
			must_zero(pthread_cond_signal(&c->done));
		must_zero(pthread_mutex_unlock(&c->mutex));
	}
	return NULL;
}

static int forward_other_start(struct forward_other *o)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE }; /* a kernel's doing: as for a pool's workers */
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	for (size_t i = 0; i < mem_countof(own); i++)
		sigdelset(&all, own[i]);
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = pthread_create(&o->thread, NULL, forward_crew_main, o);
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	o->started = rc == 0;
	return -rc;
}

/* Its ops that the CPU computes have their part of the threads that there are. */
static int forward_other_open(struct forward_other *o, const struct forward *f, const struct model *shard)
{
	int n = pool_threads(f->pool) / (int)(1 + o->crew->n), rc = pool_new(n > 0 ? n : 1, &o->pool);

	if (rc)
		return rc;
	o->forward = forward_new(shard, o->pool);
	o->forward->max_scores = f->max_scores;
	o->forward->why = &o->why;
	if (f->keep_experts)
		forward_keep_experts(o->forward, f->keep_experts);
	return forward_other_start(o);
}

static int forward_crew_new(struct forward *f, struct buf *why)
{
	const struct model *whole = f->m->whole;
	struct forward_crew *c = mem_new(sizeof *c);
	int rc = 0;

	f->crew = c;
	c->ranks = whole->ranks;
	c->n = whole->n_rank - 1;
	c->other = mem_new((size_t)c->n * sizeof *c->other);
	must_zero(pthread_mutex_init(&c->mutex, NULL));
	must_zero(pthread_cond_init(&c->wake, NULL));
	must_zero(pthread_cond_init(&c->done, NULL));
	for (int i = 0; i < c->n && rc == 0; i++) {
		c->other[i].crew = c;
		rc = forward_other_open(&c->other[i], f, whole->shard[1 + i]);
	}
	if (rc) {
		forward_crew_free(&f->crew);
		return buf_why(why, rc, "cannot start a thread for each of %d GPUs", whole->n_rank);
	}
	return 0;
}

void forward_crew_free(struct forward_crew **pc)
{
	struct forward_crew *c = *pc;

	*pc = NULL;
	if (!c)
		return;
	must_zero(pthread_mutex_lock(&c->mutex));
	c->stopping = true;
	must_zero(pthread_cond_broadcast(&c->wake));
	must_zero(pthread_mutex_unlock(&c->mutex));
	for (int i = 0; i < c->n; i++) {
		struct forward_other *o = &c->other[i];

		if (o->started)
			must_zero(pthread_join(o->thread, NULL));
		forward_free(&o->forward);
		pool_free(&o->pool);
		buf_fini(&o->why);
	}
	must_zero(pthread_cond_destroy(&c->wake));
	must_zero(pthread_cond_destroy(&c->done));
	must_zero(pthread_mutex_destroy(&c->mutex));
	free(c->other);
	free(c);
}

/* ---- a step ---- */

static void forward_crew_begin(struct forward_crew *c, forward_pass_f *pass, const void *batch)
{
	for (int i = 0; i < c->n; i++)
		buf_clear(&c->other[i].why);
	must_zero(pthread_mutex_lock(&c->mutex));
	c->run = pass;
	c->batch = batch;
	c->running = c->n;
	c->pass++;
	must_zero(pthread_cond_broadcast(&c->wake));
	must_zero(pthread_mutex_unlock(&c->mutex));
}

/* All have ended. The first failure, in the words of who failed: the others only know that. */
static int forward_crew_end(struct forward_crew *c, int rc, size_t said, struct buf *why)
{
	must_zero(pthread_mutex_lock(&c->mutex));
	while (c->running)
		must_zero(pthread_cond_wait(&c->done, &c->mutex));
	must_zero(pthread_mutex_unlock(&c->mutex));
	for (int i = 0; i < c->n; i++) {
		struct forward_other *o = &c->other[i];

		rc = rc ? rc : o->rc;
		if (rc && o->why.len && why && why->len == said)
			buf_printf(why, "rank %d: %s", i + 1, buf_str(&o->why));
	}
	return rc;
}

static int forward_crew_run(struct forward *f, forward_pass_f *pass, const void *batch, struct buf *why)
{
	size_t said = why ? why->len : 0;
	int rc = f->crew ? 0 : forward_crew_new(f, why);

	if (rc)
		return rc;
	f->waited_ns += ranks_begin(f->crew->ranks);
	forward_crew_begin(f->crew, pass, batch);
	rc = forward_one(f, pass, batch);
	rc = forward_crew_end(f->crew, rc, said, why);
	ranks_end(f->crew->ranks);
	return rc;
}

int forward_all(struct forward *f, forward_pass_f *pass, const void *batch, struct buf *why)
{
	int rc;

	must(f->rank == 0);
	f->why = why;
	rc = f->m->n_rank < 2 ? forward_one(f, pass, batch) : forward_crew_run(f, pass, batch, why);
	if (rc == 0)
		forward_tell_end(f);
	return rc;
}

long long forward_waited(const struct forward *f)
{
	return f->waited_ns;
}

int forward_agree(struct forward *f, int rc)
{
	if (f->told)
		return rc;
	if (f->m->n_rank >= 2)
		rc = ranks_agree(f->m->ranks, f->rank, rc);
	f->told = f->m->n_rank < 2 ? rc == FORWARD_NO_GRAPH : rc != 0;
	return rc;
}

int forward_agree_queue(struct forward *f, int rc)
{
	return forward_agree(f, rc || f->m->n_rank < 2 ? rc : queue_failed(f->queue));
}

int forward_agree_launch(struct forward *f, int rc)
{
	return forward_agree(f, rc ? rc : forward_ready(f));
}

/* ---- what crosses ---- */

int forward_prepare_ranks(struct forward *f)
{
	const struct model_config *d = f->m->config;
	size_t n = (size_t)f->m->n_rank, oa = f->m->heads_cut ? (size_t)d->o_groups * (size_t)d->o_lora_rank : 0;
	size_t part = oa > (size_t)d->hidden_size ? oa : (size_t)d->hidden_size;
	int rc;

	if (n < 2)
		return 0;
	rc = forward_grow(f, FORWARD_B_ranks, n * (size_t)f->n_tok * part, sizeof *f->ranks);
	if (rc == 0 && oa)
		rc = forward_grow(f, FORWARD_B_oa_all, (size_t)f->n_tok * n * oa, sizeof *f->oa_all);
	return rc;
}

/* f->ranks gets every rank's n floats at `part`. */
static int forward_gather(struct forward *f, const float *part, size_t n)
{
	int rc = forward_agree(f, 0);

	if (rc == 0)
		ranks_gather(f->m->ranks, f->rank, f->queue, f->ranks, part, n * sizeof *part);
	return rc;
}

int forward_join_heads(struct forward *f, const float **ret_oa)
{
	size_t n_tok = (size_t)f->n_tok, n = (size_t)f->m->n_rank;
	size_t width = (size_t)f->m->config->o_groups * (size_t)f->m->config->o_lora_rank, row = width * sizeof(float);
	int rc;

	*ret_oa = f->oa;
	if (!f->m->heads_cut)
		return 0;
	rc = forward_gather(f, f->oa, n_tok * width);
	for (size_t i = 0; i < n && rc == 0; i++)
		queue_move_rows(f->queue, f->oa_all + i * width, n * row, f->ranks + i * n_tok * width, row, n_tok,
				row);
	*ret_oa = f->oa_all;
	return rc;
}

int forward_join_experts(struct forward *f)
{
	int64_t dim = f->m->config->hidden_size;
	struct dsv4_sum a = {
		.dim = (int32_t)dim,
		.n_row = f->n_tok,
		.n_part = f->m->n_rank,
		.every = 1,
		.x = f->ranks,
		.ldx = dim,
		.ldp = f->n_tok * dim,
		.y = f->y,
		.ldy = dim,
	};
	int rc;

	if (f->m->n_rank < 2)
		return 0;
	rc = forward_gather(f, f->y, (size_t)(f->n_tok * dim));
	return rc ? rc : forward_sum(f, DSV4_W_F32, FORWARD_PLAIN, &a);
}
