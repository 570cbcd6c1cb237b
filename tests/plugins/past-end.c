/* SPDX-License-Identifier: MIT
 * past-end.c - fixture: rms_norm writes one value past the end of its output. */
#define FIXTURE_RMS_ROW past_end
#include "tests/plugins/fixture.h"

static void past_end(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	(void)first;
	fixture_rms_row(i, a);
	if (i == a->n_row - 1)
		a->y[i * a->ldy + a->dim] = 0;
}

FIXTURE("past-end")
