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

void kcheck_print_head(const struct kcheck_print *out, uint64_t seed);
check_report_f kcheck_print_row;
void kcheck_print_end(const struct kcheck_print *out);
void kcheck_print_bench_head(const struct kcheck_print *out);
check_speed_f kcheck_print_speed;

#endif
