/* SPDX-License-Identifier: MIT
 * weights.c - a checkpoint's tensors bound to the places where the forward pass reads them.
 * Threads: one opens and closes, any read in between. Locks: none. */
#include "engine/checkpoint/weights.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inventory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A field of the wrong type would be written through a void pointer: checked here, row by row. */
#define WEIGHTS_TYPE_NORM const float *
#define WEIGHTS_TYPE_F32 const float *
#define WEIGHTS_TYPE_I64 const int64_t *
#define WEIGHTS_TYPE_PLAIN struct dsv4_weight
#define WEIGHTS_TYPE_DENSE struct dsv4_weight
#define WEIGHTS_TYPE_ROUTED struct dsv4_weight
#define WEIGHTS_STRUCT_TOP struct model_weights
#define WEIGHTS_STRUCT_BLOCK struct weights_layer
#define WEIGHTS_STRUCT_HASH struct weights_layer
#define WEIGHTS_STRUCT_LEARNED struct weights_layer
#define WEIGHTS_STRUCT_POOLED struct weights_layer
#define WEIGHTS_STRUCT_CSA struct weights_layer
#define WEIGHTS_STRUCT_EXPERT struct dsv4_expert
#define WEIGHTS_STRUCT_SHARED struct dsv4_expert
#define WEIGHTS_STRUCT_MTP struct weights_mtp
#define TENSOR(scope, kind, family, field, name, rows, cols) \
	_Static_assert(__builtin_types_compatible_p(WEIGHTS_TYPE_##kind, \
		       __typeof__(((WEIGHTS_STRUCT_##scope *)NULL)->field)), "type of " #field);
#define DSPARK(where, kind, family, name, rows, cols)
#include "engine/checkpoint/tensors.def"
#undef TENSOR
#undef DSPARK

struct weights_binder {
	struct model_weights *w;
	struct buf *why;
	bool dspark;
};

/* ---- memory ---- */

/* Memory that weights_close() frees, zeroed; NULL when short. */
static void *weights_own(struct model_weights *w, size_t n, size_t size)
{
	void *p = mem_try(n, size);

	if (!p)
		return NULL;
	if (w->n_owned == w->cap_owned) {
		w->cap_owned = w->cap_owned ? w->cap_owned * 2 : 64;
		w->owned = mem_grow(w->owned, (size_t)w->cap_owned, sizeof *w->owned);
	}
	w->owned[w->n_owned++] = p;
	return p;
}

static int weights_no_memory(struct buf *why, const char *what)
{
	return buf_why(why, -ENOMEM, "out of memory for %s", what);
}

/* ---- binding one item ---- */

/* f32 where the file has it aligned; else a copy, widened from BF16. */
static int weights_vector(struct weights_binder *b, const struct inventory_item *it, const float **ret_v)
{
	const unsigned char *data = checkpoint_data(b->w->checkpoint, it->data);
	size_t n = (size_t)(it->row->rows * (it->row->cols ? it->row->cols : 1)), i;
	bool wide = it->data->t->dtype == ST_F32;
	float *v;

	if (wide && (uintptr_t)data % sizeof(float) == 0) {
		*ret_v = (const float *)(const void *)data;
		return 0;
	}
	v = weights_own(b->w, n, sizeof *v);
	if (!v)
		return weights_no_memory(b->why, it->name);
	if (wide)
		memcpy(v, data, n * sizeof *v);
	for (i = 0; !wide && i < n; i++) {
		uint16_t h;

		memcpy(&h, data + i * sizeof h, sizeof h);
		v[i] = dsv4_bf16_to_f32(h);
	}
	*ret_v = v;
	return 0;
}

/* An id beyond the experts would make the router read outside its arrays: checked once, here. */
static int weights_table(struct weights_binder *b, const struct inventory_item *it, const int64_t **ret_v)
{
	const struct checkpoint *ck = b->w->checkpoint;
	const unsigned char *data = checkpoint_data(ck, it->data);
	size_t n = (size_t)(it->row->rows * it->row->cols), i;
	int64_t id;

	for (i = 0; i < n; i++) {
		memcpy(&id, data + i * sizeof id, sizeof id);
		if (id < 0 || id >= ck->config.n_experts)
			return buf_why(b->why, RC_MODEL,
				       "%s: tensor %s: expected expert ids below %d, found %" PRId64
				       " for token %zu",
				       checkpoint_file_name(ck, it->data), it->name, ck->config.n_experts, id,
				       i / (size_t)it->row->cols);
	}
	*ret_v = (const int64_t *)(const void *)data;
	return 0;
}

static void weights_matrix(struct weights_binder *b, const struct inventory_item *it,
			   struct dsv4_weight *ret_w)
{
	const struct checkpoint *ck = b->w->checkpoint;

	*ret_w = (struct dsv4_weight){
		.size = sizeof *ret_w,
		.fmt = it->fmt,
		.sfmt = it->sfmt,
		.rows = it->row->rows,
		.cols = it->row->cols,
		.data = checkpoint_data(ck, it->data),
		.scale = it->scale ? checkpoint_data(ck, it->scale) : NULL,
		.scale2 = 1,
	};
	if (it->scale2)
		memcpy(&ret_w->scale2, checkpoint_data(ck, it->scale2), sizeof ret_w->scale2);
}

/* The struct that the item's field lies in; NULL for what is recognised and not used. */
static void *weights_place(struct weights_binder *b, const struct inventory_item *it)
{
	struct model_weights *w = b->w;
	struct weights_layer *l;

	if (it->row->scope == INVENTORY_TOP)
		return w;
	if (it->mtp && (b->dspark || it->layer > 0))
		return NULL;
	if (it->row->scope == INVENTORY_MTP)
		return w->mtp;
	l = it->mtp ? &w->mtp->layer : &w->layer[it->layer];
	return it->row->scope == INVENTORY_EXPERT ? (void *)&l->expert[it->expert] :
	       it->row->scope == INVENTORY_SHARED ? (void *)&l->shared[0] : (void *)l;
}

static int weights_bind(void *arg, const struct inventory_item *it)
{
	struct weights_binder *b = arg;
	char *place = weights_place(b, it);
	void *field = place ? place + it->row->offset : NULL;

	if (!field)
		return 0;
	switch ((enum inventory_kind)it->row->kind) {
	case INVENTORY_NORM:
	case INVENTORY_F32:
		return weights_vector(b, it, field);
	case INVENTORY_I64:
		return weights_table(b, it, field);
	default:
		weights_matrix(b, it, field);
		return 0;
	}
}

/* ---- the whole model ---- */

static int weights_layer_init(struct model_weights *w, struct weights_layer *l, int ratio)
{
	const struct model_config *c = &w->config;

	l->ratio = ratio;
	l->expert = weights_own(w, (size_t)c->n_experts, sizeof *l->expert);
	l->shared = weights_own(w, (size_t)c->n_shared_experts, sizeof *l->shared);
	return l->expert && l->shared ? 0 : -ENOMEM;
}

static int weights_alloc(struct weights_binder *b)
{
	struct model_weights *w = b->w;
	int i, rc = 0;

	w->layer = weights_own(w, (size_t)w->config.n_layers, sizeof *w->layer);
	if (w->config.n_mtp > 0 && !b->dspark)
		w->mtp = weights_own(w, 1, sizeof *w->mtp);
	if (!w->layer || (w->config.n_mtp > 0 && !b->dspark && !w->mtp))
		rc = -ENOMEM;
	for (i = 0; rc == 0 && i < w->config.n_layers; i++)
		rc = weights_layer_init(w, &w->layer[i], w->config.compress_ratio[i]);
	if (rc == 0 && w->mtp)
		rc = weights_layer_init(w, &w->mtp->layer, 0);
	return rc ? weights_no_memory(b->why, "the table of tensors") : 0;
}

static int weights_other_format(const struct checkpoint *ck, const char *block, int layer, int expert, int w,
				struct buf *why)
{
	const struct checkpoint_tensor *t;
	char name[96];

	snprintf(name, sizeof name, "%s.%d.ffn.experts.%d.w%d.weight", block, layer, expert, w);
	t = checkpoint_find(ck, name);
	must(t != NULL);
	return buf_why(why, RC_UNSUPPORTED,
		       "%s: tensor %s: expected the number format of the block's first expert, found another",
		       checkpoint_file_name(ck, t), name);
}

/* One kernel computes all experts of a block, chosen by weight format. */
static int weights_same_format(const struct weights_layer *l, const struct checkpoint *ck, const char *block,
			       int layer, struct buf *why)
{
	const struct dsv4_weight *first = &l->expert[0].w1;
	int e, i;

	for (e = 0; e < ck->config.n_experts; e++) {
		const struct dsv4_weight *const w[] = { &l->expert[e].w1, &l->expert[e].w2,
							&l->expert[e].w3 };

		for (i = 0; i < 3; i++)
			if (w[i]->fmt != first->fmt || w[i]->sfmt != first->sfmt)
				return weights_other_format(ck, block, layer, e, i + 1, why);
	}
	return 0;
}

static int weights_bind_all(struct weights_binder *b)
{
	struct model_weights *w = b->w;
	struct inventory inv;
	int rc, i;

	b->dspark = checkpoint_find(w->checkpoint, "mtp.0.main_proj.weight") != NULL;
	rc = weights_alloc(b);
	if (rc)
		return rc;
	rc = inventory_walk(w->checkpoint, weights_bind, b, &inv);
	if (rc == -ENOMEM && b->why && b->why->len == 0)
		weights_no_memory(b->why, "the check of the tensors");
	rc = rc ? rc : inventory_verdict(&inv, b->why);
	inventory_fini(&inv);
	for (i = 0; rc == 0 && i < w->config.n_layers; i++)
		rc = weights_same_format(&w->layer[i], w->checkpoint, "layers", i, b->why);
	if (rc == 0 && w->mtp)
		rc = weights_same_format(&w->mtp->layer, w->checkpoint, "mtp", 0, b->why);
	return rc;
}

int weights_open(const char *dir, struct model_weights **ret_w, struct buf *why)
{
	struct model_weights *w = mem_new(sizeof *w);
	struct weights_binder b = { .w = w, .why = why };
	int rc = checkpoint_open(dir, CHECKPOINT_MAP, &w->checkpoint, why);

	if (rc == 0) {
		w->config = w->checkpoint->config;
		rc = weights_bind_all(&b);
	}
	if (rc) {
		weights_close(&w);
		return rc;
	}
	*ret_w = w;
	return 0;
}

void weights_close(struct model_weights **w)
{
	struct model_weights *m = *w;
	int i;

	*w = NULL;
	if (!m)
		return;
	for (i = 0; i < m->n_owned; i++)
		free(m->owned[i]);
	free(m->owned);
	checkpoint_free(&m->checkpoint);
	free(m);
}

/* ---- hints ---- */

/* Bytes of a matrix's data, and of its scales (dsv4_plugin.h, struct dsv4_weight). */
static size_t weights_size(const struct dsv4_weight *w, size_t *ret_scales)
{
	size_t rows = (size_t)w->rows, cols = (size_t)w->cols, float_scale = w->sfmt == DSV4_S_F32 ? sizeof(float) : 1;

	*ret_scales = 0;
	switch ((enum dsv4_wfmt)w->fmt) {
	case DSV4_W_F32: return rows * cols * sizeof(float);
	case DSV4_W_BF16: return rows * cols * 2;
	case DSV4_W_FP8: *ret_scales = (rows + 127) / 128 * ((cols + 127) / 128) * float_scale; return rows * cols;
	case DSV4_W_FP4: *ret_scales = rows * ((cols + 31) / 32); return rows * ((cols + 1) / 2);
	case DSV4_W_NVFP4: *ret_scales = rows * ((cols + 15) / 16); return rows * ((cols + 1) / 2);
	default: return 0;
	}
}

void weights_fetch(const struct model_weights *m, const struct dsv4_weight *w)
{
	size_t scales, data = weights_size(w, &scales);

	if (data)
		checkpoint_fetch(m->checkpoint, w->data, data);
	if (scales)
		checkpoint_fetch(m->checkpoint, w->scale, scales);
}

void weights_forget(const struct model_weights *m, const struct dsv4_weight *w)
{
	size_t scales, data = weights_size(w, &scales);

	checkpoint_forget(m->checkpoint, w->data, data);
	if (scales)
		checkpoint_forget(m->checkpoint, w->scale, scales);
}

void weights_fetch_expert(const struct model_weights *m, const struct dsv4_expert *e)
{
	weights_fetch(m, &e->w1);
	weights_fetch(m, &e->w2);
	weights_fetch(m, &e->w3);
}
