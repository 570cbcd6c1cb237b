/* SPDX-License-Identifier: MIT
 * wrong_kernels.c - kernels that each do one thing wrong: the cases of linear, attn, moe_route, moe_experts and sum
 * find every one of them, also in a quick check.
 * Threads: those of the check library. Locks: none.
 *
 * Each is ref with other arguments, or with its result changed. */
#include "engine/base/mem.h"
#include "plugins/check/check.h"
#include "plugins/ref/ref.h"
#include "tests/unit/sanitized.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* A kernel that changes its arguments `a` first, and one that changes what ref has written. */
#define BEFORE(op, name, ...) \
	static int wrong_##op##_##name(struct dsv4_exec *x, const struct dsv4_host *host, \
		const struct dsv4_##op *args) \
	{ \
		struct dsv4_##op a = *args; \
		__VA_ARGS__ \
		return ref_##op(x, host, &a); \
	}
#define AFTER(op, name, ...) \
	static int wrong_##op##_##name(struct dsv4_exec *x, const struct dsv4_host *host, \
		const struct dsv4_##op *a) \
	{ \
		int rc = ref_##op(x, host, a); \
		if (!rc) { \
			__VA_ARGS__ \
		} \
		return rc; \
	}

/* A copy in scratch of n things, for BEFORE. */
#define COPY(type, name, from, n) \
	type *name = host->scratch(x, (size_t)(n) * sizeof *name + 1); \
	if (!name) \
		return -ENOMEM; \
	if ((n) > 0) \
		memcpy(name, from, (size_t)(n) * sizeof *name)

static void wrong_hide_nan(float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = isnan(y[i]) ? 0 : y[i];
}

/* ---- linear ---- */

BEFORE(linear, no_act, a.act = DSV4_ACT_NONE;)
BEFORE(linear, always_act, a.act = DSV4_ACT_FP8;)
BEFORE(linear, dense_x, a.ldx = a.n_group * a.w->cols;)
BEFORE(linear, dense_y, a.ldy = a.w->rows;)
BEFORE(linear, one_group,
	COPY(float, v, a.x, a.n_tok ? (a.n_tok - 1) * a.ldx + a.n_group * a.w->cols : 0);
	for (int64_t t = 0; t < a.n_tok; t++)
		for (int64_t i = a.w->cols; i < a.n_group * a.w->cols; i++)
			v[t * a.ldx + i] = v[t * a.ldx + i % a.w->cols];
	a.x = v;)
/* A loop over pairs of columns that forgets the last of an odd number. */
BEFORE(linear, no_tail,
	COPY(float, v, a.x, a.n_tok ? (a.n_tok - 1) * a.ldx + a.n_group * a.w->cols : 0);
	for (int64_t t = 0; t < a.n_tok && a.w->cols % 2; t++)
		for (int64_t g = 1; g <= a.n_group; g++)
			v[t * a.ldx + g * a.w->cols - 1] = 0;
	a.x = v;)
AFTER(linear, last_row_zero,
	for (int64_t t = 0; t < a->n_tok && a->w->rows % 4; t++)
		a->y[t * a->ldy + a->w->rows - 1] = 0;)
AFTER(linear, hides_nan,
	for (int64_t t = 0; t < a->n_tok; t++)
		wrong_hide_nan(a->y + t * a->ldy, a->w->rows);)
/* What only a full tile of tokens shows, a decode batch's too, and only a row behind the first thousands. */
AFTER(linear, tile_of_16, if (a->n_tok == 16) a->y[0] += 9;)
AFTER(linear, tile_of_64, if (a->n_tok == 64) a->y[0] += 9;)
AFTER(linear, far_row,
	if (a->w->rows > 4096)
		a->y[4096] += 9;)
/* E8M0's byte 0 taken for zero, as shifting it into an exponent does. */
AFTER(linear, zero_e8m0,
	for (int64_t t = 0; t < a->n_tok && a->w->sfmt == DSV4_S_E8M0; t++)
		if (*(const uint8_t *)a->w->scale == 0)
			memset(a->y + t * a->ldy, 0, (size_t)a->w->rows * sizeof *a->y);)

/* One column of thousands: too little for the error of the whole output. */
AFTER(linear, clamps_at_100,
	for (int64_t t = 0; t < a->n_tok; t++)
		for (int64_t r = 0; r < a->w->rows; r++)
			if (fabsf(a->y[t * a->ldy + r]) > 100)
				a->y[t * a->ldy + r] = copysignf(100, a->y[t * a->ldy + r]);)
