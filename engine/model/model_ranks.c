/* SPDX-License-Identifier: MIT
 * model_ranks.c - a model on several GPUs: for each a shard, the same weights but for the slices that it alone has.
 * Threads: one, before anything runs, and one for each further GPU while weights are copied. Locks: none. */
#include "engine/base/altstack.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/device/ranks.h"
#include "engine/model/model.h"
#include "engine/model/model_share.h"
#include "plugins/op/op_cost.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* ---- what is cut ---- */

/* Has the layer an FP8 matrix of those that go by heads? */
static bool model_has_blocks(const struct weights_layer *w)
{
	return w->wq_b.fmt == DSV4_W_FP8 || w->wo_a.fmt == DSV4_W_FP8;
}

static bool model_cuts_heads(const struct model *m, int n_rank)
{
	const struct model_weights *w = m->weights;
	bool blocks = w->mtp && model_has_blocks(&w->mtp->layer);

	for (int i = 0; i < m->config->n_layers; i++)
		blocks = blocks || model_has_blocks(&w->layer[i]);
	return model_can_cut_heads(m->config, n_rank, blocks);
}

/* ---- slices ---- */

/* Rows from `first` on; their scales begin with them. */
static void model_cut_rows(struct dsv4_weight *w, int64_t first, int64_t n)
{
	w->data = n ? (const char *)w->data + op_cost_data((enum dsv4_wfmt)w->fmt, first, w->cols) : NULL;
	if (w->scale)
		w->scale = (const char *)w->scale + op_cost_scale((enum dsv4_sfmt)w->sfmt, (enum dsv4_wfmt)w->fmt,
								  first, w->cols);
	w->rows = n;
}

static void model_drop_weight(struct dsv4_weight *w)
{
	w->data = w->scale = NULL;
}

/* A copy of which only [first, first + n) have their matrices; kernels add nothing for the others. */
static struct dsv4_expert *model_some_experts(const struct dsv4_expert *from, int count, int64_t first, int64_t n)
{
	struct dsv4_expert *e = mem_new((size_t)(count ? count : 1) * sizeof *e);

	for (int i = 0; i < count; i++) {
		e[i] = from[i];
		if (i >= first && i < first + n)
			continue;
		model_drop_weight(&e[i].w1);
		model_drop_weight(&e[i].w2);
		model_drop_weight(&e[i].w3);
	}
	return e;
}

static void model_cut_heads(const struct model *v, struct weights_layer *w)
{
	int64_t heads = v->config->n_heads, groups = v->config->o_groups, lora = v->config->o_lora_rank;

	model_cut_rows(&w->wq_b, v->rank * heads * v->config->head_dim, heads * v->config->head_dim);
	model_cut_rows(&w->wo_a, v->rank * groups * lora, groups * lora);
	w->sink += v->rank * heads;
}

static void model_cut_layer(const struct model *v, int layer, struct weights_layer *w)
{
	const struct model_config *c = v->config;
	int64_t first, n = model_share_of(c->n_experts, v->rank, v->n_rank, &first);

	if (v->heads_cut)
		model_cut_heads(v, w);
	w->expert = model_some_experts(w->expert, c->n_experts, first, n);
	w->shared = model_some_experts(w->shared, c->n_shared_experts, 0,
				       layer % v->n_rank == v->rank ? c->n_shared_experts : 0);
	w->packed = NULL;
}

/* ---- shards ---- */

static struct model_weights *model_cut_weights(const struct model *m, struct model *v)
{
	const struct model_weights *from = m->weights;
	struct model_weights *w = mem_new(sizeof *w);
	int64_t rows = model_head_share(&from->config, v->rank, v->n_rank, &v->lm_head_row);
	int n = from->config.n_layers;

