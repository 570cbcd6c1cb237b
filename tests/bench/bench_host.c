/* SPDX-License-Identifier: MIT
 * bench_host.c - the machine that figures are of: its CPU, caches and memory.
 * Threads: any. Locks: none. */
#include "tests/bench/bench_host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of "name : value" in a line, or NULL. */
static const char *bench_host_value(char *line, const char *name)
{
	char *colon = strchr(line, ':'), *end;
	size_t n = strlen(name);

	if (!colon || strncmp(line, name, n) || (line[n] != '\t' && line[n] != ' ' && line[n] != ':'))
		return NULL;
	end = colon + strcspn(colon, "\n");
	*end = '\0';
	return colon[1] == ' ' ? colon + 2 : colon + 1;
}

static void bench_host_cpuinfo(struct bench_host *h)
{
	static char line[sizeof h->flags - 16];
	char name[64] = "unknown CPU", family[8] = "", number[8] = "", stepping[8] = "";
	FILE *f = fopen("/proc/cpuinfo", "re");
	const char *v;

	while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
		if ((v = bench_host_value(line, "model name")) != NULL)
			snprintf(name, sizeof name, "%.63s", v);
		else if ((v = bench_host_value(line, "cpu family")) != NULL)
			snprintf(family, sizeof family, "%.7s", v);
		else if ((v = bench_host_value(line, "model")) != NULL)
			snprintf(number, sizeof number, "%.7s", v);
		else if ((v = bench_host_value(line, "stepping")) != NULL)
			snprintf(stepping, sizeof stepping, "%.7s", v);
		else if ((v = bench_host_value(line, "flags")) != NULL ||
			 (v = bench_host_value(line, "Features")) != NULL)
			snprintf(h->flags, sizeof h->flags, " %s ", v);
	}
	if (f)
		fclose(f);
	snprintf(h->model, sizeof h->model, "%s, family %s model %s stepping %s", name, family, number, stepping);
}

/* The first line of a small file; "" without it. */
static void bench_host_line(const char *path, char *out, int size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(out, size, f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
}

static size_t bench_host_cache(int level)
{
	char path[96], text[32];

	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
		bench_host_line(path, text, sizeof text);
		if (atoi(text) != level)
			continue;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
		bench_host_line(path, text, sizeof text);
		if (strcmp(text, "Instruction") == 0)
			continue;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		bench_host_line(path, text, sizeof text);
		return (size_t)atol(text) << (strchr(text, 'M') ? 20 : 10);
	}
	return 0;
}

void bench_host_read(struct bench_host *h)
{
	char text[64], *open, *close;
	cpu_set_t set;

	*h = (struct bench_host){ .cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set) };
	bench_host_cpuinfo(h);
	h->l2 = bench_host_cache(2);
	h->l3 = bench_host_cache(3);
	h->memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	bench_host_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
	open = strchr(text, '[');
	close = strchr(text, ']');
	if (open && close > open)
		snprintf(h->huge, sizeof h->huge, "%.*s", (int)(close - open - 1), open + 1);
}

bool bench_host_has(const struct bench_host *h, const char *features)
{
	while (*features) {
		size_t n = strcspn(features, " ");
		char word[64];

		snprintf(word, sizeof word, " %.*s ", (int)n, features);
		if (!strstr(h->flags, word))
			return false;
		features += features[n] ? n + 1 : n;
	}
	return true;
}
