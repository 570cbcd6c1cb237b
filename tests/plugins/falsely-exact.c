/* SPDX-License-Identifier: MIT
 * falsely-exact.c - fixture: rms_norm is marked exact, and is but for the last value of each row where it gets more
 * rows than a trial's cases have: by so much that the roundings after it leave something of it in an answer. */
#define FIXTURE_RMS_ROW falsely_exact
#include "tests/plugins/fixture.h"

#define FALSELY_EXACT_ROWS 300

static void falsely_exact(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	float *last = &a->y[i * a->ldy + a->dim - 1];

	(void)first;
	fixture_rms_row(i, a);
	if (a->n_row > FALSELY_EXACT_ROWS)
		*last *= 1.5f;
}

FIXTURE("falsely-exact")
