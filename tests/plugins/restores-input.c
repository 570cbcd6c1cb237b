/* SPDX-License-Identifier: MIT
 * restores-input.c - fixture: rms_norm marks its input and puts back what was there. Nobody sees it after the call, but
 * a kernel that does it to a weight writes to the checkpoint's mapping. */
#define FIXTURE_RMS_ROW restores_input
#include "tests/plugins/fixture.h"

static void restores_input(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	volatile float *x = (float *)(uintptr_t)a->x + i * a->ldx;
	float old = *x;

	(void)first;
	if (a->x != a->y) {
		*x = old + 1;
		*x = old;
	}
	fixture_rms_row(i, a);
}

FIXTURE("restores-input")
