/* SPDX-License-Identifier: MIT
 * kcheck_print.h - kcheck's tables, for people and for programs.
 * Threads: one. Locks: none. */
#ifndef CHECK_KCHECK_PRINT_H
#define CHECK_KCHECK_PRINT_H

#include "plugins/check/check.h"

#include <stdio.h>

struct kcheck_print {
	FILE *f;
	const struct dsv4_plugin *plugin;
	bool json;
	struct check_roof roof; /* for speeds */
	int n_row, n_failed;
};

/* Around the rows of one plugin; heads and the end, how many passed, are for people alone. */
void kcheck_print_head(const struct kcheck_print *out, uint64_t seed);
/* arg: the struct, in which it counts. */
check_report_f kcheck_print_row;
void kcheck_print_end(const struct kcheck_print *out);
/* roof is measured. */
void kcheck_print_bench_head(const struct kcheck_print *out);
check_speed_f kcheck_print_speed;

#endif
