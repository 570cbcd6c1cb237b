/* SPDX-License-Identifier: MIT
 * inventory_rows.c - which tensors a config calls for: the rows of tensors.def, with names and shapes.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/inventory_rows.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/checkpoint/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INVENTORY_MAX_ROWS 64

const char *inventory_family_name(int family)
{
	static const char *const name[INVENTORY_N_FAMILY] = {
		[DSV4_GEMM] = "gemm", [DSV4_NORM] = "norm", [DSV4_MHC] = "mhc", [DSV4_COMPRESS] = "compress",
		[DSV4_INDEXER] = "indexer", [DSV4_ATTENTION] = "attention", [DSV4_MOE] = "moe",
		[INVENTORY_EMBED] = "embed",
	};

	return name[family];
}

/* ---- the rows of one layer ---- */

#define INVENTORY_STRUCT_TOP struct model_weights
#define INVENTORY_STRUCT_BLOCK struct weights_layer
#define INVENTORY_STRUCT_HASH struct weights_layer
#define INVENTORY_STRUCT_LEARNED struct weights_layer
#define INVENTORY_STRUCT_POOLED struct weights_layer
#define INVENTORY_STRUCT_CSA struct weights_layer
#define INVENTORY_STRUCT_EXPERT struct dsv4_expert
#define INVENTORY_STRUCT_SHARED struct dsv4_expert
#define INVENTORY_STRUCT_MTP struct weights_mtp
#define INVENTORY_FAMILY_EMBED INVENTORY_EMBED
#define INVENTORY_FAMILY_GEMM DSV4_GEMM
#define INVENTORY_FAMILY_NORM DSV4_NORM
#define INVENTORY_FAMILY_MHC DSV4_MHC
#define INVENTORY_FAMILY_COMPRESS DSV4_COMPRESS
#define INVENTORY_FAMILY_ATTENTION DSV4_ATTENTION
#define INVENTORY_FAMILY_MOE DSV4_MOE

