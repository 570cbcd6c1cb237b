/* SPDX-License-Identifier: MIT
 * ref_cases.c - tests of ref on the check library's cases of linear, attn, moe_route and moe_experts, against the
 * header's equations in double: a kernel held against ref is held against those.
 * Threads: see refkit.h. Locks: none. */
#include "engine/base/mem.h"
#include "plugins/check/case_matrix.h"
#include "plugins/check/check.h"
#include "plugins/op/op_io.h"
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CASES_NEAR 1e-10  /* nmse of sums in float */
#define CASES_BF16 1e-5   /* and where weights are rounded to bf16, which depends on the maximum so far */
#define CASES_FLOOR 0x1p-126

static double *cases_doubles(int64_t n)
{
	double *d = calloc((size_t)n + 1, sizeof *d);

	assert_non_null(d);
	return d;
}

/* ---- the equations ---- */

/* As doc/format.md 3.2 rounds activations: e4m3 with one scale per 128. */
static void cases_round(double *x, int64_t n)
{
	for (int64_t k = 0; k < n; k += 128) {
		int64_t m = n - k < 128 ? n - k : 128;
		float top = 0, scale;

		for (int64_t i = 0; i < m; i++)
			top = fmaxf(top, fabsf((float)x[k + i]));
		scale = dsv4_fp8_scale(top);
		for (int64_t i = 0; i < m; i++)
			x[k + i] = (double)dsv4_e4m3_to_f32(dsv4_f32_to_e4m3((float)x[k + i] / scale)) *
				(double)scale;
	}
}

/* y[r] for all rows; x [n_group][cols] stays as it is. */
static void cases_product(const struct dsv4_weight *w, int n_group, uint32_t act, const double *x, double *y)
{
	int64_t cols = w->cols, rows = w->rows / n_group;
	double *v = cases_doubles(cols);

	for (int g = 0; g < n_group; g++) {
		memcpy(v, x + g * cols, (size_t)cols * sizeof *v);
		if (act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16)
			cases_round(v, cols);
		for (int64_t r = g * rows; r < (g + 1) * rows; r++) {
			y[r] = 0;
			for (int64_t k = 0; k < cols; k++)
				y[r] += v[k] * case_matrix_at(w, r, k);
		}
	}
	free(v);
}

static void cases_linear(const union case_args *u, double *y, int32_t *ids)
{
	const struct dsv4_linear *a = &u->linear;
	int64_t width = a->n_group * a->w->cols;
	double *x = cases_doubles(width);

	(void)ids;
	for (int64_t t = 0; t < a->n_tok; t++) {
		for (int64_t i = 0; i < width; i++)
			x[i] = (double)a->x[t * a->ldx + i];
		cases_product(a->w, a->n_group, a->act, x, y + t * a->w->rows);
	}
	free(x);
}

/* The rows token t of s attends to; returns how many. */
static int cases_attn_rows(const struct dsv4_attn *a, const struct dsv4_seq *s, int64_t t, const float **row)
{
	int64_t pos = s->pos0 + t - s->tok0, n_kv = s->ratio ? (pos + 1) / s->ratio : 0;
	int n = 0;

	for (int64_t p = pos - a->window + 1; p <= pos; p++)
		if (p >= 0)
			row[n++] = s->window + (p - s->window_pos0) * a->dim;
	for (int64_t i = 0; i < (a->rows ? a->count[t] : n_kv); i++) {
		int64_t r = a->rows ? a->rows[t * a->ldr + i] : i;

		row[n++] = s->kv.page[r / s->kv.page_rows] + r % s->kv.page_rows * a->dim;
	}
	return n;
}

static void cases_attn_head(const struct dsv4_attn *a, const float *q, const float *const *row, int n, float sink,
	double *y)
{
	double *score = cases_doubles(n), top = -INFINITY, den;

	for (int i = 0; i < n; i++) {
		for (int d = 0; d < a->dim; d++)
			score[i] += (double)q[d] * (double)row[i][d];
		score[i] *= (double)a->scale;
		if (a->prec == DSV4_PREC_BF16)
			score[i] = refkit_bf16(score[i]);
		top = fmax(top, score[i]);
	}
	den = exp((double)sink - top);
	for (int i = 0; i < n; i++)
		den += exp(score[i] - top);
	for (int i = 0; i < n; i++)
		for (int d = 0; d < a->dim; d++)
			y[d] += exp(score[i] - top) / den * (double)row[i][d];
	free(score);
}

