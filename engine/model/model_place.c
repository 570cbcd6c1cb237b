/* SPDX-License-Identifier: MIT
 * model_place.c - a model's weights on a GPU: all of them where they fit, else some of the routed experts in pinned
 * memory of the host, which the GPU reads through the bus.
 * Threads: one, before anything runs. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/model/model.h"
#include "engine/model/placement_split.h"
#include "plugins/op/op_cost.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

struct place {
	struct model *m;
	struct device *d;
	struct buf *why;
	bool counting;               /* only sums up */
	bool on_host;                /* what comes now lies in the host's memory */
	int64_t resident;            /* experts of a layer that do not */
	uint64_t bytes;
	int rc;
};

/* ---- one tensor ---- */

static void place_bytes(struct place *p, const void *data, size_t bytes)
{
	if (!data || p->rc)
		return;
	p->bytes += bytes;
	if (p->counting)
		return;
	if (p->m->progress)
		p->m->progress(p->m->progress_arg, "copying weights to the GPU");
	p->rc = (p->on_host ? device_keep_host : device_keep)(p->d, data, bytes, p->why);
}

static void place_vector(struct place *p, const float *v, int64_t n)
{
	place_bytes(p, v, (size_t)n * sizeof *v);
}

static void place_weight(struct place *p, const struct dsv4_weight *w)
{
	if (!w->data)
		return;
	place_bytes(p, w->data, op_cost_data((enum dsv4_wfmt)w->fmt, w->rows, w->cols));
	place_bytes(p, w->scale, op_cost_scale((enum dsv4_sfmt)w->sfmt, (enum dsv4_wfmt)w->fmt, w->rows, w->cols));
}

static void place_expert(struct place *p, const struct dsv4_expert *e)
{
	place_weight(p, &e->w1);
	place_weight(p, &e->w2);
	place_weight(p, &e->w3);
}

static void place_hc(struct place *p, const struct dsv4_hc_weights *w, bool head)
{
	const struct model_config *c = p->m->config;
	int64_t n_mix = head ? c->hc_mult : (2 + c->hc_mult) * (int64_t)c->hc_mult;

	place_vector(p, w->fn, n_mix * c->hc_mult * c->hidden_size);
	place_vector(p, w->base, n_mix);
	place_vector(p, w->scale, head ? 1 : 3);
}

static void place_compressor(struct place *p, const struct weights_compressor *w, int ratio, int dim)
{
	place_weight(p, &w->wkv);
	place_weight(p, &w->wgate);
	place_vector(p, w->ape, (int64_t)ratio * dim * (ratio == 4 ? 2 : 1));
	place_vector(p, w->norm, dim);
}

/* ---- layers ---- */

static void place_routing(struct place *p, const struct weights_layer *w)
{
	const struct model_config *c = p->m->config;

	place_weight(p, &w->gate);
	place_vector(p, w->gate_bias, c->n_experts);
	place_bytes(p, w->tid2eid, (size_t)c->vocab_size * (size_t)c->experts_per_tok * sizeof *w->tid2eid);
	for (int i = 0; i < c->n_shared_experts; i++)
		place_expert(p, &w->shared[i]);
}

static void place_attention(struct place *p, const struct weights_layer *w)
{
	const struct model_config *c = p->m->config;

	place_vector(p, w->q_norm, c->q_lora_rank);
	place_vector(p, w->kv_norm, c->head_dim);
	place_vector(p, w->sink, c->n_heads);
	place_weight(p, &w->wq_a);
	place_weight(p, &w->wq_b);
	place_weight(p, &w->wkv);
	place_weight(p, &w->wo_a);
	place_weight(p, &w->wo_b);
	if (w->ratio)
		place_compressor(p, &w->compressor, w->ratio, c->head_dim);
	if (w->ratio != 4)
		return;
	place_weight(p, &w->indexer.wq_b);
	place_weight(p, &w->indexer.weights_proj);
	place_compressor(p, &w->indexer.compressor, w->ratio, c->index_dim);
}

static void place_layer(struct place *p, const struct weights_layer *w)
{
	place_hc(p, &w->hc_attn, false);
	place_hc(p, &w->hc_ffn, false);
	place_vector(p, w->attn_norm, p->m->config->hidden_size);
	place_vector(p, w->ffn_norm, p->m->config->hidden_size);
	place_attention(p, w);
	place_routing(p, w);
}

/* Layer n_layers is the draft block; NULL where there is none. */
static const struct weights_layer *place_layer_of(const struct model *m, int i)
{
	const struct model_weights *w = m->weights;

	return i < m->config->n_layers ? &w->layer[i] : w->mtp ? &w->mtp->layer : NULL;
}

/* All but the routed experts, and the embedding, which the host looks up. */
static void place_dense(struct place *p)
{
	const struct model_weights *w = p->m->weights;
	int64_t dim = p->m->config->hidden_size;

	place_weight(p, &w->head);
	place_vector(p, w->norm, dim);
	place_hc(p, &w->hc_head, true);
	for (int i = 0; i <= p->m->config->n_layers; i++)
		if (place_layer_of(p->m, i))
			place_layer(p, place_layer_of(p->m, i));
	if (!w->mtp)
		return;
	place_weight(p, &w->mtp->e_proj);
	place_weight(p, &w->mtp->h_proj);
	place_vector(p, w->mtp->enorm, dim);
	place_vector(p, w->mtp->hnorm, dim);
	place_vector(p, w->mtp->norm, dim);
	place_hc(p, &w->mtp->hc_head, true);
}

/* The model may have some experts of a layer only: others are another GPU's. */
static bool place_has(const struct dsv4_expert *e)
{
	return e->w1.data != NULL;
}

