/* SPDX-License-Identifier: MIT
 * cpus.c - the CPUs this process may use, in the order in which threads should take them.
 * Threads: any. Locks: none. */
#include "engine/base/cpus.h"
#include "engine/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS_MAX 8192 /* NR_CPUS of every distribution */

struct cpus_one {
	int cpu, node;
	int twin; /* how many threads of its core come before it */
};

/* Of the calling thread; NULL when it cannot be told. */
static cpu_set_t *cpus_mine(void)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

	if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), set) == 0)
		return set;
	CPU_FREE(set);
	return NULL;
}

int cpus_count(void)
{
	cpu_set_t *set = cpus_mine();
	long n = set ? CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS_MAX), set) : sysconf(_SC_NPROCESSORS_ONLN);

	CPU_FREE(set);
	return n < 1 ? 1 : (int)n;
}

/* ---- where a CPU is: /sys/devices/system/cpu/cpuN ---- */

/* Its directory has a link nodeM. 0 without NUMA. */
static int cpus_node(int cpu)
{
	char path[64];
	struct dirent *e;
	int node = 0;
	DIR *d;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
	d = opendir(path);
	while (d && (e = readdir(d)) != NULL)
		if (sscanf(e->d_name, "node%d", &node) == 1)
			break;
	if (d)
		closedir(d);
	return node;
}

/* Its place in a list like 0,64 or 0-1; 0 when it cannot be told. */
static int cpus_twin(int cpu)
{
	char path[80];
	int n = 0, from, to;
	char sep;
	FILE *f;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &from) == 1 && from < cpu) {
		sep = (char)fgetc(f);
		to = from;
		if (sep == '-' && fscanf(f, "%d", &to) == 1)
			sep = (char)fgetc(f);
		n += (to < cpu ? to + 1 : cpu) - from;
		if (sep != ',')
			break;
	}
	if (f)
		fclose(f);
	return n;
}

static int cpus_order(const void *a, const void *b)
{
	const struct cpus_one *x = a, *y = b;

	if (x->twin != y->twin)
		return x->twin - y->twin;
	return x->node != y->node ? x->node - y->node : x->cpu - y->cpu;
}

/* [*ret_n] in the order in which threads take them. */
static struct cpus_one *cpus_list(int *ret_n)
{
	cpu_set_t *set = cpus_mine();
	struct cpus_one *one = NULL;
	int n = 0;

	for (int i = 0; set && i < CPUS_MAX; i++) {
		if (!CPU_ISSET_S(i, CPU_ALLOC_SIZE(CPUS_MAX), set))
			continue;
		one = mem_grow(one, (size_t)n + 1, sizeof *one);
		one[n++] = (struct cpus_one){ i, cpus_node(i), cpus_twin(i) };
	}
	CPU_FREE(set);
	if (n > 0)
		qsort(one, (size_t)n, sizeof *one, cpus_order);
	*ret_n = n;
	return one;
}

/* Those that a thread which was given `own` may run on. Returns how many they are. */
static int cpus_allow(cpu_set_t *set, const struct cpus_one *one, int n, const struct cpus_one *own,
		      enum cpus_place place)
{
	int allowed = 0;

	CPU_ZERO_S(CPU_ALLOC_SIZE(CPUS_MAX), set);
	for (int i = 0; i < n; i++)
		if (place == CPUS_NODE ? one[i].node == own->node : one[i].cpu == own->cpu) {
			CPU_SET_S(one[i].cpu, CPU_ALLOC_SIZE(CPUS_MAX), set);
			allowed++;
		}
	return allowed;
}

int cpus_place(const pthread_t *thread, int n, enum cpus_place place)
{
	int have, rc;
	struct cpus_one *one = cpus_list(&have);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

	rc = !set ? -ENOMEM : have < n ? -EAGAIN : 0;
	for (int i = 0; i < n && rc == 0; i++)
		if (cpus_allow(set, one, have, &one[i], place) < have)
			rc = -pthread_setaffinity_np(thread[i], CPU_ALLOC_SIZE(CPUS_MAX), set);
	CPU_FREE(set);
	free(one);
	return rc;
}

/* ---- what CPUs can do ---- */

char *cpus_flags(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0)
			continue;
		fclose(f);
		return line;
	}
	if (f)
		fclose(f);
	free(line);
	return NULL;
}

static const char *const cpus_known[] = {
	"f16c", "fma", "avx2", "avx_vnni", "avx_vnni_int8", "avx_ne_convert", "avx512f", "avx512dq", "avx512bw",
	"avx512vl",
	"avx512_vnni", "avx512vbmi", "avx512_vbmi2", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
	"amx_fp16", "gfni", "asimddp", "i8mm", "bf16", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2",
};

void cpus_features(const char *flags, struct buf *ret_names)
{
	buf_clear(ret_names);
	for (size_t i = 0; flags && i < mem_countof(cpus_known); i++) {
		size_t n = strlen(cpus_known[i]);

		for (const char *p = flags; (p = strstr(p, cpus_known[i])) != NULL; p++)
			if (p > flags && strchr(" \t:", p[-1]) && strchr(" \t\n", p[n])) {
				buf_printf(ret_names, "%s%s", ret_names->len ? " " : "", cpus_known[i]);
				break;
			}
	}
}
