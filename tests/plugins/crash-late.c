/* SPDX-License-Identifier: MIT
 * crash-late.c - fixture: rms_norm passes every check, and dies of prompts of a size that no check has. */
#define FIXTURE_RMS_ROW crash_late
#include "tests/plugins/fixture.h"

/* Rows are tokens, or heads of tokens, of which the tiny model has four. */
#define CRASH_LEAST 640
#define CRASH_MOST 960

static void crash_late(int64_t i, const struct dsv4_rms_norm *a, int64_t first)
{
	static volatile char *volatile nowhere = (volatile char *)0x40; /* sanitizers have a word of their own for
									 * NULL */

	(void)first;
	if (a->n_row >= CRASH_LEAST && a->n_row <= CRASH_MOST)
		*nowhere = 1;
	fixture_rms_row(i, a);
}

FIXTURE("crash-late")
