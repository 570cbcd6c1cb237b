/* SPDX-License-Identifier: MIT
 * tell_process.c - metrics of the program and its process, and what the daemon is doing.
 * Threads: control. Locks: the engine's, inside calls. */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/tell/tell.h"
#include "engine/base/must.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* ---- /proc/self/status ---- */

struct tell_memory {
	long long anon, swap, rss, threads; /* -1: not told */
};

/* Kibibytes where the line has them. */
static void tell_line(const char *line, const char *name, long long unit, long long *ret_v)
{
	size_t n = strlen(name);
	long long v;

	if (!strncmp(line, name, n) && line[n] == ':' && sscanf(line + n + 1, "%lld", &v) == 1)
		*ret_v = v * unit;
}

static void tell_read_memory(struct tell_memory *ret_m)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	*ret_m = (struct tell_memory){ -1, -1, -1, -1 };
	while (f && fgets(line, sizeof line, f)) {
		tell_line(line, "RssAnon", 1024, &ret_m->anon);
		tell_line(line, "VmSwap", 1024, &ret_m->swap);
		tell_line(line, "VmRSS", 1024, &ret_m->rss);
		tell_line(line, "Threads", 1, &ret_m->threads);
	}
	if (f)
		fclose(f);
}

/* Entries but for "." and "..", and the one that reading opens. */
static int tell_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void tell_known(struct metrics *m, enum metric id, long long v, const char *const *labels)
{
	if (v >= 0)
		metrics_put(m, id, (double)v, labels);
}

static void tell_memory(struct metrics *m)
{
	struct tell_memory t;

	tell_read_memory(&t);
	tell_known(m, METRIC_process_anonymous_bytes, t.anon, METRICS_LABELS("resident"));
	tell_known(m, METRIC_process_anonymous_bytes, t.swap, METRICS_LABELS("swapped"));
	tell_known(m, METRIC_process_resident_bytes, t.rss, NULL);
	tell_known(m, METRIC_process_threads, t.threads, NULL);
	tell_known(m, METRIC_process_open_fds, tell_count_fds(), NULL);
}

/* ---- the rest ---- */

static double tell_seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

static void tell_cpu(struct metrics *m)
{
	struct rusage u;

	must_zero(getrusage(RUSAGE_SELF, &u));
	metrics_put(m, METRIC_process_cpu_seconds_total, tell_seconds(&u.ru_utime), METRICS_LABELS("user"));
	metrics_put(m, METRIC_process_cpu_seconds_total, tell_seconds(&u.ru_stime), METRICS_LABELS("system"));
}

static void tell_state(struct daemon *d, struct metrics *m)
{
	const char *name[DAEMON_FAILED + 1];

	for (int s = 0; s <= DAEMON_FAILED; s++)
		name[s] = daemon_state_name((enum daemon_state)s);
	metrics_put_state(m, METRIC_state, name, DAEMON_FAILED + 1, (int)daemon_state(d), NULL);
}

void tell_process(struct daemon *d, struct metrics *m)
{
	tell_state(d, m);
	metrics_put(m, METRIC_build_info, 1, METRICS_LABELS(PACKAGE_VERSION));
	metrics_put(m, METRIC_model_max_context_tokens, engine_max_context(d->engine), NULL);
	metrics_put(m, METRIC_process_start_time_seconds, d->began, NULL);
	tell_memory(m);
	tell_cpu(m);
}
