/* SPDX-License-Identifier: MIT
 * bench_host.h - the machine that figures are of: its CPU, caches and memory.
 * Threads: any. Locks: none. */
#ifndef TESTS_BENCH_HOST_H
#define TESTS_BENCH_HOST_H

#include <stdbool.h>
#include <stddef.h>

struct bench_host {
	char model[128];      /* as the kernel names it, with family and model number */
	char flags[8192];     /* of /proc/cpuinfo, a space before and after each */
	int cpus;             /* that this process may use */
	size_t l2, l3;        /* bytes; 0: unknown */
	double memory;        /* bytes */
	char huge[32];        /* transparent huge pages: "always", "madvise", "never" */
};

void bench_host_read(struct bench_host *h);
/* Has it all of these features, one space between them? "" is yes. */
bool bench_host_has(const struct bench_host *h, const char *features);

#endif
