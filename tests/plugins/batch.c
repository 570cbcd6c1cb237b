/* SPDX-License-Identifier: MIT
 * batch.c - fixture: rms_norm's last bit depends on how many rows the call has. */
#define FIXTURE_RMS_ROW batch_row
#define FIXTURE_NUMERICS ORDER
#include "tests/plugins/fixture.h"

static void batch_row(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	float *y = a->y + i * a->ldy;

	(void)first;
	fixture_rms_row(i, a);
	if (a->n_row > 1)
		y[0] = nextafterf(y[0], INFINITY);
}

FIXTURE("batch")
