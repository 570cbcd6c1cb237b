/* SPDX-License-Identifier: MIT
 * digest.c - tests of the digest of floats: any changed bit, place or length shows.
 * Threads: one. Locks: none. */
#include "engine/serve/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 37 /* whole steps and a rest */

static void test_fill(float x[N])
{
	for (int i = 0; i < N; i++)
		x[i] = (float)(i * i) * 0.37f - 11.0f;
}

static void test_flip(float *x, int bit)
{
	uint32_t w;

	memcpy(&w, x, sizeof w);
	w ^= (uint32_t)1 << bit;
	memcpy(x, &w, sizeof w);
}

static void any_bit_shows(void **state)
{
	float x[N];
	uint64_t was;

	(void)state;
	test_fill(x);
	was = digest_floats(x, N);
	for (int i = 0; i < N; i++)
		for (int bit = 0; bit < 32; bit++) {
			test_flip(&x[i], bit);
			assert_true(digest_floats(x, N) != was);
			test_flip(&x[i], bit);
		}
	assert_true(digest_floats(x, N) == was);
}

/* The highest bits of two words would leave a sum or a plain product as it was. */
static void two_signs_do_not_cancel(void **state)
{
	float x[N];
	uint64_t was;

	(void)state;
	test_fill(x);
	was = digest_floats(x, N);
	for (int i = 0; i < N; i++)
		for (int k = i + 1; k < N; k++) {
			test_flip(&x[i], 31);
			test_flip(&x[k], 31);
			assert_true(digest_floats(x, N) != was);
			test_flip(&x[i], 31);
			test_flip(&x[k], 31);
		}
}

static void places_and_lengths_show(void **state)
{
	float x[N], zero[N] = { 0 };
	uint64_t seen[N];

	(void)state;
	test_fill(x);
	for (int i = 0; i + 1 < N; i++) {
		float y[N];

		memcpy(y, x, sizeof y);
		y[i] = x[i + 1];
		y[i + 1] = x[i];
		assert_true(digest_floats(y, N) != digest_floats(x, N));
	}
	for (int n = 0; n < N; n++) {
		seen[n] = digest_floats(zero, (size_t)n);
		for (int i = 0; i < n; i++)
			assert_true(seen[i] != seen[n]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_bit_shows),
		cmocka_unit_test(two_signs_do_not_cancel),
		cmocka_unit_test(places_and_lengths_show),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
