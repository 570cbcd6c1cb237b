/* SPDX-License-Identifier: MIT
 * reads-past.c - fixture: rms_norm reads one value past its input, as a vector loop without a tail does, and uses
 * nothing of it. */
#define FIXTURE_RMS_ROW reads_past_row
#include "tests/plugins/fixture.h"

static void reads_past_row(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	const volatile float *x = a->x + i * a->ldx;

	(void)first;
	(void)x[a->dim];
	fixture_rms_row(i, a);
}

FIXTURE("reads-past")
