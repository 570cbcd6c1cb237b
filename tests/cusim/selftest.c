/* SPDX-License-Identifier: MIT
 * selftest.c - the simulator finds what is wrong with each kernel of selftest_*.cu, in one line, and nothing in those
 * that are right.
 * Threads: one. Locks: none. */
#include "tests/cusim/selftest.h"
#include "plugins/dsv4_numfmt.h"
#include "tests/cusim/cusim_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SELFTEST_N 512

#define OP(kernel, blocks, threads, shared, text) extern const struct cusim_kernel kernel;
SELFTESTS(OP)
#undef OP

struct selftest_row {
	const struct cusim_kernel *kernel;
	uint32_t blocks, threads, shared;
	const char *text;
};

static struct selftest_args args;
static int failed;

static float *selftest_floats(int written)
{
	float *f = aligned_alloc(64, SELFTEST_N * sizeof *f);

	for (int i = 0; f && i < SELFTEST_N; i++)
		f[i] = (float)(i * 7 % 11);
	cusim_memory_add(f, SELFTEST_N * sizeof *f, written);
	return f;
}

/* stderr goes to a file while the kernel runs. */
static int selftest_launch(const struct selftest_row *r, char *said, size_t size)
{
	const struct cusim_launch l = { .kernel = r->kernel, .grid = { r->blocks, 1, 1 }, .block = { r->threads, 1, 1 },
					.shared = r->shared, .args = &args };
	FILE *f = tmpfile();
	int err = dup(2), rc;
	size_t n;

	fflush(stderr);
	dup2(fileno(f), 2);
	rc = cusim_launch(&l);
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(f);
	n = fread(said, 1, size - 1, f);
	said[n] = 0;
	fclose(f);
	return rc;
}

static void selftest_is(int ok, const struct selftest_row *r, const char *said)
{
	printf("%s %s%s%s", ok ? "ok" : "FAILED", r->kernel->name, *said ? ": " : "\n", said);
	failed |= !ok;
}

static void selftest_row(const struct selftest_row *r)
{
	char said[4096];
	int rc = selftest_launch(r, said, sizeof said);
	const char *end = strchr(said, '\n');

	if (!*r->text)
		selftest_is(!rc && !*said, r, said);
	else
		selftest_is(rc > 0 && strstr(said, r->text) && end && !end[1], r, said);
}

static void selftest_values(const struct selftest_row *r, const char *what, float got, float want)
{
	int same = got == want || (isnan(got) && isnan(want));
	char said[128];

	snprintf(said, sizeof said, "%s is %g, not %g\n", what, (double)got, (double)want);
	selftest_is(same, r, same ? "" : said);
}

/* Every other column of the first 8. */
static void selftest_tensor(void)
{
	const struct selftest_row r = { &right_tensor, 1, 128, 0, "" };
	char said[4096];

	selftest_launch(&r, said, sizeof said);
	for (int n = 0; n < SELFTEST_N; n++) {
		int row = n / 4, col = n % 4 * 2;
		float sum = 0;

		for (int i = 0; i < 2; i++) {
			float part = 0, scale = dsv4_e8m0_to_f32(SELFTEST_SCALE_A(i, row));

			for (int k = 0; k < 32; k++)
				part += dsv4_e2m1_to_f32(SELFTEST_A(i, row, k)) *
					dsv4_e4m3_to_f32(SELFTEST_B(i, col, k));
			sum += part * scale * dsv4_e8m0_to_f32(SELFTEST_SCALE_B(i, col));
		}
		if (args.out[n] != sum)
			selftest_values(&r, "a product", args.out[n], sum);
	}
}

static void selftest_scaled(void)
{
	const struct selftest_row scaled = { &right_mma_scaled, 1, 32, 0, "" };
	char said[4096];

	selftest_launch(&scaled, said, sizeof said);
	for (unsigned i = 0; i < 16 * 8; i++) {
		double sum = 0;

		for (unsigned k = 0; k < 32; k++)
			sum += (double)dsv4_e2m1_to_f32((uint8_t)selftest_a(i / 8, k)) *
			       (double)dsv4_e4m3_to_f32((uint8_t)selftest_b(k, i % 8));
		sum *= (double)dsv4_e8m0_to_f32((uint8_t)selftest_scale(i / 8)) *
		       (double)dsv4_e8m0_to_f32((uint8_t)selftest_scale(16 + i % 8));
		if (args.out[i] != (float)(sum + 0.5))
			selftest_values(&scaled, "a scaled product", args.out[i], (float)(sum + 0.5));
	}
	for (int i = 0; i < 32; i++)
		if (args.out[128 + i] != 0)
			selftest_values(&scaled, "what scales elsewhere changed", args.out[128 + i], 0);
}

