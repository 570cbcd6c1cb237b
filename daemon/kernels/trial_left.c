/* SPDX-License-Identifier: MIT
 * trial_left.c - what a plugin has left in its process: threads, and libraries that came with it.
 * Threads: the trial child's. Locks: none. */
#include "daemon/kernels/trial_left.h"
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/engine.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread that was joined is still listed for a moment, and tells nobody when it is gone. */
#define LEFT_GRACE_MS 2000

/* -1 when it cannot be told. */
static int trial_left_count(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static bool trial_left_has_line(const struct buf *lines, const char *line)
{
	size_t n = strlen(line); /* with its newline */

	for (const char *p = buf_str(lines); *p; p = strchr(p, '\n') + 1)
		if (!strncmp(p, line, n))
			return true;
	return false;
}

/* The shared objects among what is mapped, each once. */
static void trial_left_list(struct buf *out)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char *line = NULL, *path;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		path = strchr(line, '/');
		if (path && strstr(path, ".so") && strchr(path, '\n') && !trial_left_has_line(out, path))
			buf_adds(out, path);
	}
	free(line);
	if (f)
		fclose(f);
}

static void *trial_left_tid(void *arg)
{
	*(pid_t *)arg = gettid();
	return NULL;
}

/* A sanitizer starts a thread of its own beside the first one of the program: so let there be one. */
static void trial_left_first_thread(void)
{
	long long until = clock_ms() + LEFT_GRACE_MS;
	char path[64];
	pthread_t t;
	pid_t tid;

	if (pthread_create(&t, NULL, trial_left_tid, &tid))
		return;
	must_zero(pthread_join(t, NULL));
	snprintf(path, sizeof path, "/proc/self/task/%d", (int)tid);
	while (access(path, F_OK) == 0 && clock_ms() < until)
		poll(NULL, 0, 1);
}

void trial_left_init(struct trial_left *l)
{
	trial_left_first_thread();
	*l = (struct trial_left){ .n_thread = trial_left_count() };
	trial_left_list(&l->libraries);
}

void trial_left_fini(struct trial_left *l)
{
	buf_fini(&l->libraries);
}

int trial_left_threads(const struct trial_left *l, struct buf *why)
{
	long long until = clock_ms() + LEFT_GRACE_MS;
	int more;

	while ((more = trial_left_count() - l->n_thread) > 0 && clock_ms() < until)
		poll(NULL, 0, 1);
	return more <= 0 ? 0 : plugin_refuse(why, PLUGIN_REFUSED_leaks, "close() left %d %s running", more,
					     more == 1 ? "thread" : "threads");
}

int trial_left_libraries(const struct trial_left *l, struct buf *why)
{
	struct buf now = { 0 };
	int rc = 0;

	trial_left_list(&now);
	for (char *p = now.data, *end; p && *p && !rc; p = end) {
		char after;

		end = strchr(p, '\n') + 1;
		after = *end;
		*end = '\0';
		if (!trial_left_has_line(&l->libraries, p))
			rc = plugin_refuse(why, PLUGIN_REFUSED_stays_mapped, "%.*s came with it and stays",
					   (int)strcspn(p, "\n"), p);
		*end = after;
	}
	buf_fini(&now);
	return rc;
}
