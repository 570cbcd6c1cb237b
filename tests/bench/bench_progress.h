/* SPDX-License-Identifier: MIT
 * bench_progress.h - a progress bar on stderr, where that is a terminal; nothing anywhere else.
 * Threads: one. Locks: none. */
#ifndef TESTS_BENCH_PROGRESS_H
#define TESTS_BENCH_PROGRESS_H

#include <stdbool.h>

struct bench_progress {
	bool on;
	double begin, shown; /* clock_s() */
	int columns;         /* written so far in the line */
};

void bench_progress_init(struct bench_progress *p);
/* What is being done, and how far: done of total, in any unit. Draws at most ten times a second, and at the end. */
void bench_progress_show(struct bench_progress *p, const char *what, double done, double total);
/* Wipes the line, so that output can follow. */
void bench_progress_clear(struct bench_progress *p);

#endif
