/* SPDX-License-Identifier: MIT
 * case.c - what the makers of cases share: random values, guarded input buffers, sequences.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct case_op *const case_ops[DSV4_N_OP] = {
#define OP(op, family, args, text) [DSV4_OP_##op] = &case_##op,
#include "plugins/ops.def"
#undef OP
};

const char *case_values_name(enum case_values v)
{
	static const char *const names[CASE_N_VALUES] = {
		[CASE_BIG] = "big",	      [CASE_FP4] = "fp4",
		[CASE_PLAIN] = "plain",	      [CASE_ZERO] = "zero",   [CASE_SIGNED_ZERO] = "signed zero",
		[CASE_DENORMAL] = "denormal", [CASE_LARGE] = "large", [CASE_HUGE] = "huge",
		[CASE_MIXED] = "mixed",	      [CASE_NAN] = "nan",
	};

	return names[v];
}

/* The seed is scrambled by another generator than case_next(), whose streams of near seeds would overlap. */
void case_init(struct check_case *c, uint64_t seed, enum guard_place place)
{
	*c = (struct check_case){ .rng = seed, .place = place };
	for (int i = 0; i < 3; i++) {
		c->rng ^= c->rng >> 33;
		c->rng *= 0xff51afd7ed558ccdu;
	}
	c->rng ^= c->rng >> 29;
}

void case_fini(struct check_case *c)
{
	for (int i = 0; i < c->n_buf; i++)
		guard_free(&c->buf[i]);
	free(c->buf);
	*c = (struct check_case){ 0 };
}

int case_keep(struct check_case *c)
{
	for (int i = 0; i < c->n_buf && !c->rc; i++) {
		c->rc = guard_keep(&c->buf[i]);
		guard_lock(&c->buf[i]);
	}
	return c->rc;
}

void case_name(struct check_case *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->name, sizeof c->name, fmt, ap);
	va_end(ap);
}

/* ---- random numbers ---- */

