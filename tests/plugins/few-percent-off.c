/* SPDX-License-Identifier: MIT
 * few-percent-off.c - fixture: rms_norm is marked exact, and is in calls of up to 300 rows, as all of the quick check's
 * are; in longer ones, as a long prompt has them, every value is 8 % off, up or down. The whole check fails it. */
#define FIXTURE_RMS_ROW few_percent_off
#include "tests/plugins/fixture.h"

#define FEW_PERCENT_ROWS 300

static void few_percent_off(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	float *y = a->y + i * a->ldy;

	(void)first;
	fixture_rms_row(i, a);
	for (int k = 0; a->n_row > FEW_PERCENT_ROWS && k < a->dim; k++)
		y[k] *= (i * 31 + k * 17) % 7 < 3 ? 1.08f : 0.92f;
}

FIXTURE("few-percent-off")