AFTER(linear, negated_column,
	for (int64_t t = 0; t < a->n_tok; t++)
		a->y[t * a->ldy + a->w->rows / 2] *= -1;)

/* ---- attn ---- */

AFTER(attn, negated_column,
	for (int64_t t = 0; t < a->n_tok; t++)
		a->out[t * a->n_head * a->dim + a->dim / 2] *= -1;)
BEFORE(attn, narrow, a.window -= a.window > 1;)
BEFORE(attn, no_bf16, a.prec = DSV4_PREC_FP32;)
BEFORE(attn, always_bf16, a.prec = DSV4_PREC_BF16;)
BEFORE(attn, all_rows, a.rows = NULL;)
BEFORE(attn, other_scale, a.scale *= 1.5f;)
BEFORE(attn, no_sink,
	COPY(float, sink, a.sink, a.n_head);
	for (int32_t h = 0; h < a.n_head; h++)
		sink[h] = -INFINITY;
	a.sink = sink;)
BEFORE(attn, one_sink,
	COPY(float, sink, a.sink, a.n_head);
	for (int32_t h = 0; h < a.n_head; h++)
		sink[h] = sink[0];
	a.sink = sink;)
BEFORE(attn, first_rows,
	COPY(int32_t, rows, a.rows, a.rows ? a.n_tok * a.ldr : 0);
	for (int64_t i = 0; a.rows && i < a.n_tok * a.ldr; i++)
		rows[i] = (int32_t)(i % a.ldr);
	a.rows = a.rows ? rows : NULL;)
/* The newest compressed row is not seen. */
BEFORE(attn, late,
	COPY(struct dsv4_seq, seq, a.seq, a.n_seq);
	for (int32_t i = 0; i < a.n_seq; i++)
		seq[i].kv.n -= seq[i].kv.n > 0;
	a.seq = seq;)
/* Rows of a page are taken to be those of the first page. */
BEFORE(attn, one_page,
	COPY(struct dsv4_seq, seq, a.seq, a.n_seq);
	for (int32_t i = 0; i < a.n_seq; i++) {
		int64_t n_page = seq[i].kv.n ? (seq[i].kv.n - 1) / seq[i].kv.page_rows : 0;
		COPY(const float *, page, seq[i].kv.page, seq[i].kv.n ? n_page + 1 : 0);
		for (int64_t p = 0; p < n_page; p++)
			page[p] = page[0];
		seq[i].kv.page = page;
	}
	a.seq = seq;)
/* Reads a row before the window and gives it no weight: which NaN outlives. */
AFTER(attn, masked_read,
	for (int32_t i = 0; i < a->n_seq; i++)
		for (int64_t d = 0; d < (int64_t)a->seq[i].n_tok * a->n_head * a->dim; d++)
			a->out[(int64_t)a->seq[i].tok0 * a->n_head * a->dim + d] += 0 * a->seq[i].window[0];)

/* ---- moe_route ---- */

BEFORE(moe_route, no_scaling, a.scaling = 1;)
BEFORE(moe_route, no_bias, a.bias = NULL;)
BEFORE(moe_route, learned, a.table = NULL;)
/* fmaxf() lets any number win over NaN, so -inf does. */
BEFORE(moe_route, nan_first,
	COPY(float, bias, a.bias, a.bias ? a.n_expert : 0);
	for (int32_t e = 0; a.bias && e < a.n_expert; e++)
		bias[e] = isnan(bias[e]) ? INFINITY : bias[e];
	a.bias = a.bias ? bias : NULL;)
BEFORE(moe_route, nan_is_least,
	COPY(float, bias, a.bias, a.bias ? a.n_expert : 0);
	for (int32_t e = 0; a.bias && e < a.n_expert; e++)
		bias[e] = isnan(bias[e]) ? -INFINITY : bias[e];
	a.bias = a.bias ? bias : NULL;)
AFTER(moe_route, unsorted,
	for (int32_t t = 0; t < a->n_tok && a->k > 1; t++) {
		int32_t first = a->ids[t * a->k];
		a->ids[t * a->k] = a->ids[t * a->k + 1];
		a->ids[t * a->k + 1] = first;
	})
AFTER(moe_route, last_weight_2_percent_off,
	for (int64_t t = 1; t <= a->n_tok; t++)
		a->weight[t * a->k - 1] *= 1.02f;)
