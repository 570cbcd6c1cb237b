/* SPDX-License-Identifier: MIT
 * trial_child.c - a plugin is tried in a child process: the child's side, which does to it what the daemon would.
 * Threads: one, and those of the check. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/check_gpu.h"
#include "daemon/kernels/trial.h"
#include "daemon/kernels/trial_left.h"
#include "daemon/kernels/trial_shape.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A leak is there in every round; what libc keeps once, or a thread's memory that is not back yet, is not. */
#define TRIAL_MAX_ROUNDS 4

struct trial_child {
	struct plugin_file *file;
	struct plugin_map *map;
	const char *device_name;
	struct device *device;
	uint64_t seed;
	struct check_shape *shape; /* [n_shape] */
	int n_shape;
	bool fence;                /* of the check */
	struct trial_left before;  /* what was there without it */
	struct buf why;            /* the check's first complaint */
};

/* The last line that the plugin logged, for the words of a refusal. */
static char trial_child_logged[200];
/* The op and the case that are being checked, for the words of a crash. */
static const char *trial_child_op = "";
static char trial_child_doing[CHECK_DOING];

/* ---- telling the parent ---- */

static void trial_child_send(json_t *m)
{
	char *text = json_dumps(m, JSON_COMPACT);
	struct buf line = { 0 };

	buf_printf(&line, "%s\n", text ? text : "{}");
	/* A parent that is gone takes us along by SIGPIPE. */
	for (size_t done = 0; done < line.len;) {
		ssize_t n = write(TRIAL_FD, line.data + done, line.len - done);

		if (n < 0 && errno != EINTR)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	buf_fini(&line);
	free(text);
	json_decref(m);
}

static void trial_child_stage(const char *stage, const char *what)
{
	struct buf text = { 0 };

	buf_printf(&text, "%s%s%s", stage, *what ? " " : "", what);
	trial_child_send(json_pack("{s:s}", "stage", buf_str(&text)));
	buf_fini(&text);
}

static void trial_child_result(int rc, const struct buf *why)
{
	struct buf text = { 0 };

	utf8_repair(buf_str(why), why->len, &text);
	trial_child_send(json_pack("{s:i,s:s}", "rc", rc, "why", buf_str(&text)));
	buf_fini(&text);
}

static void trial_child_log(const struct provider *p, int level, const char *text)
{
	(void)p;
	(void)level;
	snprintf(trial_child_logged, sizeof trial_child_logged, "%.*s", (int)strcspn(text, "\n"), text);
}

/* ---- crashes in a case ---- */

static const int trial_child_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction trial_child_before[mem_countof(trial_child_signals)]; /* a sanitizer's, or the default */

static size_t trial_child_append(char *to, size_t n, const char *s)
{
	for (; *s; s++)
		if (*s >= ' ' && *s != '"' && *s != '\\')
			to[n++] = *s;
	return n;
}

/* Names the case as the stage, then lets the signal happen as if nobody had asked. Only write() and memory. */
static void trial_child_crashed(int sig, siginfo_t *info, void *context)
{
	char line[CHECK_DOING + 64] = "{\"stage\":\"check ";
	size_t n = trial_child_append(line, strlen(line), trial_child_op);

	(void)context;
	line[n++] = ',';
	line[n++] = ' ';
	n = trial_child_append(line, n, trial_child_doing);
	memcpy(line + n, "\"}\n", 3);
	n = *trial_child_doing ? (size_t)write(TRIAL_FD, line, n + 3) : 0;
	for (size_t i = 0; i < mem_countof(trial_child_signals); i++)
		sigaction(trial_child_signals[i], &trial_child_before[i], NULL);
	/* A faulting instruction faults again. */
	if (info->si_code <= 0)
		raise(sig);
}

static void trial_child_catch(void)
{
	struct sigaction a = { .sa_sigaction = trial_child_crashed, .sa_flags = SA_SIGINFO };

	for (size_t i = 0; i < mem_countof(trial_child_signals); i++)
		sigaction(trial_child_signals[i], &a, &trial_child_before[i]);
}

/* ---- the check ---- */

static enum plugin_refusal trial_child_refusal(enum check_verdict v)
{
	return v == CHECK_OUT_OF_BOUNDS ? PLUGIN_REFUSED_out_of_bounds :
	       v == CHECK_NOT_IDENTICAL ? PLUGIN_REFUSED_not_identical : PLUGIN_REFUSED_wrong_result;
}

static void trial_child_row(void *arg, const struct check_row *row)
{
	struct trial_child *c = arg;

	if (row->verdict == CHECK_PASS || c->why.len)
		return;
	plugin_refuse(&c->why, trial_child_refusal(row->verdict), "%s %s %s: %s", op_name(row->op),
		      op_phase_name(row->phase), op_wfmt_name(row->wfmt), row->detail);
}

static int trial_child_check_op(struct trial_child *c, int op, const struct check_device *gpu, struct buf *why)
{
	struct check_options o = { .shape = c->shape, .n_shape = c->n_shape, .seed = c->seed, .quick = true,
				   .first = c->fence && gpu, .op = op, .fence = c->fence, .device = gpu,
				   .doing = trial_child_doing, .report = trial_child_row, .arg = c };
	int rc;

	trial_child_op = op_name((enum dsv4_op)op);
	trial_child_stage("check", trial_child_op);
	rc = check_plugin(c->map->provider.plugin, &c->map->provider.host, &o);
	*trial_child_doing = '\0';
	if (rc > 0 || (rc == -EIO && c->why.len)) /* the GPU failed in what the row tells of */
		return buf_why(why, RC_PLUGIN, "%s", buf_str(&c->why));
	return rc ? buf_why(why, rc, "check of %s: %s", op_name((enum dsv4_op)op), rc_text(rc)) : 0;
}

static int trial_child_check(struct trial_child *c, struct buf *why)
{
	bool offered[DSV4_N_OP] = { false };
	const struct check_device *device;
	struct check_gpu gpu;
	int rc = check_gpu_open(&gpu, c->device, c->map->provider.plugin, &device, why);

	for (int i = 0; i < c->file->facts.n_op; i++)
		offered[c->file->facts.op[i].op] = true;
	for (int op = 0; op < DSV4_N_OP && !rc; op++)
		if (offered[op])
			rc = trial_child_check_op(c, op, device, why);
	check_gpu_close(&gpu);
	return rc;
}

/* ---- the rounds ---- */

static int trial_child_round(struct trial_child *c, struct buf *why)
{
	int rc;

	trial_child_stage("open", "");
	rc = plugin_map_open(c->map, why);
	if (!rc) {
		trial_child_stage("warm", "");
		rc = plugin_map_warm(c->map, why);
	}
	if (rc && *trial_child_logged)
		buf_printf(why, "; it says: %s", trial_child_logged);
	rc = rc ? rc : trial_child_check(c, why);
	if (rc)
		return rc;
	trial_child_stage("close", "");
	rc = plugin_map_close(c->map, why);
	return rc ? rc : trial_left_threads(&c->before, why);
}

/* Zero where a sanitizer has its own malloc, and its own way to find leaks. */
static size_t trial_child_heap(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static int trial_child_rounds(struct trial_child *c, struct buf *why)
{
	size_t heap = 0, before;
	int rc = 0;

	for (int i = 0; i < TRIAL_MAX_ROUNDS && !rc; i++) {
		before = heap;
		/* First a write past the end is to be found and named; then nothing lies there, for reads. A GPU has no
		 * fences: there the second round is for what is left behind. */
		c->fence = i > 0;
		rc = trial_child_round(c, why);
		heap = trial_child_heap();
		if (i > 0 && heap <= before)
			return rc;
	}
	return rc ? rc : plugin_refuse(why, PLUGIN_REFUSED_leaks,
				       "%zu bytes more in the heap after each open and close", heap - before);
}

/* What the parent gives is below a directory that only we may write: its rules hold for it. */
static int trial_child_map(struct trial_child *c, const char *copy, struct buf *why)
{
	char *dir = mem_strdup(copy), *slash = strrchr(dir, '/');
	int rc;

	trial_child_stage("map", "");
	if (slash)
		*slash = '\0';
	rc = plugin_file_open(slash ? dir : ".", slash ? slash + 1 : copy, geteuid(), &c->file, why);
	free(dir);
	rc = rc ? rc : plugin_map_new(mem_strdup(copy), c->file, trial_child_log, &c->map, why);
	if (rc == 0)
		plugin_map_on(c->map, c->device);
	return rc;
}

/* The first complaint counts; a library that stays is told when there is no other. */
static int trial_child_unmap(struct trial_child *c, int rc, struct buf *why)
{
	if (!c->map)
		return rc;
	trial_child_stage("unmap", "");
	if (rc) {
		plugin_map_free(&c->map, NULL);
		return rc;
	}
	rc = plugin_map_free(&c->map, why);
	return rc ? rc : trial_left_libraries(&c->before, why);
}

/* ---- the process ---- */

/* Only the parent's pipe is open, nothing is dumped, we end when the parent does, and are the first to go when memory
 * is short. */
static void trial_child_isolate(void)
{
	struct rlimit none = { 0, 0 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd >= 0) {
		/* Refused in some containers; it is only a preference. */
		if (write(fd, "1000", 4) < 0)
			errno = 0;
		close(fd);
	}
	/* One arena: threads that the check starts shall not each have their own when the heap is measured. */
	mallopt(M_ARENA_MAX, 1);
}

static int trial_child_device(struct trial_child *c, struct buf *why)
{
	trial_child_stage("device", c->device_name);
	return device_open(c->device_name, &c->device, why);
}

static bool trial_child_args(struct trial_child *c, int argc, char **argv)
{
	struct stat st;

	if (argc < 4 || fstat(TRIAL_FD, &st) || !S_ISFIFO(st.st_mode))
		return false;
	c->seed = strtoull(argv[1], NULL, 10);
	c->device_name = argv[2];
	c->n_shape = argc - 3;
	c->shape = mem_grow(NULL, (size_t)c->n_shape, sizeof *c->shape);
	for (int i = 0; i < c->n_shape; i++)
		if (!trial_shape_get(argv[3 + i], &c->shape[i]))
			return false;
	return true;
}

int trial_child(int argc, char **argv)
{
	struct trial_child c = { 0 };
	struct buf why = { 0 };
	int rc;

	if (!trial_child_args(&c, argc, argv)) {
		fprintf(stderr, "dsv4d: " TRIAL_FLAG " is for dsv4d itself; kcheck checks a plugin\n");
		free(c.shape);
		return DAEMON_USAGE;
	}
	trial_child_isolate();
	trial_child_catch();
	rc = trial_child_device(&c, &why); /* what the driver starts and maps is no doing of the plugin's */
	trial_left_init(&c.before);
	rc = rc ? rc : trial_child_map(&c, argv[0], &why);
	rc = rc ? rc : trial_child_rounds(&c, &why);
	rc = trial_child_unmap(&c, rc, &why);
	trial_child_result(rc, &why);
	plugin_file_free(&c.file);
	device_close(&c.device);
	trial_left_fini(&c.before);
	free(c.shape);
	buf_fini(&c.why);
	buf_fini(&why);
	return DAEMON_OK;
}
