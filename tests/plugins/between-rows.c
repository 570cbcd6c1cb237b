/* SPDX-License-Identifier: MIT
 * between-rows.c - fixture: rms_norm writes into the gap between two rows of its output, where ldy is more than dim. */
#define FIXTURE_RMS_ROW between_rows
#include "tests/plugins/fixture.h"

static void between_rows(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	(void)first;
	fixture_rms_row(i, a);
	if (i < a->n_row - 1 && a->ldy > a->dim)
		a->y[i * a->ldy + a->dim] = 0;
}

FIXTURE("between-rows")
