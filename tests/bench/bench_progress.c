/* SPDX-License-Identifier: MIT
 * bench_progress.c - a progress bar on stderr, where that is a terminal; nothing anywhere else.
 * Threads: one. Locks: none. */
#include "tests/bench/bench_progress.h"
#include "engine/base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define BENCH_PROGRESS_BAR 30
#define BENCH_PROGRESS_PERIOD 0.1

void bench_progress_init(struct bench_progress *p)
{
	*p = (struct bench_progress){ .on = isatty(STDERR_FILENO) == 1, .begin = clock_s() };
}

void bench_progress_show(struct bench_progress *p, const char *what, double done, double total)
{
	double now = clock_s(), share = total > 0 && done < total ? done / total : 1;
	char bar[BENCH_PROGRESS_BAR + 1], left[32] = "";
	int n = (int)(share * BENCH_PROGRESS_BAR), columns;

	if (!p->on || (now - p->shown < BENCH_PROGRESS_PERIOD && share < 1))
		return;
	p->shown = now;
	for (int i = 0; i < BENCH_PROGRESS_BAR; i++)
		bar[i] = i < n ? '#' : '.';
	bar[BENCH_PROGRESS_BAR] = '\0';
	if (share > 0.02 && share < 1)
		snprintf(left, sizeof left, ", %.0f s left", (now - p->begin) * (1 - share) / share);
	columns = fprintf(stderr, "\r[%s] %3.0f %% %s%s", bar, 100 * share, what, left);
	if (columns < p->columns)
		fprintf(stderr, "%*s", p->columns - columns, "");
	p->columns = columns;
	fflush(stderr);
}

void bench_progress_clear(struct bench_progress *p)
{
	if (p->columns)
		fprintf(stderr, "\r%*s\r", p->columns, "");
	p->columns = 0;
	fflush(stderr);
}