static void place_experts(struct place *p)
{
	for (int i = 0; i <= p->m->config->n_layers; i++) {
		const struct weights_layer *w = place_layer_of(p->m, i);
		int64_t n = 0;

		for (int e = 0; w && e < p->m->config->n_experts; e++) {
			if (!place_has(&w->expert[e]))
				continue;
			p->on_host = n++ >= p->resident;
			place_expert(p, &w->expert[e]);
		}
	}
	p->on_host = false;
}

/* ---- tables of experts ---- */

static void place_translate(struct device *d, struct dsv4_weight *w)
{
	w->data = device_address(d, w->data);
	w->scale = device_address(d, w->scale);
}

static void place_translated(struct device *d, const struct dsv4_expert *from, int n, struct dsv4_expert *to)
{
	for (int i = 0; i < n; i++) {
		to[i] = from[i];
		place_translate(d, &to[i].w1);
		place_translate(d, &to[i].w2);
		place_translate(d, &to[i].w3);
	}
}

/* Which of a layer place_experts() has put into the host's memory. */
static void place_outside(const struct place *p, const struct weights_layer *w, bool *outside)
{
	int64_t n = 0;

	for (int i = 0; i < p->m->config->n_experts; i++)
		outside[i] = place_has(&w->expert[i]) && n++ >= p->resident;
}

static int place_tables(struct place *p)
{
	const struct model_config *c = p->m->config;
	struct model *m = p->m;

	m->experts = mem_new((size_t)(c->n_layers + 1) * sizeof *m->experts);
	for (int i = 0; i <= c->n_layers; i++) {
		const struct weights_layer *w = place_layer_of(m, i);
		struct model_experts *e = &m->experts[i];

		if (!w)
			continue;
		e->expert = mem_try((size_t)c->n_experts, sizeof *e->expert);
		e->shared = mem_try((size_t)c->n_shared_experts, sizeof *e->shared);
		e->outside = mem_try((size_t)c->n_experts, sizeof *e->outside);
		e->table = device_alloc(p->d, (size_t)c->n_experts, sizeof *e->table);
		if (!e->expert || !e->shared || !e->outside || !e->table)
			return buf_why(p->why, -ENOMEM, "no memory for the tables of experts");
		place_translated(p->d, w->expert, c->n_experts, e->expert);
		place_translated(p->d, w->shared, c->n_shared_experts, e->shared);
		place_translated(p->d, w->expert, c->n_experts, e->table);
		place_outside(p, w, e->outside);
	}
	return 0;
}

void model_unplace(struct model *m)
{
	for (int i = 0; m->experts && i <= m->config->n_layers; i++) {
		free(m->experts[i].expert);
		free(m->experts[i].shared);
		free(m->experts[i].outside);
		device_free(m->layout.device, m->experts[i].table);
	}
	free(m->experts);
	m->experts = NULL;
}

/* ---- the whole ---- */

static uint64_t place_sum(struct place *p, void (*walk)(struct place *p))
{
	p->counting = true;
	p->bytes = 0;
	walk(p);
	p->counting = false;
	return p->bytes;
}

/* The most that an expert of the layer takes; ret_n: how many it has here. */
static uint64_t place_most(const struct model *m, int layer, uint64_t (*bytes)(const struct dsv4_weight *),
			   int64_t *ret_n)
{
	const struct weights_layer *w = place_layer_of(m, layer);
	uint64_t most = 0;

	*ret_n = 0;
	for (int e = 0; w && e < m->config->n_experts; e++) {
		const struct dsv4_expert *x = &w->expert[e];
		uint64_t n = place_has(x) ? bytes(&x->w1) + bytes(&x->w2) + bytes(&x->w3) : 0;

		most = n > most ? n : most;
		*ret_n += place_has(x);
	}
	return most;
}

static void place_need(struct place *p, struct placement_need *ret_n)
{
	struct placement_need n = { .sequence = sequence_layout_bytes(&p->m->layout, 0) };
	int64_t here;

	n.dense = place_sum(p, place_dense);
	n.experts = place_sum(p, place_experts);
	n.slot = place_most(p->m, 0, placement_slot, &here);
	for (int i = 0; i <= p->m->config->n_layers; i++) {
		n.row += place_most(p->m, i, placement_matrix, &here);
		n.per_layer = here > n.per_layer ? here : n.per_layer;
	}
	*ret_n = n;
}

static int place_where(struct place *p)
{
	struct placement_need n;
	struct placement_split s;
	struct device_view v;

	place_need(p, &n);
	device_view(p->d, &v);
	if (placement_split(v.total, v.free, &n, &s))
		return buf_why(p->why, -ENOMEM,
			       "%s has %" PRIu64 " of %" PRIu64 " bytes free; the weights without the routed "
			       "experts take %" PRIu64 ", and work needs some, too", device_name(p->d), v.free, v.total,
			       n.dense);
	p->resident = s.resident;
	p->m->expert_slot_bytes = n.slot;
	p->m->expert_slots = s.slots < INT_MAX ? (int)s.slots : INT_MAX;
	return 0;
}

int model_place(struct model *m, struct device *d, struct buf *why)
{
	struct place p = { .m = m, .d = d, .why = why };

	m->layout.device = d;
	if (!device_is_gpu(d))
		return 0;
	p.rc = place_where(&p);
	if (p.rc == 0)
		place_dense(&p);
	if (p.rc == 0)
		place_experts(&p);
	if (p.rc == 0)
		p.rc = device_kept(d, why);
	return p.rc ? p.rc : place_tables(&p);
}
