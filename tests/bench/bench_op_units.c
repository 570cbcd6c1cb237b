/* SPDX-License-Identifier: MIT
 * bench_op_units.c - calls of linear and moe_experts on matrices that lie all over a working set.
 * Threads: main; a pool's. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "plugins/check/check.h"
#include "plugins/dsv4_rows16.h"
#include "plugins/op/op_cost.h"
#include "tests/bench/bench_op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_UNITS_MAX 4096
#define BENCH_UNITS_LAYERS 32  /* calls of moe_experts that are made */
#define BENCH_UNITS_SHARED 4   /* shared experts, used in turn */
#define BENCH_UNITS_RANGES 24  /* of a call for one token, at most */

/* The calls of V4-Flash, and formats that it does not have in linear. */
const struct bench_linear bench_linears[] = {
	{ "wq_a", DSV4_W_FP8, 1024, 4096, 1, DSV4_ACT_FP8 },
	{ "wq_b", DSV4_W_FP8, 32768, 1024, 1, DSV4_ACT_FP8 },
	{ "wo_a", DSV4_W_FP8, 8192, 4096, 8, DSV4_ACT_NONE },
	{ "wo_b", DSV4_W_FP8, 4096, 8192, 1, DSV4_ACT_FP8 },
	{ "compressor", DSV4_W_BF16, 1024, 4096, 1, DSV4_ACT_NONE },
	{ "head/8", DSV4_W_BF16, 16160, 4096, 1, DSV4_ACT_NONE },
	{ "-", DSV4_W_F32, 1024, 4096, 1, DSV4_ACT_NONE },
	{ "-", DSV4_W_FP4, 2048, 4096, 1, DSV4_ACT_FP8 },
	{ "-", DSV4_W_NVFP4, 2048, 4096, 1, DSV4_ACT_FP8 },
};
const int bench_n_linears = (int)mem_countof(bench_linears);

static void *bench_units_own(struct bench_units *u, void *p)
{
	u->owned = mem_grow(u->owned, (size_t)u->n_owned + 1, sizeof *u->owned);
	return u->owned[u->n_owned++] = p;
}

static void *bench_units_new(struct bench_units *u, size_t n, size_t size)
{
	return bench_units_own(u, mem_new(n * size + 1));
}

/* What kernels read: where the matrices are; NULL if short. */
static void *bench_units_numbers(struct bench_units *u, int64_t n, size_t size)
{
	void *p = device_alloc(u->memory->device, (size_t)n, size);

	u->numbers = mem_grow(u->numbers, (size_t)u->n_numbers + 1, sizeof *u->numbers);
	return u->numbers[u->n_numbers++] = p;
}

void bench_units_fini(struct bench_units *u)
{
	while (u->n_numbers > 0)
		device_free(u->memory->device, u->numbers[--u->n_numbers]);
	free(u->numbers);
	while (u->n_owned > 0)
		free(u->owned[--u->n_owned]);
	free(u->owned);
	if (u->memory)
		u->memory->used = 0;
	*u = (struct bench_units){ 0 };
}

/* Activations in (-1.7, 1.7). */
static float *bench_units_floats(struct bench_units *u, int64_t n)
{
	float *x = bench_units_numbers(u, n, sizeof *x);

	for (int64_t i = 0; x && i < n; i++)
		x[i] = (float)(3.4 * rng_uniform(7, (uint64_t)(i % 65536)) - 1.7);
	return x;
}

/* ---- linear ---- */

static struct bench_unit bench_units_matrix(struct bench_units *u, const struct dsv4_weight *w,
					    const struct dsv4_linear *like)
{
	struct dsv4_linear *a = bench_units_new(u, 1, sizeof *a);
	struct bench_unit unit = { .args = a, .n_range = 1, .range = bench_units_new(u, 1, sizeof *unit.range) };

	*a = *like;
	a->w = w;
	unit.range[0] = (struct bench_range){ w->data, (size_t)op_cost_weight(w) };
	unit.bytes = (double)unit.range[0].n;
	unit.flops = 2.0 * a->n_tok * (double)w->rows * (double)w->cols;
	return unit;
}