AFTER(moe_route, tile_of_16, if (a->n_tok == 16) a->weight[0] += 9;)
AFTER(moe_route, hides_nan, wrong_hide_nan(a->weight, (int64_t)a->n_tok * a->k);)
/* Among equals the last ones. */
AFTER(moe_route, high_ties,
	for (int32_t i = 0; i < a->n_tok * a->k; i++)
		if (a->weight[i] == a->weight[i / a->k * a->k] && a->weight[i] == a->weight[(i / a->k + 1) * a->k - 1])
			a->ids[i] = a->n_expert - a->k + i % a->k;)
/* No number is refused, and only the lower half of one is looked at. */
static int wrong_moe_route_narrow_ids(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct dsv4_moe_route b = *a;
	int64_t n = (int64_t)a->n_tok * a->k;
	int64_t *row = host->scratch(x, (size_t)n * sizeof *row + 1);
	int32_t *token = host->scratch(x, (size_t)n * sizeof *token + 1);

	if (!row || !token)
		return -ENOMEM;
	for (int64_t i = 0; a->table && i < n; i++) {
		memcpy(&row[i], (const char *)a->table + ((int64_t)a->token[i / a->k] * a->k + i % a->k) * 8, 8);
		row[i] = (uint32_t)row[i] % (uint32_t)a->n_expert;
		token[i / a->k] = (int32_t)(i / a->k);
	}
	b.table = a->table ? row : NULL;
	b.token = token;
	return ref_moe_route(x, host, &b);
}

/* ---- moe_experts ---- */

BEFORE(moe_experts, no_act, a.act = DSV4_ACT_NONE;)
BEFORE(moe_experts, no_limit, a.limit = 0;)
BEFORE(moe_experts, limit_0, a.limit = a.limit > 0 ? a.limit : 1e-6f;)
BEFORE(moe_experts, one_shared, a.n_shared = a.n_shared > 1 ? 1 : a.n_shared;)
BEFORE(moe_experts, no_shared, a.n_shared = 0;)
BEFORE(moe_experts, unweighted,
	COPY(float, weight, a.weight, a.n_tok * a.k);
	for (int32_t i = 0; i < a.n_tok * a.k; i++)
		weight[i] = 1;
	a.weight = weight;)
BEFORE(moe_experts, next_expert,
	COPY(int32_t, ids, a.ids, a.n_tok * a.k);
	for (int32_t i = 0; i < a.n_tok * a.k; i++)
		ids[i] = (ids[i] + 1) % a.n_expert;
	a.ids = ids;)
/* All of it scaled, not only what the chosen gave. */
static int wrong_moe_experts_scales_shared(struct dsv4_exec *x, const struct dsv4_host *host,
	const struct dsv4_moe_experts *a)
{
	struct dsv4_moe_experts b = *a;
	int rc;

	b.out_scale = 1;
	rc = ref_moe_experts(x, host, &b);
	for (int64_t i = 0; !rc && i < (int64_t)a->n_tok * a->dim; i++)
		a->y[i] *= a->out_scale;
	return rc;
}
AFTER(moe_experts, tile_of_16, if (a->n_tok == 16) a->y[0] += 99;)
AFTER(moe_experts, hides_nan, wrong_hide_nan(a->y, (int64_t)a->n_tok * a->dim);)
/* As before ABI 1.3. */
BEFORE(moe_experts, refuses_absent,
	for (int32_t e = 0; e < a.n_expert; e++)
		if (!a.expert[e].w1.data)
			return -EINVAL;)
BEFORE(moe_experts, others_for_absent,
	COPY(struct dsv4_expert, expert, a.expert, a.n_expert);
	for (int32_t e = 0; e < 2 * a.n_expert; e++)
		if (!expert[e % a.n_expert].w1.data)
			expert[e % a.n_expert] = expert[(e + a.n_expert - 1) % a.n_expert];
	a.expert = expert;)
BEFORE(moe_experts, all_shared_or_none, a.n_shared = a.n_shared > 0 && a.shared[0].w1.data ? a.n_shared : 0;)
AFTER(moe_experts, forgets_tokens,
	for (int64_t t = 0; t < a->n_tok; t++) {
		int n = 0;

		for (int32_t i = 0; i < a->k; i++)
			n += a->expert[a->ids[t * a->k + i]].w1.data != NULL;
		if (n == 0)
			memset(a->y + t * a->dim, 0xcd, (size_t)a->dim * sizeof *a->y);
	})

