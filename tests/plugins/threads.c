/* SPDX-License-Identifier: MIT
 * threads.c - fixture: rms_norm's last bit depends on where parallel_for cut the rows. */
#define FIXTURE_RMS_ROW threads_row
#define FIXTURE_NUMERICS ORDER
#include "tests/plugins/fixture.h"

static void threads_row(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	float *y = a->y + i * a->ldy;

	fixture_rms_row(i, a);
	if (i == first && first > 0)
		y[0] = nextafterf(y[0], INFINITY);
}

FIXTURE("threads")