int bench_units_linear(struct bench_units *u, struct bench_memory *m, struct pool *p, const struct bench_linear *l,
		       int n_tok, int most, struct buf *why)
{
	struct dsv4_linear like = { .size = sizeof like, .n_tok = n_tok, .n_group = l->n_group, .act = l->act,
				    .ldx = l->n_group * l->cols, .ldy = l->rows };
	struct dsv4_weight *w;
	int *order;

	*u = (struct bench_units){ .op = DSV4_OP_linear, .memory = m };
	like.x = bench_units_floats(u, n_tok * like.ldx);
	like.y = bench_units_floats(u, n_tok * like.ldy);
	w = bench_units_new(u, BENCH_UNITS_MAX, sizeof *w);
	if (!most || most > BENCH_UNITS_MAX)
		most = BENCH_UNITS_MAX;
	while (u->n < most && bench_memory_weight(m, p, l->fmt, l->rows, l->cols, &w[u->n]))
		u->n++;
	if (!like.x || !like.y || u->n == 0)
		return buf_why(why, RC_INVALID, "--memory is too small for a matrix of %lldx%lld", (long long)l->rows,
			       (long long)l->cols);
	order = bench_units_own(u, bench_shuffle(u->n));
	u->unit = bench_units_new(u, (size_t)u->n, sizeof *u->unit);
	for (int i = 0; i < u->n; i++)
		u->unit[i] = bench_units_matrix(u, &w[order[i]], &like);
	return 0;
}

/* ---- experts ---- */

/* Experts that there is memory for; the model's others are the same ones over again. */
struct bench_experts {
	struct dsv4_expert *expert, *shared;
	struct dsv4_packed *packed;
	int n, n_shared;
	const struct bench_layer *layer;
	int n_tok;
};

static bool bench_experts_one(struct bench_memory *m, struct pool *p, const struct bench_layer *l, enum dsv4_wfmt fmt,
			      struct dsv4_expert *e)
{
	return bench_memory_weight(m, p, fmt, l->inter, l->dim, &e->w1) &&
	       bench_memory_weight(m, p, fmt, l->dim, l->inter, &e->w2) &&
	       bench_memory_weight(m, p, fmt, l->inter, l->dim, &e->w3);
}

struct bench_pack {
	const struct dsv4_weight *w;
	uint8_t *out;
};

static void bench_pack_slice(void *arg, int64_t begin, int64_t end)
{
	const struct bench_pack *k = arg;

	for (int64_t i = begin; i < end; i++)
		dsv4_rows16_pack(k->w, i, k->out + (size_t)i * dsv4_rows16_panel_size(k->w->cols));
}

static const void *bench_pack(struct bench_memory *m, struct pool *p, const struct dsv4_weight *w)
{
	struct bench_pack k = { w, bench_memory_take(m, dsv4_rows16_size(w->rows, w->cols)) };

	if (k.out)
		pool_parallel_for(pool_exec(p), dsv4_rows16_panels(w->rows), 1, bench_pack_slice, &k);
	return k.out;
}

static bool bench_experts_pack(struct bench_memory *m, struct pool *p, const struct dsv4_expert *e,
			       struct dsv4_packed *out)
{
	*out = (struct dsv4_packed){ bench_pack(m, p, &e->w1), bench_pack(m, p, &e->w2), bench_pack(m, p, &e->w3) };
	return out->w1 && out->w2 && out->w3;
}

static int bench_experts_make(struct bench_units *u, struct pool *p, struct bench_experts *x, struct buf *why)
{
	const struct check_shape *s = &check_shape_flash;
	const struct bench_layer *l = x->layer;

	/* A GPU's kernels read the list of experts, too. */
	x->expert = bench_units_numbers(u, s->experts, sizeof *x->expert);
	x->shared = bench_units_numbers(u, BENCH_UNITS_SHARED, sizeof *x->shared);
	x->packed = bench_units_new(u, (size_t)s->experts, sizeof *x->packed);
	if (!x->expert || !x->shared)
		return buf_why(why, RC_INVALID, "no memory for %d experts", s->experts);
	while (x->n_shared < BENCH_UNITS_SHARED &&
	       bench_experts_one(u->memory, p, l, DSV4_W_FP8, &x->shared[x->n_shared]))
		x->n_shared++;
	while (x->n < s->experts && bench_experts_one(u->memory, p, l, l->fmt, &x->expert[x->n]) &&
	       (!l->packed || bench_experts_pack(u->memory, p, &x->expert[x->n], &x->packed[x->n])))
		x->n++;
	if (x->n < 2 * s->experts_per_tok || x->n_shared < 2)
		return buf_why(why, RC_INVALID, "--memory is too small for %d experts", 2 * s->experts_per_tok);
	for (int i = x->n; i < s->experts; i++) {
		x->expert[i] = x->expert[i % x->n];
		x->packed[i] = x->packed[i % x->n];
	}
	return 0;
}