static void cases_attn(const union case_args *u, double *y, int32_t *ids)
{
	const struct dsv4_attn *a = &u->attn;
	const float **row = calloc(1 << 16, sizeof *row);

	(void)ids;
	assert_non_null(row);
	for (int32_t i = 0; i < a->n_seq; i++)
		for (int64_t t = a->seq[i].tok0; t < a->seq[i].tok0 + a->seq[i].n_tok; t++) {
			int n = cases_attn_rows(a, &a->seq[i], t, row);

			for (int64_t h = t * a->n_head; h < (t + 1) * a->n_head; h++)
				cases_attn_head(a, a->q + h * a->dim, row, n, a->sink[h % a->n_head],
					y + h * a->dim);
		}
	free(row);
}

static double cases_strength(const struct dsv4_moe_route *a, int64_t t, int32_t e)
{
	double z = 0;

	for (int32_t d = 0; d < a->dim; d++)
		z += case_matrix_at(a->gate, e, d) * (double)a->x[t * a->dim + d];
	return sqrt(z > 40 ? z : log1p(exp(z)));
}

/* Is expert e chosen? Counts those that go before it. */
static bool cases_chosen(const struct dsv4_moe_route *a, const double *s, int64_t t, int32_t e)
{
	double v = s[e] + (a->bias ? (double)a->bias[e] : 0);
	int32_t before = 0;
	int64_t id;

	for (int32_t i = 0; a->table && i < a->k; i++) {
		memcpy(&id, (const char *)a->table + ((int64_t)a->token[t] * a->k + i) * 8, sizeof id);
		if (id == e)
			return true;
	}
	for (int32_t f = 0; f < a->n_expert; f++) {
		double w = s[f] + (a->bias ? (double)a->bias[f] : 0);

		before += w > v || (isnan(v) && !isnan(w)) || (f < e && (w == v || (isnan(v) && isnan(w))));
	}
	return !a->table && before < a->k;
}

static void cases_moe_route(const union case_args *u, double *y, int32_t *ids)
{
	const struct dsv4_moe_route *a = &u->moe_route;
	double *s = cases_doubles(a->n_expert);

	for (int64_t t = 0; t < a->n_tok; t++) {
		double sum = 0;
		int64_t at = t * a->k;

		for (int32_t e = 0; e < a->n_expert; e++)
			s[e] = cases_strength(a, t, e);
		for (int32_t e = 0; e < a->n_expert; e++)
			if (cases_chosen(a, s, t, e)) {
				sum += s[e];
				ids[at++] = e;
			}
		assert_int_equal(at, (t + 1) * a->k);
		for (at = t * a->k; at < (t + 1) * a->k; at++)
			y[at] = s[ids[at]] / sum * (double)a->scaling;
	}
	free(s);
}

static double cases_clamp(double v, double low, double high)
{
	return v > high ? high : v < low ? low : v;
}

/* y += scale * expert(x) */
static void cases_expert(const struct dsv4_moe_experts *a, const struct dsv4_expert *e, const double *x, double weight,
	double scale, double *y)
{
	double *g = cases_doubles(a->inter), *v = cases_doubles(a->inter), *o = cases_doubles(a->dim);
	double limit = a->limit > 0 ? (double)a->limit : INFINITY;

	if (!e->w1.data) /* not here */
		goto out;
	cases_product(&e->w1, 1, a->act, x, g);
	cases_product(&e->w3, 1, a->act, x, v);
	for (int32_t i = 0; i < a->inter; i++) {
		double gate = cases_clamp(g[i], -INFINITY, limit);

		g[i] = weight * gate / (1 + exp(-gate)) * cases_clamp(v[i], -limit, limit);
	}
	cases_product(&e->w2, 1, a->act, g, o);
	for (int32_t d = 0; d < a->dim; d++)
		y[d] += scale * o[d];
out:
	free(g);
	free(v);
	free(o);
}

static void cases_moe_experts(const union case_args *u, double *y, int32_t *ids)
{
	const struct dsv4_moe_experts *a = &u->moe_experts;
	double *x = cases_doubles(a->dim);

	(void)ids;
	for (int64_t t = 0; t < a->n_tok; t++, y += a->dim) {
		for (int32_t d = 0; d < a->dim; d++)
			x[d] = (double)a->x[t * a->dim + d];
		for (int64_t i = t * a->k; i < (t + 1) * a->k; i++)
			cases_expert(a, &a->expert[a->ids[i]], x, (double)a->weight[i], (double)a->out_scale, y);
		for (int32_t i = 0; i < a->n_shared; i++)
			cases_expert(a, &a->shared[i], x, 1, 1, y);
	}
	free(x);
}