/* 32 products of 2^(e - 127) each, and what was before. */
static void selftest_sum_of(int e, float before, float want)
{
	const struct selftest_row r = { &right_tensor, 1, 128, 0, "" };
	struct cusim_term a[32], b[32];

	for (int i = 0; i < 32; i++) {
		a[i] = cusim_term_e2m1(2);
		b[i] = cusim_term_e4m3(7 << 3);
	}
	selftest_values(&r, "a sum", cusim_sum_scaled(a, b, 32, (uint8_t)e, 127, before), want);
	b[31] = cusim_term_e4m3(0x7f);
	selftest_values(&r, "a sum with NaN", cusim_sum_scaled(a, b, 32, (uint8_t)e, 127, before), NAN);
}

/* Tensor cores cut off what is below 2^-25 of the largest, then what is below a float's last bit. */
static void selftest_sums(void)
{
	selftest_sum_of(127, 1, 33);
	selftest_sum_of(127 - 25, 1, 1 + 0x1p-20f);
	selftest_sum_of(127 - 26, 1, 1);
	selftest_sum_of(127, 0x1p25f, 0x1p25f + 32);
	selftest_sum_of(127 - 25, 0x1.fffffep0f, 2 + 0x1.8p-21f);
	selftest_sum_of(254, 0, INFINITY);
	selftest_sum_of(0, 0, 0x1p-122f);
	selftest_sum_of(255, 0, NAN);
}

static void selftest_results(void)
{
	const struct selftest_row shuffle = { &right_shuffle, 1, 64, 0, "" }, mma = { &right_mma, 1, 32, 0, "" };
	const struct selftest_row codes = { &right_codes, 1, 256, 0, "" };
	char said[4096];

	selftest_launch(&shuffle, said, sizeof said);
	/* 32 + ... + 63, twice below 8 of 16 lanes, 5 of the count, 1 of the ballot, and the number before. */
	selftest_values(&shuffle, "out[33]", args.out[33], 1520 * 2 + 5 + 1 + 32);
	selftest_values(&shuffle, "out[63]", args.out[63], 1520 + 5 + 1 + 62);
	selftest_launch(&mma, said, sizeof said);
	for (int i = 0; i < 16 * 8; i++) {
		float sum = 0;

		for (int k = 0; k < 16; k++)
			sum += args.in[i / 8 * 16 + k] * args.in[256 + k * 8 + i % 8];
		if (args.out[i] != sum)
			selftest_values(&mma, "a product", args.out[i], sum);
	}
	selftest_launch(&codes, said, sizeof said);
	for (int i = 0; i < SELFTEST_N; i++)
		if (args.out[i] != 0)
			selftest_values(&codes, "a code's decodings that are wrong", args.out[i], 0);
}

/* Memory that is no more, and a block that is too large. */
static void selftest_others(void)
{
	const struct selftest_row freed = { &right_copy, 1, 64, 0, ", which were freed" };
	const struct selftest_row large = { &right_bound, 1, 96, 0, "a block of 96 threads, but KERNEL says 64 at most" };
	struct selftest_args keep = args;
	float *gone = selftest_floats(1);

	args.in = gone;
	cusim_memory_drop(gone);
	selftest_row(&freed);
	free(gone);
	args = keep;
	selftest_row(&large);
}

int main(void)
{
	static const struct selftest_row rows[] = {
#define OP(kernel, blocks, threads, shared, text) { &kernel, blocks, threads, shared, text },
		SELFTESTS(OP)
#undef OP
	};

	args = (struct selftest_args){ .in = selftest_floats(1), .out = selftest_floats(1), .n = SELFTEST_N };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		float *fresh = selftest_floats(0);

		args.fresh = fresh;
		selftest_row(&rows[i]);
		cusim_memory_drop(fresh);
		free(fresh);
	}
	selftest_results();
	selftest_sums();
	selftest_tensor();
	selftest_scaled();
	selftest_others();
	return failed;
}
