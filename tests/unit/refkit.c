/* SPDX-License-Identifier: MIT
 * refkit.c - what tests of kernels share: a fake host, random weights with their values in double,
 * comparisons. Threads: the test's own, plus those of parallel_for. Locks: none. */
#include "tests/unit/refkit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- host ---- */

#define REFKIT_THREADS_MAX 3

struct refkit_part {
	pthread_t thread;
	int64_t first, n, grain;
	dsv4_slice_f *fn;
	void *arg;
};

/* Thread i takes chunks i, i + 3, i + 6... */
static void *refkit_thread(void *arg)
{
	struct refkit_part *p = arg;

	for (int64_t i = p->first * p->grain; i < p->n; i += p->grain * REFKIT_THREADS_MAX)
		p->fn(p->arg, i, i + p->grain < p->n ? i + p->grain : p->n);
	return NULL;
}

static void refkit_parallel_for(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	struct refkit_part part[REFKIT_THREADS_MAX];

	assert_true(grain >= 1 && n >= 0);
	if (x->mode == REFKIT_WHOLE && n > 0)
		fn(arg, 0, n);
	if (x->mode == REFKIT_ONES_BACKWARDS)
		for (int64_t i = n; i-- > 0;)
			fn(arg, i, i + 1);
	if (x->mode != REFKIT_THREADS)
		return;
	for (int i = 0; i < REFKIT_THREADS_MAX; i++) {
		part[i] = (struct refkit_part){ .first = i, .n = n, .grain = grain, .fn = fn, .arg = arg };
		assert_int_equal(pthread_create(&part[i].thread, NULL, refkit_thread, &part[i]), 0);
	}
	for (int i = 0; i < REFKIT_THREADS_MAX; i++)
		assert_int_equal(pthread_join(part[i].thread, NULL), 0);
}

/* All bits set: NaN for an op that reads what it has not written. */
static void *refkit_scratch(struct dsv4_exec *x, size_t bytes)
{
	size_t size = (bytes + 63) / 64 * 64 + 64;

	if (x->n_scratch == 0)
		return NULL;
	x->n_scratch--;
	assert_true(x->n_mem < 64);
	x->mem[x->n_mem] = aligned_alloc(64, size);
	assert_non_null(x->mem[x->n_mem]);
	return memset(x->mem[x->n_mem++], 0xff, size);
}

static int refkit_n_threads(struct dsv4_exec *x)
{
	return x->mode == REFKIT_THREADS ? REFKIT_THREADS_MAX : 1;
}

const struct dsv4_host refkit_host = {
	.size = sizeof refkit_host,
	.abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR,
	.parallel_for = refkit_parallel_for,
	.scratch = refkit_scratch,
	.n_threads = refkit_n_threads,
};

void refkit_release(struct dsv4_exec *x)
{
	while (x->n_mem > 0)
		free(x->mem[--x->n_mem]);
}

static void refkit_run_split(refkit_run_f *run, void *arg, enum refkit_mode mode, int32_t n_tok,
			     int32_t chunk, float *out)
{
	for (int32_t t = 0; t < n_tok; t += chunk) {
		struct dsv4_exec x = { .mode = mode, .n_scratch = -1 };

		assert_int_equal(run(arg, &x, t, t + chunk < n_tok ? chunk : n_tok - t, out), 0);
		refkit_release(&x);
	}
}

void refkit_same_bits(refkit_run_f *run, void *arg, int32_t n_tok, size_t width, float *out)
{
	size_t bytes = (size_t)n_tok * width * sizeof *out;
	const int32_t chunks[] = { n_tok, 1, 3 };
	float *again = malloc(bytes);

	assert_non_null(again);
	memset(out, 0xff, bytes);
	refkit_run_split(run, arg, REFKIT_WHOLE, n_tok, n_tok, out);
	for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
		for (enum refkit_mode mode = 0; mode < REFKIT_N_MODE; mode++) {
			memset(again, 0xff, bytes);
			refkit_run_split(run, arg, mode, n_tok, chunks[c], again);
			assert_memory_equal(again, out, bytes);
		}
	free(again);
}

/* ---- random values ---- */

static uint32_t refkit_state = 1;

void refkit_seed(uint32_t seed)
{
	refkit_state = seed * 2654435761u | 1;
}

static uint32_t refkit_next(void)
{
	refkit_state ^= refkit_state << 13;
	refkit_state ^= refkit_state >> 17;
	refkit_state ^= refkit_state << 5;
	return refkit_state;
}

double refkit_rand(void)
{
	return refkit_next() * 0x1p-31 - 1.0;
}

uint32_t refkit_below(uint32_t n)
{
	return refkit_next() % n;
}

float *refkit_floats(size_t n, double scale)
{
	float *f = malloc((n ? n : 1) * sizeof *f);

	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		f[i] = (float)(refkit_rand() * scale);
	return f;
}

/* ---- number formats, by definition ---- */

double refkit_e4m3(unsigned code)
{
	unsigned exp = code >> 3 & 15, man = code & 7;
	double v = exp ? ldexp(8 + man, (int)exp - 10) : ldexp(man, -9);

	if ((code & 0x7f) == 0x7f)
		return NAN;
	return code & 0x80 ? -v : v;
}

double refkit_e2m1(unsigned code)
{
	unsigned exp = code >> 1 & 3, man = code & 1;
	double v = exp ? ldexp(2 + man, (int)exp - 2) : man * 0.5;

	return code & 8 ? -v : v;
}

