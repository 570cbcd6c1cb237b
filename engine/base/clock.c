/* SPDX-License-Identifier: MIT
 * clock.c - the monotonic clock, in the unit its reader counts in: for durations and deadlines, not dates.
 * Threads: any. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/must.h"

#include <time.h>

long long clock_ns(void)
{
	struct timespec t;

	must_zero(clock_gettime(CLOCK_MONOTONIC, &t));
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

long long clock_ms(void)
{
	return clock_ns() / 1000000;
}

double clock_s(void)
{
	return (double)clock_ns() * 1e-9;
}

double clock_since(long long ns)
{
	return (double)(clock_ns() - ns) * 1e-9;
}