static int bench_experts_order(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

/* k experts of n, each once: of those that follow one another in a random order, from `at` on. */
static void bench_experts_choose(const int *order, int n, int at, int k, int32_t *ids)
{
	for (int i = 0; i < k; i++)
		ids[i] = order[(at + i) % n];
	qsort(ids, (size_t)k, sizeof *ids, bench_experts_order);
}

static void bench_experts_range(struct bench_unit *unit, const struct dsv4_weight *w, const void *packed)
{
	size_t n = (size_t)op_cost_weight(w);

	unit->bytes += (double)n;
	if (unit->n_range < BENCH_UNITS_RANGES)
		unit->range[unit->n_range++] = (struct bench_range){ packed ? packed : w->data, n };
}

static void bench_experts_ranges(struct bench_unit *unit, const struct dsv4_moe_experts *a)
{
	const struct dsv4_packed none = { 0 };

	for (int e = 0; e < a->n_expert; e++) {
		const struct dsv4_packed *packed = a->packed ? &a->packed[e] : &none;
		bool chosen = false;

		for (int i = 0; i < a->n_tok * a->k && !chosen; i++)
			chosen = a->ids[i] == e;
		if (!chosen)
			continue;
		bench_experts_range(unit, &a->expert[e].w1, packed->w1);
		bench_experts_range(unit, &a->expert[e].w3, packed->w3);
		bench_experts_range(unit, &a->expert[e].w2, packed->w2);
	}
	bench_experts_range(unit, &a->shared->w1, NULL);
	bench_experts_range(unit, &a->shared->w3, NULL);
	bench_experts_range(unit, &a->shared->w2, NULL);
}

/* k experts for each token of call i, with equal weights. */
static void bench_experts_route(const struct bench_experts *x, int i, int n, int k, int32_t *ids, float *weight)
{
	int *order = bench_shuffle(n);

	for (int t = 0; t < x->n_tok; t++)
		bench_experts_choose(order, n,
				     x->n_tok == 1 ? i * k : (int)(rng_uniform(3, (uint64_t)(i * x->n_tok + t)) * n),
				     k, ids + t * k);
	for (int e = 0; e < x->n_tok * k; e++)
		weight[e] = 1 / (float)k;
	free(order);
}

/* Call number i: for one token experts that the calls before did not use, for many tokens of
 * all. No args: no memory. */
static struct bench_unit bench_experts_unit(struct bench_units *u, const struct bench_experts *x, int i,
					    const float *in, float *out)
{
	const struct check_shape *s = &check_shape_flash;
	int n = x->n_tok == 1 ? x->n : s->experts, k = s->experts_per_tok;
	struct dsv4_moe_experts *a = bench_units_new(u, 1, sizeof *a);
	int32_t *ids = bench_units_numbers(u, x->n_tok * k, sizeof *ids);
	float *weight = bench_units_numbers(u, x->n_tok * k, sizeof *weight);
	struct bench_unit unit = { .range = bench_units_new(u, BENCH_UNITS_RANGES, sizeof *unit.range) };

	if (!ids || !weight)
		return unit;
	unit.args = a;
	bench_experts_route(x, i, n, k, ids, weight);
	*a = (struct dsv4_moe_experts){ .size = sizeof *a, .n_tok = x->n_tok, .dim = x->layer->dim,
					.inter = x->layer->inter,
					.n_expert = s->experts, .k = k, .n_shared = 1, .act = DSV4_ACT_FP8, .limit = 10,
					.out_scale = 1, .expert = x->expert, .shared = &x->shared[i % x->n_shared],
					.x = in, .ids = ids, .weight = weight, .y = out,
					.packed = x->layer->packed ? x->packed : NULL };
	if (device_is_gpu(u->memory->device))
		a->expert_table = a->expert;
	bench_experts_ranges(&unit, a);
	unit.flops = 6.0 * x->n_tok * (k + 1) * x->layer->dim * x->layer->inter;
	return unit;
}

int bench_units_experts(struct bench_units *u, struct bench_memory *m, struct pool *p, const struct bench_layer *l,
			int n_tok, struct buf *why)
{
	struct bench_experts x = { .layer = l, .n_tok = n_tok };
	float *in, *out;
	int rc;

	*u = (struct bench_units){ .op = DSV4_OP_moe_experts, .memory = m };
	rc = bench_experts_make(u, p, &x, why);
	in = bench_units_floats(u, (int64_t)n_tok * l->dim);
	out = bench_units_floats(u, (int64_t)n_tok * l->dim);
	if (rc == 0 && (!in || !out))
		rc = buf_why(why, RC_INVALID, "no memory for %d tokens", n_tok);
	if (rc)
		return rc;
	u->n = n_tok == 1 ? BENCH_UNITS_LAYERS : 2;
	u->unit = bench_units_new(u, (size_t)u->n, sizeof *u->unit);
	for (int i = 0; i < u->n && rc == 0; i++) {
		u->unit[i] = bench_experts_unit(u, &x, i, in, out);
		rc = u->unit[i].args ? 0 : buf_why(why, RC_INVALID, "no memory for %d tokens", n_tok);
	}
	return rc;
}