unsigned refkit_nearest(double x, double (*value)(unsigned), unsigned n_code)
{
	unsigned half = n_code / 2, best = 0;

	for (unsigned c = 1; c < half; c++) {
		double d = fabs(value(c) - fabs(x)), b = fabs(value(best) - fabs(x));

		if (d < b || (d == b && c % 2 == 0))
			best = c;
	}
	return signbit(x) ? best + half : best;
}

static double refkit_scale(const double *x, int64_t n, double floor, double top)
{
	double m = floor, frac;
	int exp;

	for (int64_t i = 0; i < n; i++)
		m = fmax(m, fabs(x[i]));
	frac = frexp(m / top, &exp);
	return ldexp(1, frac == 0.5 ? exp - 1 : exp);
}

void refkit_round_fp8(double *x, int64_t n)
{
	double s = refkit_scale(x, n, (double)1e-4f, 448);

	for (int64_t i = 0; i < n; i++)
		x[i] = refkit_e4m3(refkit_nearest(x[i] / s, refkit_e4m3, 256)) * s;
}

void refkit_round_fp4(double *x, int64_t n)
{
	double s = refkit_scale(x, n, 6 * 0x1p-126, 6);

	for (int64_t i = 0; i < n; i++)
		x[i] = refkit_e2m1(refkit_nearest(x[i] / s, refkit_e2m1, 16)) * s;
}

/* By scaling to an integer of 8 bits; for normal values. */
double refkit_bf16(double x)
{
	int exp;
	double frac = frexp(x, &exp);

	return ldexp(nearbyint(ldexp(frac, 8)), exp - 8);
}

/* ---- weights ---- */

static int64_t refkit_up(int64_t n, int64_t block)
{
	return (n + block - 1) / block;
}

/* A scale in any of the formats, written at index i; returns what it means. */
static double refkit_put_scale(struct refkit_weight *k, int64_t i)
{
	float f = (float)(0.01 + fabs(refkit_rand()));
	unsigned code;

	switch (k->w.sfmt) {
	case DSV4_S_E8M0:
		code = 124 + refkit_below(6);
		((uint8_t *)k->w.scale)[i] = (uint8_t)code;
		return ldexp(1, (int)code - 127);
	case DSV4_S_E4M3:
		code = 1 + refkit_below(100);
		((uint8_t *)k->w.scale)[i] = (uint8_t)code;
		return refkit_e4m3(code) * (double)k->w.scale2;
	default:
		memcpy((uint8_t *)k->w.scale + 4 * i, &f, 4);
		return (double)f;
	}
}

/* The value of element (r, c) before scaling, stored at a byte address that need not be aligned. */
static double refkit_put_value(struct refkit_weight *k, int64_t r, int64_t c)
{
	uint8_t *data = (uint8_t *)k->w.data;
	int64_t i = r * k->w.cols + c;
	float f = (float)refkit_rand();
	unsigned code;
	uint16_t h;

	switch (k->w.fmt) {
	case DSV4_W_F32:
		memcpy(data + 4 * i, &f, 4);
		return (double)f;
	case DSV4_W_BF16:
		h = (uint16_t)(0x3c00 + refkit_below(0x380)); /* 2^-7 to 1 */
		memcpy(data + 2 * i, &h, 2);
		return ldexp(0x80 + (h & 0x7f), (h >> 7) - 127 - 7);
	case DSV4_W_FP8:
		code = refkit_below(0x7f) | refkit_below(2) << 7;
		data[i] = (uint8_t)code;
		return refkit_e4m3(code);
	default:
		code = refkit_below(16);
		data += r * refkit_up(k->w.cols, 2) + c / 2;
		*data = (uint8_t)(c % 2 ? *data | code << 4 : code);
		return refkit_e2m1(code);
	}
}

void refkit_weight_init(struct refkit_weight *k, enum dsv4_wfmt fmt, enum dsv4_sfmt sfmt, int64_t rows,
			int64_t cols)
{
	int64_t bc = fmt == DSV4_W_FP4	   ? 32
		     : fmt == DSV4_W_NVFP4 ? 16
					   : 128,
		br = fmt == DSV4_W_FP8 ? 128 : 1;
	int64_t n_scale = refkit_up(rows, br) * refkit_up(cols, bc);
	double *scale = calloc((size_t)n_scale, sizeof *scale);

	*k = (struct refkit_weight){ 0 };
	k->value = calloc((size_t)(rows * cols), sizeof *k->value);
	k->data = calloc((size_t)(rows * cols), 4 * 2);
	k->scale = calloc((size_t)n_scale, 4 * 2);
	assert_true(scale && k->value && k->data && k->scale);
	k->w = (struct dsv4_weight){ .size = sizeof k->w,
				     .fmt = (uint8_t)fmt,
				     .sfmt = (uint8_t)sfmt,
				     .rows = rows,
				     .cols = cols,
				     .data = k->data + 1,
				     .scale = sfmt ? k->scale + 1 : NULL,
				     .scale2 = 1 };
	if (fmt == DSV4_W_NVFP4)
		k->w.scale2 = 0.37f;
	for (int64_t i = 0; sfmt && i < n_scale; i++)
		scale[i] = refkit_put_scale(k, i);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < cols; c++)
			k->value[r * cols + c] = refkit_put_value(k, r, c) *
				(sfmt ? scale[r / br * refkit_up(cols, bc) + c / bc] : 1);
	free(scale);
}

void refkit_weight_fini(struct refkit_weight *k)
{
	free(k->value);
	free(k->data);
	free(k->scale);
}

double refkit_error(const float *got, const double *want, size_t n)
{
	double num = 0, den = 0;

	for (size_t i = 0; i < n; i++) {
		num += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
		den += want[i] * want[i];
	}
	return den > 0 ? sqrt(num / den) : sqrt(num);
}
