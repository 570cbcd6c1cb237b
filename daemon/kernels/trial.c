/* SPDX-License-Identifier: MIT
 * trial.c - a plugin is tried in a child process: the parent's side, which waits, kills, and says what happened.
 * Threads: ops. Locks: none. */
#include "daemon/kernels/trial.h"
#include "daemon/kernels/trial_shape.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIAL_STAGE_MS 60000
#define TRIAL_GLANCE_MS 200        /* between looks at the cancel flag */
#define TRIAL_MAX_SHAPES 4
#define TRIAL_MAX_OUTPUT 65536     /* kept of what the child says */

struct trial {
	const struct trial_options *o;
	pid_t pid;
	int pidfd;
	int pipe, err;             /* its messages, and its stderr; -1 at their end */
	struct buf line, said;     /* a message so far; the beginning of its stderr */
	char stage[320];
	long long stage_by;        /* when the stage must have ended, ms */
	bool ended;                /* its last message has come: */
	int rc;
	struct buf why;
	int status;                /* as from waitpid */
};

/* ---- starting ---- */

/* What a sanitizer or a foreign library path needs. Nothing of systemd's, whose watchdog and sockets are not the
 * child's; no secrets. */
static const char *const trial_env_kept[] = { "ASAN_OPTIONS=", "LSAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=",
					      "LD_LIBRARY_PATH=", "PATH=", "LLVM_PROFILE_FILE=",
					      "CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=",
					      "CUSIM_DEVICES=", "CUSIM_SM=", "CUSIM_MEMORY=" };
/* Freed memory that a thread keeps for itself would look like a leak. */
#define TRIAL_TUNABLES "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"

static void trial_env(char *env[mem_countof(trial_env_kept) + 2])
{
	int n = 0;

	for (char **e = environ; *e; e++)
		for (size_t i = 0; i < mem_countof(trial_env_kept); i++)
			if (!strncmp(*e, trial_env_kept[i], strlen(trial_env_kept[i])) &&
			    n < (int)mem_countof(trial_env_kept))
				env[n++] = *e;
	env[n++] = (char *)(uintptr_t)TRIAL_TUNABLES;
	env[n] = NULL;
}

