/* SPDX-License-Identifier: MIT
 * writes-input.c - fixture: rms_norm leaves its input scaled, as if it were its to use. */
#define FIXTURE_RMS_ROW writes_input
#include "tests/plugins/fixture.h"

static void writes_input(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	(void)first;
	fixture_rms_row(i, a);
	if (a->x != a->y)
		((float *)(uintptr_t)a->x)[i * a->ldx] = 0;
}

FIXTURE("writes-input")
