/* SPDX-License-Identifier: MIT
 * cpus.h - the CPUs this process may use, in the order in which threads should take them.
 * Threads: any. Locks: none. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include "engine/base/buf.h"

#include <pthread.h>

/* How many, by the calling thread's affinity, which is what cpusets and taskset leave of the machine; at least 1. */
int cpus_count(void);
/* Gives each of n threads a CPU, one of each core before any second one and those of a NUMA node side by side, and lets
 * it run there alone (CPUS_ONE) or on any CPU of that node which the calling thread may use (CPUS_NODE; nothing changes
 * where there is one node). -EAGAIN: more threads than CPUs, -errno: the kernel will not have
 * it; some may be placed. */
enum cpus_place { CPUS_NODE, CPUS_ONE };
int cpus_place(const pthread_t *thread, int n, enum cpus_place place);

/* The first "flags" line of /proc/cpuinfo ("Features" on ARM), or NULL; the caller frees. */
char *cpus_flags(void);
/* Of such a line, what a kernel may choose its instructions by: names separated by blanks, in the order of a list of
 * ours, so that a system that lists more of the same CPU's features changes nothing. flags may be NULL. */
void cpus_features(const char *flags, struct buf *ret_names);

#endif