/* splitmix64 */
static uint64_t case_next(struct check_case *c)
{
	uint64_t z = c->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int64_t case_below(struct check_case *c, int64_t n)
{
	must(n > 0);
	return (int64_t)(case_next(c) % (uint64_t)n);
}

float case_uniform(struct check_case *c, float lo, float hi)
{
	return lo + (hi - lo) * ((float)(case_next(c) >> 40) * 0x1p-24f);
}

/* A float of magnitude 2^lo to 2^hi, any sign. */
static float case_exponent(struct check_case *c, int lo, int hi)
{
	return ldexpf(case_below(c, 2) ? 1.0f : -1.0f, lo) *
		ldexpf(case_uniform(c, 1, 2), (int)case_below(c, hi - lo));
}

static float case_value(struct check_case *c, enum case_values v, float scale)
{
	switch (v) {
	case CASE_BIG:
		return case_uniform(c, -1000, 1000) * scale;
	case CASE_ZERO:
		return 0;
	case CASE_SIGNED_ZERO:
		return case_below(c, 2) ? 0.0f : -0.0f;
	case CASE_DENORMAL:
		return case_uniform(c, -0x1p-129f, 0x1p-129f);
	case CASE_LARGE:
		return case_uniform(c, -1e15f, 1e15f) * scale;
	case CASE_HUGE:
		return case_below(c, 4) ? case_uniform(c, -scale, scale) : case_uniform(c, -1, 1) * FLT_MAX;
	case CASE_FP4:
		return dsv4_e2m1_to_f32((uint8_t)case_below(c, 16)) *
		       (case_below(c, 3000) ? (float)(1 << case_below(c, 3)) : 0x1p-12f);
	case CASE_MIXED:
		return case_exponent(c, -30, 30) * scale;
	case CASE_NAN:
		return case_below(c, 8) ? case_uniform(c, -scale, scale) : NAN;
	default:
		return case_uniform(c, -scale, scale);
	}
}

/* ---- buffers ---- */

int case_guard(const struct check_case *c, struct guard *g, size_t size, size_t skew)
{
	return c->memory ? guard_new_from(g, size, skew, c->place, c->memory) : guard_new(g, size, skew, c->place);
}

void *case_alloc(struct check_case *c, size_t bytes, size_t align)
{
	size_t skew = case_next(c) % 4 * 16 + align % 64;
	struct guard *g;

	if (align == 64)
		skew = 0;
	if (c->rc)
		return NULL;
	c->buf = mem_grow(c->buf, (size_t)c->n_buf + 1, sizeof *c->buf);
	g = &c->buf[c->n_buf];
	c->rc = case_guard(c, g, bytes, skew);
	if (c->rc)
		return NULL;
	c->n_buf++;
	return g->data;
}

float *case_floats(struct check_case *c, int64_t n, enum case_values v, float scale)
{
	float *f = case_alloc(c, (size_t)n * sizeof *f, sizeof *f);

	for (int64_t i = 0; f && i < n; i++)
		f[i] = case_value(c, v, scale);
	return f;
}

float *case_rotations(struct check_case *c, int64_t n_row, int rot)
{
	float *cs = case_alloc(c, (size_t)(n_row * rot) * sizeof *cs, sizeof *cs);

	for (int64_t i = 0; cs && i + 1 < n_row * rot; i += 2) {
		float angle = case_uniform(c, -3.2f, 3.2f);

		cs[i] = cosf(angle);
		cs[i + 1] = sinf(angle);
	}
	return cs;
}

/* Random bytes; for e4m3 without its two NaN codes. */
static void case_bytes(struct check_case *c, uint8_t *p, size_t n, bool e4m3)
{
	uint64_t r = 0;

	for (size_t i = 0; i < n; i++, r >>= 8) {
		if (i % 8 == 0)
			r = case_next(c);
		p[i] = (uint8_t)r;
		if (e4m3 && (p[i] & 0x7f) == 0x7f)
			p[i] ^= 1;
	}
}

static void case_weight_data(struct check_case *c, const struct dsv4_weight *w, uint8_t *data, size_t bytes)
{
	float scale = 1.7f / sqrtf((float)w->cols);

	if (w->fmt == DSV4_W_F32 || w->fmt == DSV4_W_BF16) {
		for (int64_t i = 0; i < w->rows * w->cols; i++) {
			float f = case_uniform(c, -scale, scale);
			uint16_t h = dsv4_f32_to_bf16(f);

			if (w->fmt == DSV4_W_F32)
				memcpy(data + 4 * i, &f, 4);
			else
				memcpy(data + 2 * i, &h, 2);
		}
		return;
	}
	case_bytes(c, data, bytes, w->fmt == DSV4_W_FP8);
}

/* Scales around 1 / (rms of the codes * sqrt(cols)), some twice, some half of it. */
static void case_weight_scale(struct check_case *c, const struct dsv4_weight *w, uint8_t *scale, int64_t n)
{
	float rms = w->fmt == DSV4_W_FP8 ? 130.0f : 2.9f, mean = 1.0f / (rms * sqrtf((float)w->cols));

	for (int64_t i = 0; i < n; i++) {
		float f = mean * case_uniform(c, 0.5f, 2.0f);

		if (w->sfmt == DSV4_S_F32)
			memcpy(scale + 4 * i, &f, 4);
		else if (w->sfmt == DSV4_S_E8M0)
			scale[i] = (uint8_t)(127 + lrintf(log2f(f)));
		else
			scale[i] = dsv4_f32_to_e4m3(f / w->scale2);
	}
}

void case_weight(struct check_case *c, struct dsv4_weight *w, enum dsv4_wfmt fmt, enum dsv4_sfmt sfmt,
		 int64_t rows, int64_t cols)
{
	static const uint8_t block_of[DSV4_N_WFMT] = { 0, 0, 128, 32, 16 };
	bool e2m1 = fmt == DSV4_W_FP4 || fmt == DSV4_W_NVFP4;
	int64_t block = block_of[fmt], n_scale, bytes;
	uint8_t *data, *scale = NULL;

	*w = (struct dsv4_weight){ .size = sizeof *w, .rows = rows, .cols = cols, .scale2 = 1 };
	w->fmt = (uint8_t)fmt;
	w->sfmt = (uint8_t)sfmt;
	bytes = fmt == DSV4_W_F32 ? 4 * rows * cols : fmt == DSV4_W_BF16 ? 2 * rows * cols
		: e2m1						? rows * ((cols + 1) / 2) : rows * cols;
	n_scale = block ? (fmt == DSV4_W_FP8 ? (rows + 127) / 128 : rows) * ((cols + block - 1) / block) : 0;
	if (fmt == DSV4_W_NVFP4)
		w->scale2 = 0.37f / (100.0f * sqrtf((float)cols));
	w->data = data = case_alloc(c, (size_t)bytes, 1);
	if (n_scale)
		w->scale = scale = case_alloc(c, (size_t)n_scale * (sfmt == DSV4_S_F32 ? 4 : 1), 1);
	if (c->rc)
		return;
	case_weight_data(c, w, data, (size_t)bytes);
	if (n_scale)
		case_weight_scale(c, w, scale, n_scale);
}

void case_rows(struct check_case *c, struct dsv4_rows *r, int64_t n, int dim, int64_t page_rows,
	       enum case_values v, float scale)
{
	int64_t n_page = (n + page_rows - 1) / page_rows;
	const float **page = case_alloc(c, (size_t)n_page * sizeof *page, sizeof *page);

	*r = (struct dsv4_rows){ .size = sizeof *r, .n = n, .page_rows = page_rows, .page = page };
	r->dim = (uint32_t)dim;
	for (int64_t i = 0; i < n_page && !c->rc; i++) {
		int64_t left = n - i * page_rows;

		page[i] = case_floats(c, (left < page_rows ? left : page_rows) * dim, v, scale);
	}
}

/* ---- for make and slice functions ---- */

bool case_wanted(const struct case_spec *s, bool odd, bool quick, enum case_values v)
{
	if ((odd && !s->odd) || (s->quick && !quick))
		return false;
	if (v == CASE_HUGE)
		return s->numerics == DSV4_EXACT;
	return s->numerics != DSV4_LOSSY || v == CASE_PLAIN || v == CASE_BIG || v == CASE_ZERO;
}

int case_n_tok(struct check_case *c, const struct case_spec *s, int n, int most)
{
	int64_t limit = s->phase == DSV4_DECODE && most > CASE_MAX_DECODE ? CASE_MAX_DECODE : most;

	if (n != CASE_N_TOK_ANY)
		return n;
	switch (case_below(c, 4)) {
	case 0:
		return (int)(1 + case_below(c, limit < 32 ? limit : 32));
	case 1:
		return (int)(limit < 8 ? limit : 8 * (1 + case_below(c, limit / 8)));
	default:
		return (int)(1 + case_below(c, limit));
	}
}

float case_step(enum dsv4_round r)
{
	return r == DSV4_ROUND_BF16 ? 0x1p-7f : r == DSV4_ROUND_FP8 ? 0x1p-3f : r == DSV4_ROUND_FP4 ? 0.5f : 0;
}

int case_slice_seqs(const struct dsv4_seq *seq, int n_seq, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	int kept = 0;

	for (int i = 0; i < n_seq; i++) {
		int64_t first = seq[i].tok0, end = first + seq[i].n_tok;
		int64_t lo = first > t0 ? first : t0, hi = end < t0 + n ? end : t0 + n;

		if (lo >= hi)
			continue;
		must(kept < CASE_MAX_SEQ);
		mem[kept] = seq[i];
		mem[kept].pos0 += lo - first;
		mem[kept].tok0 = (int32_t)(lo - t0);
		mem[kept++].n_tok = (int32_t)(hi - lo);
	}
	return kept;
}