/* Its own process group, so that what it starts dies with it; none of our signal handling. */
static void trial_attr(posix_spawnattr_t *a)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(a);
	posix_spawnattr_setpgroup(a, 0);
	posix_spawnattr_setsigmask(a, &none);
	posix_spawnattr_setsigdefault(a, &all);
	posix_spawnattr_setflags(a, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* The stderr end goes to its place first: the pipe's end may be where it belongs already, and must not be
 * overwritten. */
static void trial_actions(posix_spawn_file_actions_t *fa, int pipe, int err)
{
	posix_spawn_file_actions_init(fa);
	posix_spawn_file_actions_adddup2(fa, err, STDERR_FILENO);
	posix_spawn_file_actions_adddup2(fa, pipe, TRIAL_FD);
	posix_spawn_file_actions_addopen(fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(fa, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addclosefrom_np(fa, TRIAL_FD + 1);
}

static int trial_spawn(struct trial *t, char **argv, int pipe, int err)
{
	char *env[mem_countof(trial_env_kept) + 2];
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int e;

	trial_env(env);
	trial_attr(&attr);
	trial_actions(&fa, pipe, err);
	e = posix_spawn(&t->pid, "/proc/self/exe", &fa, &attr, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return -e;
}

static int trial_argv(struct trial *t, const char *copy, int pipe, int err)
{
	const struct trial_options *o = t->o;
	const struct check_shape *shape = o->shape ? o->shape : &check_shape_tiny;
	int n_shape = o->shape ? o->n_shape : 1, rc;
	char *argv[TRIAL_MAX_SHAPES + 6], seed[24];
	struct buf text[TRIAL_MAX_SHAPES] = { 0 };
	int n = 0;

	snprintf(seed, sizeof seed, "%llu", (unsigned long long)(o->seed ? o->seed : 1));
	argv[n++] = (char *)(uintptr_t)"dsv4d";
	argv[n++] = (char *)(uintptr_t)TRIAL_FLAG;
	argv[n++] = (char *)(uintptr_t)copy;
	argv[n++] = seed;
	argv[n++] = (char *)(uintptr_t)(o->device ? o->device : "cpu");
	for (int i = 0; i < n_shape && i < TRIAL_MAX_SHAPES; i++) {
		trial_shape_put(&text[i], &shape[i]);
		argv[n++] = text[i].data;
	}
	argv[n] = NULL;
	rc = trial_spawn(t, argv, pipe, err);
	for (int i = 0; i < TRIAL_MAX_SHAPES; i++)
		buf_fini(&text[i]);
	return rc;
}

static int trial_start(struct trial *t, const char *copy)
{
	int p[2], e[2], rc;

	if (pipe2(p, O_CLOEXEC))
		return -errno;
	if (pipe2(e, O_CLOEXEC)) {
		rc = -errno;
		close(p[0]);
		close(p[1]);
		return rc;
	}
	rc = trial_argv(t, copy, p[1], e[1]);
	close(p[1]);
	close(e[1]);
	t->pipe = p[0];
	t->err = e[0];
	/* A grandchild may keep the other ends open. */
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	fcntl(e[0], F_SETFL, O_NONBLOCK);
	return rc;
}

/* ---- listening ---- */

static long long trial_stage_ms(const struct trial *t)
{
	return t->o->stage_ms > 0 ? t->o->stage_ms : TRIAL_STAGE_MS;
}

static void trial_enter(struct trial *t, const char *stage)
{
	snprintf(t->stage, sizeof t->stage, "%s", stage);
	t->stage_by = clock_ms() + trial_stage_ms(t);
}

/* {"stage": TEXT} before a stage, {"rc": N, "why": TEXT} at the end. What is neither came from the plugin and says
 * nothing. */
static void trial_message(struct trial *t, const char *line, size_t n)
{
	json_t *m = json_loadb(line, n, 0, NULL), *rc = json_object_get(m, "rc");
	const char *stage = json_string_value(json_object_get(m, "stage"));
	const char *why = json_string_value(json_object_get(m, "why"));

	if (stage)
		trial_enter(t, stage);
	if (json_is_integer(rc) && why) {
		t->ended = true;
		t->rc = (int)json_integer_value(rc);
		buf_clear(&t->why);
		buf_adds(&t->why, why);
	}
	json_decref(m);
}

static void trial_lines(struct trial *t)
{
	char *end;

	while (t->line.len && (end = memchr(t->line.data, '\n', t->line.len)) != NULL) {
		trial_message(t, t->line.data, (size_t)(end - t->line.data));
		buf_drop(&t->line, (size_t)(end - t->line.data) + 1);
	}
}

/* Reads what there is, but not for ever; -1 in *fd at the end. What would make b larger than it may be is dropped. */
static void trial_read(int *fd, struct buf *b)
{
	char chunk[4096];
	ssize_t n;

	for (int i = 0; *fd >= 0 && i < TRIAL_MAX_OUTPUT / (int)sizeof chunk; i++) {
		n = read(*fd, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(*fd);
			*fd = -1;
		} else if (b->len + (size_t)n <= TRIAL_MAX_OUTPUT) {
			buf_add(b, chunk, (size_t)n);
		}
	}
}

static void trial_listen(struct trial *t)
{
	trial_read(&t->pipe, &t->line);
	trial_lines(t);
	trial_read(&t->err, &t->said);
}

/* Until it has exited. */
static int trial_watch(struct trial *t, struct buf *why)
{
	for (;;) {
		struct pollfd p[] = { { t->pidfd, POLLIN, 0 }, { t->pipe, POLLIN, 0 }, { t->err, POLLIN, 0 } };
		long long left = t->stage_by - clock_ms();

		if (t->o->cancel && atomic_load(t->o->cancel))
			return buf_why(why, RC_CANCELLED, "cancelled in %s", t->stage);
		if (left <= 0)
			return plugin_refuse(why, PLUGIN_REFUSED_timeout, "%s after %g s", t->stage,
					     (double)trial_stage_ms(t) / 1000);
		if (poll(p, mem_countof(p), (int)(left < TRIAL_GLANCE_MS ? left : TRIAL_GLANCE_MS)) < 0 &&
		    errno != EINTR)
			return buf_why(why, -errno, "poll: %s", strerror(errno));
		trial_listen(t);
		if (p[0].revents)
			return 0;
	}
}

/* Its group goes with it: the process is not reaped yet, so the number is still its own. */
static void trial_reap(struct trial *t)
{
	kill(-t->pid, SIGKILL);
	while (waitpid(t->pid, &t->status, 0) < 0 && errno == EINTR)
		;
	trial_listen(t);
}

/* ---- judging ---- */

/* The line of its stderr that says most: a sanitizer's headline, or the first. */
static void trial_headline(const struct trial *t, struct buf *out)
{
	static const char *const marks[] = { "ERROR: ", "WARNING: ThreadSanitizer", "runtime error: " };
	const char *said = buf_str(&t->said), *at = NULL;

	for (size_t i = 0; i < mem_countof(marks) && !at; i++)
		at = strstr(said, marks[i]);
	while (at && at > said && at[-1] != '\n')
		at--;
	at = at ? at : said;
	if (*at)
		buf_adds(out, ": ");
	utf8_repair(at, strcspn(at, "\n"), out);
}

static int trial_crashed(const struct trial *t, struct buf *why)
{
	struct buf how = { 0 }, line = { 0 };
	int rc;

	if (WIFSIGNALED(t->status)) {
		const char *name = sigabbrev_np(WTERMSIG(t->status));

		if (name)
			buf_printf(&how, "SIG%s", name);
		else
			buf_printf(&how, "signal %d", WTERMSIG(t->status));
	} else {
		buf_printf(&how, "exit status %d", WEXITSTATUS(t->status));
	}
	trial_headline(t, &line);
	rc = plugin_refuse(why, PLUGIN_REFUSED_crashed, "%s in %s%s", buf_str(&how), t->stage, buf_str(&line));
	buf_fini(&how);
	buf_fini(&line);
	return rc;
}

static int trial_verdict(const struct trial *t, struct buf *why)
{
	bool clean = WIFEXITED(t->status) && WEXITSTATUS(t->status) == 0;
	struct buf line = { 0 };

	if (t->ended && t->rc)
		return buf_why(why, t->rc, "%s", buf_str(&t->why));
	if (t->ended && clean)
		return 0;
	/* The leak sanitizer looks when all is done. */
	if (t->ended && strstr(buf_str(&t->said), "LeakSanitizer")) {
		trial_headline(t, &line);
		plugin_refuse(why, PLUGIN_REFUSED_leaks, "in the trial%s", buf_str(&line));
		buf_fini(&line);
		return RC_PLUGIN;
	}
	return trial_crashed(t, why);
}

static void trial_fini(struct trial *t)
{
	if (t->pipe >= 0)
		close(t->pipe);
	if (t->err >= 0)
		close(t->err);
	if (t->pidfd >= 0)
		close(t->pidfd);
	buf_fini(&t->line);
	buf_fini(&t->said);
	buf_fini(&t->why);
}

int trial_run(const struct plugin_file *pf, const char *copies, const struct trial_options *o, struct buf *why)
{
	struct trial t = { .o = o, .pidfd = -1, .pipe = -1, .err = -1 };
	char *copy = NULL;
	int rc = plugin_facts_fit(&pf->facts, o->device && strcmp(o->device, "cpu") ? NULL : device_cpu(), why);

	rc = rc ? rc : plugin_file_copy(pf, copies, &copy, why);
	if (rc)
		return rc;
	trial_enter(&t, "start");
	rc = trial_start(&t, copy);
	if (rc) {
		buf_why(why, rc, "the trial cannot be started: %s", rc_text(rc));
	} else {
		t.pidfd = pidfd_open(t.pid, 0);
		rc = t.pidfd < 0 ? buf_why(why, -errno, "pidfd_open: %s", strerror(errno)) : trial_watch(&t, why);
		trial_reap(&t);
		rc = rc ? rc : trial_verdict(&t, why);
	}
	trial_fini(&t);
	unlink(copy);
	free(copy);
	return rc;
}