static int inventory_rows_of(const struct model_config *c, int ratio,
			  struct inventory_row out[INVENTORY_MAX_ROWS])
{
	const int64_t dim = c->hidden_size, vocab = c->vocab_size, q_rank = c->q_lora_rank;
	const int64_t head_dim = c->head_dim, heads = c->n_heads * head_dim;
	const int64_t key_dim = c->index_dim, index_heads = c->index_heads * key_dim;
	const int64_t outs = (int64_t)c->o_groups * c->o_lora_rank, inter = c->moe_inter,
		      experts = c->n_experts;
	const int64_t flat = c->hc_mult * dim, mix = (2 + c->hc_mult) * c->hc_mult; /* hyper-connections */
	const int64_t twice = ratio == 4 ? 2 : 1; /* ratio 4 pools overlapping groups */
	const int64_t row_width = twice * head_dim, key_width = twice * key_dim;
	const struct inventory_row rows[] = {
#define TENSOR(scope, kind, family, field, name, rows, cols) \
		{ INVENTORY_##scope, INVENTORY_##kind, INVENTORY_FAMILY_##family, name, rows, cols, \
		  offsetof(INVENTORY_STRUCT_##scope, field) },
#define DSPARK(where, kind, family, name, rows, cols) \
		{ INVENTORY_DSPARK_##where, INVENTORY_##kind, INVENTORY_FAMILY_##family, name, rows, cols, 0 },
#include "engine/checkpoint/tensors.def"
#undef TENSOR
#undef DSPARK
	};
	_Static_assert(mem_countof(rows) <= INVENTORY_MAX_ROWS, "tensors.def has grown");

	memcpy(out, rows, sizeof rows);
	return (int)mem_countof(rows);
}

/* ---- walking ---- */

struct inventory_rows {
	const struct model_config *c;
	inventory_place_f *fn;
	void *arg;
	struct inventory_row row[INVENTORY_MAX_ROWS]; /* of the layer walked */
	int n_row;
	struct inventory_place at;
	char name[INVENTORY_MAX_NAME]; /* prefix, then the tensor's own name from `prefix` on */
	size_t prefix;
};

static int inventory_rows_scope(struct inventory_rows *w, enum inventory_scope scope)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < w->n_row; i++) {
		if (w->row[i].scope != scope)
			continue;
		must(w->prefix + strlen(w->row[i].name) < sizeof w->name);
		strcpy(w->name + w->prefix, w->row[i].name);
		w->at.row = &w->row[i];
		rc = w->fn(w->arg, &w->at);
	}
	return rc;
}

static void inventory_rows_prefix(struct inventory_rows *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void inventory_rows_prefix(struct inventory_rows *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	w->prefix = (size_t)vsnprintf(w->name, sizeof w->name, fmt, ap);
	va_end(ap);
	must(w->prefix < sizeof w->name);
}

static int inventory_rows_experts(struct inventory_rows *w, const char *block, int layer)
{
	int rc = 0;

	for (int e = 0; rc == 0 && e < w->c->n_experts; e++) {
		inventory_rows_prefix(w, "%s.%d.ffn.experts.%d.", block, layer, e);
		w->at.expert = e;
		rc = inventory_rows_scope(w, INVENTORY_EXPERT);
	}
	w->at.expert = -1;
	inventory_rows_prefix(w, "%s.%d.ffn.shared_experts.", block, layer);
	return rc ? rc : inventory_rows_scope(w, INVENTORY_SHARED);
}

/* What every block has; block is "layers" or "mtp". */
static int inventory_rows_block(struct inventory_rows *w, const char *block, int layer, int ratio, bool hash)
{
	int rc;

	w->n_row = inventory_rows_of(w->c, ratio, w->row);
	w->at.layer = layer;
	inventory_rows_prefix(w, "%s.%d.", block, layer);
	rc = inventory_rows_scope(w, INVENTORY_BLOCK);
	rc = rc ? rc : inventory_rows_scope(w, hash ? INVENTORY_HASH : INVENTORY_LEARNED);
	if (ratio)
		rc = rc ? rc : inventory_rows_scope(w, INVENTORY_POOLED);
	if (ratio == 4)
		rc = rc ? rc : inventory_rows_scope(w, INVENTORY_CSA);
	rc = rc ? rc : inventory_rows_experts(w, block, layer);
	inventory_rows_prefix(w, "%s.%d.", block, layer);
	return rc;
}

static int inventory_rows_mtp(struct inventory_rows *w, bool dspark)
{
	int rc = 0, n = w->c->n_mtp;

	w->at.mtp = true;
	for (int i = 0; rc == 0 && i < n; i++) {
		rc = inventory_rows_block(w, "mtp", i, 0, false);
		if (!dspark)
			rc = rc ? rc : inventory_rows_scope(w, INVENTORY_MTP);
		if (dspark && i == 0)
			rc = rc ? rc : inventory_rows_scope(w, INVENTORY_DSPARK_FIRST);
		if (dspark && i == n - 1)
			rc = rc ? rc : inventory_rows_scope(w, INVENTORY_DSPARK_LAST);
	}
	return rc;
}

int inventory_rows_walk(const struct model_config *c, bool dspark, inventory_place_f *fn, void *arg)
{
	struct inventory_rows w = { .c = c, .fn = fn, .arg = arg, .at = { .layer = -1, .expert = -1, .name = w.name } };
	int rc;

	w.n_row = inventory_rows_of(c, 0, w.row);
	rc = inventory_rows_scope(&w, INVENTORY_TOP);
	for (int i = 0; rc == 0 && i < c->n_layers; i++)
		rc = inventory_rows_block(&w, "layers", i, c->compress_ratio[i], i < c->n_hash_layers);
	return rc ? rc : inventory_rows_mtp(&w, dspark);
}
