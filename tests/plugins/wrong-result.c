/* SPDX-License-Identifier: MIT
 * wrong-result.c - fixture: rms_norm halves the last value of each row. */
#define FIXTURE_RMS_ROW wrong_result
#include "tests/plugins/fixture.h"

static void wrong_result(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	(void)first;
	fixture_rms_row(i, a);
	a->y[i * a->ldy + a->dim - 1] *= 0.5f;
}

FIXTURE("wrong-result")
