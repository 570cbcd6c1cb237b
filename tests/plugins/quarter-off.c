/* SPDX-License-Identifier: MIT
 * quarter-off.c - fixture: rms_norm is marked exact, and is in calls of up to 300 rows, as all of the quick check's
 * are; in longer ones, as a long prompt has them, every value is a quarter off, up or down. The whole check fails
 * it. */
#define FIXTURE_RMS_ROW quarter_off
#include "tests/plugins/fixture.h"

#define QUARTER_ROWS 300

static void quarter_off(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	float *y = a->y + i * a->ldy;

	(void)first;
	fixture_rms_row(i, a);
	for (int k = 0; a->n_row > QUARTER_ROWS && k < a->dim; k++)
		y[k] *= (i * 31 + k * 17) % 7 < 3 ? 1.25f : 0.75f;
}

FIXTURE("quarter-off")
