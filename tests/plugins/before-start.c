/* SPDX-License-Identifier: MIT
 * before-start.c - fixture: rms_norm writes one value before the start of its output. */
#define FIXTURE_RMS_ROW before_start
#include "tests/plugins/fixture.h"

static void before_start(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	(void)first;
	fixture_rms_row(i, a);
	if (i == 0)
		a->y[-1] = 0;
}

FIXTURE("before-start")
