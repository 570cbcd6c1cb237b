/* SPDX-License-Identifier: MIT
 * mkmodel_plan.c - every tensor of a checkpoint to be made, with its dtype, place and values.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/checkpoint/inventory_rows.h"
#include "tests/bench/mkmodel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mkmodel_planner {
	struct mkmodel_plan *p;
	const struct model_config *c;
	enum mkmodel_format format;
	uint64_t seed, shard_bytes, at; /* `at`: data bytes of the shard so far */
};

/* Of a name (FNV-1a) and the seed: a tensor's values do not depend on the others. */
static uint64_t mkmodel_key(uint64_t seed, const char *name)
{
	uint64_t h = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h;
}

/* cols 0: a vector, -1: a scalar */
static void mkmodel_add(struct mkmodel_planner *m, const char *name, const char *suffix, enum safetensors_dtype dtype,
			int64_t rows, int64_t cols, struct mkmodel_values values)
{
	struct mkmodel_plan *p = m->p;
	struct mkmodel_tensor t = { .dtype = dtype, .n_dim = cols < 0 ? 0 : cols == 0 ? 1 : 2, .dim = { rows, cols } };
	char full[SAFETENSORS_MAX_NAME];

	must(snprintf(full, sizeof full, "%s%s", name, suffix) < (int)sizeof full);
	t.name = mem_strdup(full);
	t.values = values;
	t.values.key = mkmodel_key(m->seed, full);
	t.bytes = safetensors_bytes(dtype, t.dim, t.n_dim);
	if (p->n_shard == 0 || (m->at > 0 && m->at + t.bytes > m->shard_bytes)) {
		p->n_shard++;
		m->at = 0;
	}
	t.shard = p->n_shard - 1;
	t.at = m->at;
	m->at += t.bytes;
	p->bytes += t.bytes;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 256;
		p->tensor = mem_grow(p->tensor, (size_t)p->cap, sizeof *p->tensor);
	}
	p->tensor[p->n++] = t;
}

/* ---- matrices ---- */

static void mkmodel_add_plain(struct mkmodel_planner *m, const struct inventory_place *at, double sigma)
{
	mkmodel_add(m, at->name, ".weight", ST_BF16, at->row->rows, at->row->cols, mkmodel_even(true, sigma));
}

static void mkmodel_add_fp8(struct mkmodel_planner *m, const struct inventory_place *at, double sigma)
{
	const int64_t b = INVENTORY_FP8_BLOCK;

	mkmodel_add(m, at->name, ".weight", ST_F8_E4M3, at->row->rows, at->row->cols,
		    (struct mkmodel_values){ .fill = MKMODEL_FILL_E4M3 });
	mkmodel_add(m, at->name, ".scale", ST_F8_E8M0, (at->row->rows + b - 1) / b, (at->row->cols + b - 1) / b,
		    mkmodel_scale_e8m0(false, sigma));
}

static void mkmodel_add_fp4(struct mkmodel_planner *m, const struct inventory_place *at, double sigma)
{
	mkmodel_add(m, at->name, ".weight", ST_I8, at->row->rows, at->row->cols / 2,
		    (struct mkmodel_values){ .fill = MKMODEL_FILL_BYTES });
	mkmodel_add(m, at->name, ".scale", ST_F8_E8M0, at->row->rows, at->row->cols / INVENTORY_FP4_GROUP,
		    mkmodel_scale_e8m0(true, sigma));
}

static void mkmodel_add_nvfp4(struct mkmodel_planner *m, const struct inventory_place *at, double sigma)
{
	struct mkmodel_values one = { .fill = MKMODEL_FILL_SAME_F32, .value = 1 }, scale2 = one;

	scale2.value = mkmodel_scale2(sigma);
	mkmodel_add(m, at->name, ".weight", ST_U8, at->row->rows, at->row->cols / 2,
		    (struct mkmodel_values){ .fill = MKMODEL_FILL_BYTES });
	mkmodel_add(m, at->name, ".weight_scale", ST_F8_E4M3, at->row->rows, at->row->cols / INVENTORY_NV_GROUP,
		    mkmodel_scale_e4m3());
	mkmodel_add(m, at->name, ".weight_scale_2", ST_F32, 0, -1, scale2);
	mkmodel_add(m, at->name, ".input_scale", ST_F32, 0, -1, one);
}

/* An input of unit size gives an output of unit size; a row of the embedding is of unit size itself. */
static void mkmodel_add_matrix(struct mkmodel_planner *m, const struct inventory_place *at)
{
	double sigma = at->row->family == INVENTORY_EMBED ? 1 : 1 / sqrt((double)at->row->cols);
	enum mkmodel_format f = at->mtp && m->format == MKMODEL_NVFP4 ? MKMODEL_FP4 : m->format;

	if (at->row->kind == INVENTORY_PLAIN || (at->row->kind == INVENTORY_ROUTED && f == MKMODEL_BF16))
		mkmodel_add_plain(m, at, sigma);
	else if (at->row->kind == INVENTORY_DENSE || f == MKMODEL_FP8)
		mkmodel_add_fp8(m, at, sigma);
	else if (f == MKMODEL_FP4)
		mkmodel_add_fp4(m, at, sigma);
	else
		mkmodel_add_nvfp4(m, at, sigma);
}

/* ---- the rest ---- */

/* The router's bias is small, or a few experts would be everyone's. */
static double mkmodel_vector_sigma(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && strcmp(dot, ".bias") == 0 ? 0.005 : 0.25;
}

static int mkmodel_place(void *arg, const struct inventory_place *at)
{
	struct mkmodel_planner *m = arg;
	const struct inventory_row *r = at->row;

	if (r->kind >= INVENTORY_PLAIN)
		mkmodel_add_matrix(m, at);
	else if (r->kind == INVENTORY_NORM)
		mkmodel_add(m, at->name, "", ST_BF16, r->rows, r->cols,
			    (struct mkmodel_values){ .fill = MKMODEL_FILL_SAME_BF16, .value = 1 });
	else if (r->kind == INVENTORY_I64)
		mkmodel_add(m, at->name, "", ST_I64, r->rows, r->cols,
			    (struct mkmodel_values){ .fill = MKMODEL_FILL_IDS, .ids = m->c->experts_per_tok,
						     .below = m->c->n_experts });
	else
		mkmodel_add(m, at->name, "", ST_F32, r->rows, r->cols,
			    mkmodel_even(false, r->cols ? 1 / sqrt((double)r->cols) : mkmodel_vector_sigma(at->name)));
	return 0;
}

void mkmodel_plan_init(struct mkmodel_plan *p, const struct model_config *c, enum mkmodel_format f, uint64_t seed,
		       uint64_t shard_bytes)
{
	struct mkmodel_planner m = { .p = p, .c = c, .format = f, .seed = seed, .shard_bytes = shard_bytes };

	*p = (struct mkmodel_plan){ 0 };
	mkmodel_fill_init();
	must_zero(inventory_rows_walk(c, false, mkmodel_place, &m));
}

void mkmodel_plan_fini(struct mkmodel_plan *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->tensor[i].name);
	free(p->tensor);
	*p = (struct mkmodel_plan){ 0 };
}