/* ---- sum ---- */

BEFORE(sum, no_base, a.base = NULL;)
BEFORE(sum, one_base, a.ldb = 0;)
BEFORE(sum, one_part, a.n_part = 1;)
BEFORE(sum, dense_parts, a.ldp = a.n_row * a.ldx;)
BEFORE(sum, dense_y, a.ldy = a.dim;)
BEFORE(sum, backwards,
	a.x += (a.n_part - 1) * a.ldp;
	a.ldp = -a.ldp;)
AFTER(sum, base_last,
	for (int64_t t = 0; t < a->n_row && a->base; t++)
		for (int64_t i = 0; i < a->dim; i++) {
			float y = a->x[t * a->ldx + i];

			for (int64_t p = 1; p < a->n_part; p++)
				y += a->x[p * a->ldp + t * a->ldx + i];
			a->y[t * a->ldy + i] = y + a->base[t / a->every * a->ldb + i];
		})
/* Begins with 0, which -0 does not survive. */
AFTER(sum, minus_zero,
	for (int64_t t = 0; t < a->n_row; t++)
		for (int64_t i = 0; i < a->dim; i++)
			a->y[t * a->ldy + i] += 0.0f;)

/* ---- the table ---- */

/* until: the loosest marking under which it must still be found. wfmts: where it is wrong at all. */
static const struct wrong {
	enum dsv4_op op;
	const char *name;
	dsv4_any_f *fn;
	enum dsv4_numerics until;
	uint32_t wfmts;
} wrong_kernels[] = {
#define WRONG(op, name, until, wfmts) \
	{ DSV4_OP_##op, #op " " #name, \
	  (dsv4_any_f *)(1 ? wrong_##op##_##name : (dsv4_##op##_f *)0), DSV4_##until, DSV4_WEIGHTS_##wfmts }
	WRONG(linear, no_act, ORDER, QUANT),
	WRONG(linear, always_act, ORDER, QUANT),
	WRONG(linear, dense_x, LOSSY, ANY),
	WRONG(linear, dense_y, LOSSY, ANY),
	WRONG(linear, one_group, LOSSY, ANY),
	WRONG(linear, no_tail, LOSSY, ANY),
	WRONG(linear, last_row_zero, LOSSY, ANY),
	WRONG(linear, hides_nan, ORDER, ANY),
	WRONG(linear, tile_of_16, LOSSY, ANY),
	WRONG(linear, tile_of_64, LOSSY, ANY),
	WRONG(linear, far_row, LOSSY, ANY),
	WRONG(linear, clamps_at_100, LOSSY, ANY),
	WRONG(linear, negated_column, LOSSY, ANY),
	WRONG(linear, zero_e8m0, ORDER, FP8),
	WRONG(linear, zero_e8m0, ORDER, FP4),
	WRONG(attn, negated_column, LOSSY, ANY),
	WRONG(attn, narrow, LOSSY, ANY),
	WRONG(attn, no_bf16, ORDER, ANY),
	WRONG(attn, always_bf16, ORDER, ANY),
	WRONG(attn, all_rows, LOSSY, ANY),
	WRONG(attn, other_scale, LOSSY, ANY),
	WRONG(attn, no_sink, LOSSY, ANY),
	WRONG(attn, one_sink, LOSSY, ANY),
	WRONG(attn, first_rows, LOSSY, ANY),
	WRONG(attn, late, LOSSY, ANY),
	WRONG(attn, one_page, LOSSY, ANY),
	WRONG(attn, masked_read, LOSSY, ANY),
	WRONG(moe_route, no_scaling, LOSSY, ANY),
	WRONG(moe_route, no_bias, LOSSY, ANY),
	WRONG(moe_route, learned, LOSSY, ANY),
	WRONG(moe_route, nan_first, LOSSY, ANY),
	WRONG(moe_route, nan_is_least, ORDER, ANY),
	WRONG(moe_route, unsorted, LOSSY, ANY),
	WRONG(moe_route, last_weight_2_percent_off, LOSSY, ANY),
	WRONG(moe_route, tile_of_16, LOSSY, ANY),
	WRONG(moe_route, hides_nan, LOSSY, ANY),
	WRONG(moe_route, high_ties, EXACT, ANY),
	WRONG(moe_route, narrow_ids, LOSSY, ANY),
	WRONG(moe_experts, no_act, ORDER, QUANT),
	WRONG(moe_experts, no_limit, LOSSY, ANY),
	WRONG(moe_experts, limit_0, LOSSY, ANY),
	WRONG(moe_experts, one_shared, LOSSY, ANY),
	WRONG(moe_experts, no_shared, LOSSY, ANY),
	WRONG(moe_experts, unweighted, LOSSY, ANY),
	WRONG(moe_experts, next_expert, LOSSY, ANY),
	WRONG(moe_experts, scales_shared, LOSSY, ANY),
	WRONG(moe_experts, tile_of_16, LOSSY, ANY),
	WRONG(moe_experts, hides_nan, ORDER, ANY),
	WRONG(moe_experts, refuses_absent, LOSSY, ANY),
	WRONG(moe_experts, others_for_absent, LOSSY, ANY),
	WRONG(moe_experts, all_shared_or_none, LOSSY, ANY),
	WRONG(moe_experts, forgets_tokens, LOSSY, ANY),
	WRONG(sum, no_base, LOSSY, ANY),
	WRONG(sum, one_base, LOSSY, ANY),
	WRONG(sum, one_part, LOSSY, ANY),
	WRONG(sum, dense_parts, LOSSY, ANY),
	WRONG(sum, dense_y, LOSSY, ANY),
	WRONG(sum, backwards, EXACT, ANY),
	WRONG(sum, base_last, EXACT, ANY),
	WRONG(sum, minus_zero, EXACT, ANY),
};

static const struct dsv4_host wrong_host = { .size = sizeof wrong_host, .abi_major = DSV4_ABI_MAJOR };

struct wrong_seen { int n; const char *missed; char row[64]; };

static void wrong_report(void *arg, const struct check_row *row)
{
	struct wrong_seen *s = arg;

	s->n++;
	if (row->verdict == CHECK_PASS)
		snprintf(s->row, sizeof s->row, "%s %s", row->phase == DSV4_DECODE ? "decode" : "prefill",
			check_wfmt_name(row->op, row->wfmt));
}

/* Rows of the report that pass though they should not; the last one is named in s. */
static int wrong_missed(const struct wrong *w, dsv4_any_f *fn, enum dsv4_numerics numerics,
	const struct check_shape *shape, struct wrong_seen *s)
{
	const struct dsv4_op_entry e = { .size = sizeof e, .op = (uint16_t)w->op, .phases = DSV4_PHASES_BOTH,
					 .wfmts = w->wfmts, .numerics = numerics, .tag = "wrong", .fn = fn };
	const struct dsv4_plugin p = { .abi_minor = DSV4_ABI_MINOR, .n_op = 1, .name = "wrong", .op = &e };
	const struct check_options o = { .quick = true, .op = -1, .shape = shape, .n_shape = 1,
					  .report = wrong_report, .arg = s };
	int n_failed;

	*s = (struct wrong_seen){ 0 };
	n_failed = check_plugin(&p, &wrong_host, &o);
	assert_true(n_failed >= 0 && s->n > 0);
	return s->n - n_failed;
}

/* A marking that asks for more finds more: so the loosest says all. */
static void test_every_wrong_kernel_is_found(void **state)
{
	struct wrong_seen s;
	int n_missed = 0;

	(void)state;
	for (size_t i = 0; i < mem_countof(wrong_kernels); i += WARM_STEP)
		if (wrong_missed(&wrong_kernels[i], wrong_kernels[i].fn, wrong_kernels[i].until,
				 &check_shape_tiny, &s)) {
			print_error("%s passes in %s\n", wrong_kernels[i].name, s.row);
			n_missed++;
		}
	assert_int_equal(n_missed, 0);
}

/* In outputs of thousands of columns one column is the least part of the error. */
static void test_one_wrong_column_is_found_in_large_outputs_too(void **state)
{
	static const char *const names[] = { "linear negated_column", "linear clamps_at_100", "attn negated_column",
					     "moe_route last_weight_2_percent_off" };
	int n_tried = 0;

	(void)state;
	for (size_t i = 0; i < mem_countof(wrong_kernels); i++)
		for (size_t k = 0; k < mem_countof(names); k += WARM_STEP) {
			struct wrong w = wrong_kernels[i];
			struct wrong_seen s;

			if (strcmp(w.name, names[k]) != 0)
				continue;
			if (w.op != DSV4_OP_attn)
				w.wfmts = 1u << DSV4_W_BF16;
			assert_int_equal(wrong_missed(&w, w.fn, DSV4_LOSSY, &check_shape_flash, &s), 0);
			n_tried++;
		}
	assert_int_equal(n_tried, (mem_countof(names) + WARM_STEP - 1) / WARM_STEP);
}

/* Wrong for one number of tokens only. */
static int wrong_count;
AFTER(rms_norm, at_one_count,
	if (a->n_row == wrong_count)
		a->y[0] += 9;)
AFTER(moe_route, at_one_count,
	if (a->n_tok == wrong_count)
		a->weight[0] += 9;)

/* The first seed with which a quick check finds it. */
static uint64_t wrong_seed(enum dsv4_op op, dsv4_any_f *fn)
{
	const struct dsv4_op_entry e = { .size = sizeof e, .op = (uint16_t)op, .phases = DSV4_PHASES_BOTH,
					 .wfmts = 1u << DSV4_W_F32, .numerics = DSV4_EXACT, .tag = "wrong", .fn = fn };
	const struct dsv4_plugin p = { .n_op = 1, .name = "wrong", .op = &e };
	struct check_options o = { .quick = true, .op = -1, .shape = &check_shape_tiny, .n_shape = 1, .seed = 1 };

	while (o.seed < 2000 && check_plugin(&p, &wrong_host, &o) == 0)
		o.seed++;
	return o.seed;
}

static void test_wrong_at_one_number_of_tokens_is_found_by_some_seed(void **state)
{
	static const int counts[] = { 10, 12, 24, 48, 96, 200 };

	(void)state;
	for (size_t i = 0; i < mem_countof(counts); i += WARM_STEP) {
		uint64_t seed;

		wrong_count = counts[i];
		seed = wrong_seed(DSV4_OP_rms_norm, (dsv4_any_f *)wrong_rms_norm_at_one_count);
		print_message("rms_norm wrong for %d rows: found with seed %d\n", counts[i], (int)seed);
		assert_true(seed < 2000);
		seed = wrong_seed(DSV4_OP_moe_route, (dsv4_any_f *)wrong_moe_route_at_one_count);
		print_message("moe_route wrong for %d tokens: found with seed %d\n", counts[i], (int)seed);
		assert_true(seed < 2000);
	}
}

/* One built for an earlier minor version of the ABI is not asked for what came later. */
static void test_an_older_plugin_need_not_know_what_came_later(void **state)
{
	const struct dsv4_op_entry e = { .size = sizeof e, .op = DSV4_OP_moe_experts, .phases = DSV4_PHASES_BOTH,
					 .wfmts = 1u << DSV4_W_F32, .numerics = DSV4_EXACT, .tag = "fp32",
					 .fn = (dsv4_any_f *)wrong_moe_experts_refuses_absent };
	const struct check_options o = { .quick = true, .op = -1, .shape = &check_shape_tiny, .n_shape = 1 };
	struct dsv4_plugin p = { .n_op = 1, .name = "older", .op = &e };

	(void)state;
	p.abi_minor = 2;
	assert_int_equal(check_plugin(&p, &wrong_host, &o), 0);
	p.abi_minor = 3;
	assert_int_equal(check_plugin(&p, &wrong_host, &o), 2);
}

/* ref itself, under every marking: the cases ask for nothing that it does not do. */
static void test_the_right_ones_pass(void **state)
{
	struct wrong_seen s;

	(void)state;
	for (size_t i = 0; i < mem_countof(wrong_kernels); i++) {
		struct wrong w = wrong_kernels[i];

		w.wfmts = DSV4_WEIGHTS_ANY;
		if (i == 0 || w.op != wrong_kernels[i - 1].op)
			for (int n = DSV4_EXACT; n <= DSV4_LOSSY; n += WARM_STEP) {
				int n_pass = wrong_missed(&w, ref_plugin.op[w.op].fn, (enum dsv4_numerics)n,
							  &check_shape_tiny, &s);

				assert_int_equal(n_pass, s.n);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_wrong_kernel_is_found),
		cmocka_unit_test(test_one_wrong_column_is_found_in_large_outputs_too),
		cmocka_unit_test(test_wrong_at_one_number_of_tokens_is_found_by_some_seed),
		cmocka_unit_test(test_an_older_plugin_need_not_know_what_came_later),
		cmocka_unit_test(test_the_right_ones_pass),
	};

	warm_say();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