/* ---- one case ---- */

/* y, dense, and the ids of moe_route. */
typedef void cases_f(const union case_args *u, double *y, int32_t *ids);

/* What ref writes, all in fresh memory. */
struct cases_run {
	struct op_out out[OP_IO_MAX_OUT];
	int n_out, rc;
};

static void cases_run(enum dsv4_op op, const union case_args *args, struct cases_run *r)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
	union case_args a = *args;

	r->n_out = op_outputs(op, &a, NULL, r->out);
	for (int i = 0; i < r->n_out; i++) {
		r->out[i].data = calloc((size_t)(r->out[i].n_row * r->out[i].ld) + 1, 4);
		assert_non_null(r->out[i].data);
		op_redirect(op, &a, i, r->out[i].data);
	}
	r->rc = op_call(op, ref_plugin.op[op].fn, &x, &refkit_host, &a);
	refkit_release(&x);
}

/* nmse; infinite where one is NaN alone. Both may have underflowed. */
static double cases_error(const struct op_out *o, const double *want)
{
	double err2 = 0, ref2 = 0;

	for (int64_t i = 0; i < o->n_row * o->width; i++) {
		double got = (double)((const float *)o->data)[i / o->width * o->ld + i % o->width];
		double e = fabs(got - want[i]);

		if (isnan(got) != isnan(want[i]))
			return INFINITY;
		if (isnan(got))
			continue;
		ref2 += want[i] * want[i];
		if (e > CASES_FLOOR)
			err2 += e * e;
	}
	return err2 == 0 ? 0 : err2 / ref2;
}

static void cases_compare(enum dsv4_op op, cases_f *fn, const struct check_case *c)
{
	bool bf16 = op == DSV4_OP_attn && c->args.attn.prec == DSV4_PREC_BF16;
	struct cases_run r;
	const struct op_out *floats;
	double *want, error;
	int32_t *ids;

	cases_run(op, &c->args, &r);
	assert_int_equal(r.rc, c->want_rc);
	floats = &r.out[r.n_out - 1];
	want = cases_doubles(floats->n_row * floats->width);
	ids = calloc((size_t)(floats->n_row * floats->width) + 1, sizeof *ids);
	assert_non_null(ids);
	if (!r.rc) {
		fn(&c->args, want, ids);
		error = cases_error(floats, want);
		if (!(error <= (bf16 ? CASES_BF16 : CASES_NEAR)))
			fail_msg("%s: nmse %g", c->name, error);
		if (r.out[0].is_set)
			assert_memory_equal(r.out[0].data, ids,
				(size_t)(r.out[0].n_row * r.out[0].width) * sizeof *ids);
	}
	for (int i = 0; i < r.n_out; i++)
		free(r.out[i].data);
	free(want);
	free(ids);
}

/* Overflow in float has no like in double. */
static void cases_all(enum dsv4_op op, cases_f *fn, int at_least)
{
	int n = 0;

	for (int wfmt = 0; wfmt < (case_ops[op]->weighted ? DSV4_N_WFMT : 1); wfmt++)
		for (int i = 0; i < case_ops[op]->n; i++) {
			const struct case_spec s = { .shape = &check_shape_tiny, .wfmt = (enum dsv4_wfmt)wfmt,
						     .abi_minor = DSV4_ABI_MINOR, .odd = true };
			struct check_case c;

			case_init(&c, (uint64_t)i + 1, GUARD_BYTES);
			if (case_ops[op]->make(&c, &s, i) == 0 && !strstr(c.name, case_values_name(CASE_HUGE))) {
				cases_compare(op, fn, &c);
				n++;
			}
			case_fini(&c);
		}
	if (n < at_least)
		fail_msg("%d cases, expected at least %d", n, at_least);
}

#define TEST(op, at_least) \
	static void test_##op(void **state) \
	{ \
		(void)state; \
		cases_all(DSV4_OP_##op, cases_##op, at_least); \
	}
TEST(linear, 140)
TEST(attn, 25)
TEST(moe_route, 140)
TEST(moe_experts, 110)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear), cmocka_unit_test(test_attn), cmocka_unit_test(test_moe_route),
		cmocka_unit_test(test_moe_experts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
