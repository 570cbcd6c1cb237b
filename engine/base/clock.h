/* SPDX-License-Identifier: MIT
 * clock.h - the monotonic clock, in the unit its reader counts in: for durations and deadlines, not dates.
 * Threads: any. Locks: none. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* All of CLOCK_MONOTONIC, rounded down. */
long long clock_ns(void);
long long clock_ms(void);
double clock_s(void);
/* Seconds since clock_ns() was this. */
double clock_since(long long ns);

#endif
