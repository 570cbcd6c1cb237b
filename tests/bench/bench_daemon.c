/* SPDX-License-Identifier: MIT
 * bench_daemon.c - a dsv4d of one's own, started for a measurement and ended after it.
 * Threads: main. Locks: none. */
#include "engine/base/rc.h"
#include "tests/bench/bench_serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BENCH_DAEMON_READY_MS 1800000 /* a large model on a slow disk */
#define BENCH_DAEMON_LOG 800          /* bytes of its end that are told */

/* ---- before it starts ---- */

/* A port that was free a moment ago. */
static int bench_daemon_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
	socklen_t len = sizeof a;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    getsockname(fd, (struct sockaddr *)&a, &len) == 0)
		port = ntohs(a.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

/* The plugins' names: all lie in the folder of the first. */
static int bench_daemon_config(const struct bench_daemon *d, const struct bench_args *a)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof path, "%s/conf", d->dir);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	fprintf(f, "[daemon]\nrepack = %s\n", a->repack ? "yes" : "no");
	if (a->max_gap >= 0)
		fprintf(f, "max_gap = %d\n", a->max_gap);
	fputs("[cache]\ndisk = no\n[plugins]\n", f);
	for (int i = 0; i < a->plugins.n; i++) {
		const char *slash = strrchr(a->plugins.v[i], '/');

		fprintf(f, "%s%s", i ? " " : "load = ", slash ? slash + 1 : a->plugins.v[i]);
	}
	fprintf(f, "\n[kernels]\n%s", a->plugins.n + a->kernels.n ? "" : "use = ref");
	for (int i = 0; i < a->kernels.n; i++)
		fprintf(f, "%s%s", i ? " " : "use = ", a->kernels.v[i]);
	for (int i = 0; i < a->plugins.n && a->kernels.n == 0; i++) {
		const char *slash = strrchr(a->plugins.v[i], '/'), *name = slash ? slash + 1 : a->plugins.v[i];

		fprintf(f, "%sall=%.*s", i ? " " : "use = ", (int)strcspn(name, "."), name);
	}
	fputs("\n", f);
	return fclose(f) ? -errno : 0;
}

/* dsv4d is beside this program in a build tree, in sbin when installed. */
static void bench_daemon_program(char out[PATH_MAX])
{
	static const char *const places[] = { "dsv4d", "../sbin/dsv4d" };
	char self[PATH_MAX - 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	self[n > 0 ? n : 0] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < 2; i++) {
		snprintf(out, PATH_MAX, "%s/%s", self, places[i]);
		if (access(out, X_OK) == 0)
			return;
	}
	snprintf(out, PATH_MAX, "dsv4d");
}

static void bench_daemon_exec(const struct bench_daemon *d, const struct bench_args *a, int port)
{
	char program[PATH_MAX], conf[96], listen[32], control[96], state[96], log[96], threads[16],
		plugins[PATH_MAX] = ".";
	const char *slash = a->plugins.n ? strrchr(a->plugins.v[0], '/') : NULL;
	int fd;

	bench_daemon_program(program);
	snprintf(conf, sizeof conf, "%s/conf", d->dir);
	snprintf(control, sizeof control, "%s/control", d->dir);
	snprintf(state, sizeof state, "%s/state", d->dir);
	snprintf(log, sizeof log, "%s/log", d->dir);
	snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
	snprintf(threads, sizeof threads, "%d", a->threads);
	if (slash)
		snprintf(plugins, sizeof plugins, "%.*s", (int)(slash - a->plugins.v[0]), a->plugins.v[0]);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(127);
	execlp(program, "dsv4d", "--config", conf, "--model", a->what, "--listen", listen, "--control", control,
	       "--state", state, "--plugins", plugins, "--threads", threads, (char *)NULL);
	dprintf(2, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

/* ---- until it is ready ---- */

static int bench_daemon_notify(const struct bench_daemon *d)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof a.sun_path, "%s/notify", d->dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
	return fd;
}

static int bench_daemon_died(const struct bench_daemon *d, struct buf *why)
{
	char path[96], text[BENCH_DAEMON_LOG + 1] = "";
	int fd;
	ssize_t n = 0;

	snprintf(path, sizeof path, "%s/log", d->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		off_t size = lseek(fd, 0, SEEK_END);

		n = pread(fd, text, BENCH_DAEMON_LOG, size > BENCH_DAEMON_LOG ? size - BENCH_DAEMON_LOG : 0);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return buf_why(why, RC_INTERNAL, "dsv4d did not become ready:\n%s", text);
}

static int bench_daemon_wait(const struct bench_daemon *d, int notify, struct buf *why)
{
	struct pollfd p[2] = { { .fd = notify, .events = POLLIN },
			       { .fd = (int)syscall(SYS_pidfd_open, d->pid, 0), .events = POLLIN } };
	char text[512];
	bool ready = false;

	while (!ready && poll(p, 2, BENCH_DAEMON_READY_MS) > 0 && (p[0].revents & POLLIN)) {
		ssize_t n = recv(notify, text, sizeof text - 1, 0);

		text[n > 0 ? n : 0] = '\0';
		ready = strstr(text, "READY=1") != NULL;
	}
	close(p[1].fd);
	return ready ? 0 : bench_daemon_died(d, why);
}

int bench_daemon_start(struct bench_daemon *d, const struct bench_args *a, struct buf *why)
{
	const char *tmp = getenv("TMPDIR");
	int port = bench_daemon_port(), notify, rc;

	*d = (struct bench_daemon){ 0 };
	snprintf(d->dir, sizeof d->dir, "%.40s/dsv4-bench-XXXXXX", tmp && strlen(tmp) <= 40 ? tmp : "/tmp");
	if (!mkdtemp(d->dir)) {
		rc = buf_why(why, -errno, "%s: %s", d->dir, strerror(errno));
		d->dir[0] = '\0';
		return rc;
	}
	notify = bench_daemon_notify(d);
	rc = port < 0 ? -EADDRNOTAVAIL : notify < 0 ? notify : bench_daemon_config(d, a);
	if (rc == 0) {
		d->pid = fork();
		if (d->pid == 0)
			bench_daemon_exec(d, a, port);
		rc = d->pid < 0 ? -errno : bench_daemon_wait(d, notify, why);
	}
	unsetenv("NOTIFY_SOCKET");
	if (notify >= 0)
		close(notify);
	snprintf(d->url, sizeof d->url, "http://127.0.0.1:%d/v1", port);
	return rc;
}

/* ---- its end ---- */

static int bench_daemon_unlink(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)f;
	return type == FTW_DP ? rmdir(path) : unlink(path);
}

void bench_daemon_stop(struct bench_daemon *d)
{
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (d->dir[0])
		nftw(d->dir, bench_daemon_unlink, 16, FTW_DEPTH | FTW_PHYS);
	*d = (struct bench_daemon){ 0 };
}