	*w = *from;
	v->config = &w->config;
	if (v->heads_cut) {
		w->config.n_heads /= v->n_rank;
		w->config.o_groups /= v->n_rank;
	}
	w->owned = NULL;
	w->n_owned = w->cap_owned = 0;
	model_cut_rows(&w->head, v->lm_head_row, rows);
	w->layer = mem_new((size_t)n * sizeof *w->layer);
	for (int i = 0; i < n; i++) {
		w->layer[i] = from->layer[i];
		model_cut_layer(v, i, &w->layer[i]);
	}
	if (from->mtp) {
		w->mtp = mem_new(sizeof *w->mtp);
		*w->mtp = *from->mtp;
		model_cut_layer(v, n, &w->mtp->layer);
	}
	return w;
}

static struct model *model_shard_new(const struct model *m, int rank, bool heads_cut)
{
	struct model *s = mem_new(sizeof *s);

	*s = *m;
	s->shard = NULL;
	s->whole = m;
	s->rank = rank;
	s->heads_cut = heads_cut;
	s->layout.n_other = 0;
	s->weights = model_cut_weights(m, s);
	return s;
}

static void model_shard_free(struct model **ps)
{
	struct model *s = *ps;
	struct model_weights *w;

	*ps = NULL;
	if (!s)
		return;
	model_unplace(s);
	w = s->weights;
	for (int i = 0; i <= w->config.n_layers; i++) {
		struct weights_layer *y = i < w->config.n_layers ? &w->layer[i] : w->mtp ? &w->mtp->layer : NULL;

		if (y) {
			free(y->expert);
			free(y->shared);
		}
	}
	free(w->mtp);
	free(w->layer);
	free(w);
	free(s);
}

/* ---- placing ---- */

struct model_placing {
	struct model *shard;
	struct device *device;
	pthread_t thread;
	bool started;
	struct buf why;
	int rc;
};

static void *model_placing_run(void *arg)
{
	struct model_placing *p = arg;

	altstack_use(); /* files that end early, as they are copied */
	p->rc = model_place(p->shard, p->device, &p->why);
	return NULL;
}

static void model_placing_start(struct model_placing *p)
{
	static const int own[] = { SIGSEGV, SIGBUS }; /* a file's doing */
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	for (size_t i = 0; i < mem_countof(own); i++)
		sigdelset(&all, own[i]);
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = pthread_create(&p->thread, NULL, model_placing_run, p);
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	p->started = rc == 0;
	if (rc)
		p->rc = buf_why(&p->why, -rc, "no thread to copy weights to %s", device_name(p->device));
}

/* All GPUs at once, each with a thread: one alone reads memory no faster than its bus. The first failure, in order. */
static int model_place_shards(struct model *m, struct ranks *r, struct buf *why)
{
	struct model_placing *all = mem_new((size_t)m->n_rank * sizeof *all);
	int rc = 0;

	for (int i = 0; i < m->n_rank; i++) {
		all[i].shard = m->shard[i];
		all[i].device = ranks_device(r, i);
		if (i)
			model_placing_start(&all[i]);
	}
	(void)model_placing_run(&all[0]);
	for (int i = 0; i < m->n_rank; i++) {
		if (all[i].started)
			must_zero(pthread_join(all[i].thread, NULL));
		if (all[i].rc && rc == 0)
			rc = buf_why(why, all[i].rc, "%s", buf_str(&all[i].why));
		buf_fini(&all[i].why);
	}
	free(all);
	return rc;
}

int model_place_ranks(struct model *m, struct ranks *r, struct buf *why)
{
	int n = ranks_n(r);
	bool heads_cut = model_cuts_heads(m, n);

	if (n == 1)
		return model_place(m, ranks_device(r, 0), why);
	must(n <= 1 + SEQUENCE_MAX_OTHERS);
	m->ranks = r;
	m->n_rank = n;
	m->layout.device = ranks_device(r, 0);
	m->shard = mem_new((size_t)n * sizeof(struct model *));
	for (int i = 0; i < n; i++)
		m->shard[i] = model_shard_new(m, i, heads_cut);
	for (int i = 1; i < n; i++)
		m->layout.other[m->layout.n_other++] = &m->shard[i]->layout;
	return model_place_shards(m, r, why);
}

void model_unplace_ranks(struct model *m)
{
	for (int i = 0; m->shard && i < m->n_rank; i++)
		model_shard_free(&m->shard[i]);
	free(m->shard);
	m->shard = NULL;
}
