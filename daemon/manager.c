/* SPDX-License-Identifier: MIT
 * manager.c - the service manager: sockets that it opened for us, what it is told, its watchdog (sd_notify(3)).
 * Threads: control; manager_progress() any. Locks: none (an atomic stage and count). */
#include "daemon/manager.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

/* What loading gets from each sign of progress on: longer than a part of a trial may last. */
#define MANAGER_MORE_US 90000000LL
#define MANAGER_END_S 15         /* after the last request: caches, threads, plugins */

/* ---- sockets ---- */

/* Are both names of one socket? However either is spelled: /var/run is /run. */
static bool manager_same(const char *a, const char *b)
{
	struct stat x, y;

	return !strcmp(a, b) ||
	       (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Is it one of the unix:PATH words of `listen`? */
static bool manager_listens(const char *listen, const char *path)
{
	struct conf_address a;
	bool same = false;

	while (!same && conf_next_address(&listen, &a)) {
		char *word = mem_strndup(a.text, a.n);

		same = a.local && manager_same(word, path);
		free(word);
	}
	return same;
}

/* A Unix socket that is neither would be served as what it is not: dsv4ctl's as HTTP, or the other way round. */
static int manager_take(struct manager *m, int fd, const struct conf *c, struct buf *why)
{
	struct sockaddr_un a = { 0 };
	socklen_t len = sizeof a - 1;

	if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
		return buf_why(why, RC_CONFIG, "descriptor %d of the service manager is no listening stream socket",
			       fd);
	if (sd_is_socket(fd, AF_UNIX, 0, -1) <= 0) {
		m->http[m->n_http++] = fd;
		return 0;
	}
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return buf_why(why, -errno, "descriptor %d of the service manager: %s", fd, strerror(errno));
	if (m->control < 0 && manager_same(a.sun_path, conf_text(c, CONF_control)))
		m->control = fd;
	else if (manager_listens(conf_text(c, CONF_listen), a.sun_path))
		m->http[m->n_http++] = fd;
	else
		return buf_why(why, RC_CONFIG,
			"the service manager's socket %s is neither `control' (%s) nor in `listen'", a.sun_path,
			conf_text(c, CONF_control));
	return 0;
}

int manager_open(struct manager *m, const struct conf *c, struct buf *why)
{
	int n = sd_listen_fds(1), r = 0;

	*m = (struct manager){ .control = -1, .watched = sd_watchdog_enabled(0, NULL) > 0 };
	if (n > MANAGER_MAX_SOCKETS)
		return buf_why(why, RC_CONFIG, "%d sockets of the service manager, at most %d", n, MANAGER_MAX_SOCKETS);
	for (int i = 0; i < n && !r; i++)
		r = manager_take(m, SD_LISTEN_FDS_START + i, c, why);
	if (n > 0 && !r)
		log_event(LOG_LV_INFO, "sockets_given", "control=%d http=%d", m->control >= 0, m->n_http);
	return r;
}

void manager_close(struct manager *m)
{
	if (m->control >= 0)
		close(m->control);
	m->control = -1;
	while (m->n_http > 0)
		close(m->http[--m->n_http]);
}

/* ---- what it is told ---- */

/* A datagram to $NOTIFY_SOCKET, as sd_notify(3) sends it, but for this: where nobody reads there it is dropped, and we
 * go on. False then. */
static bool manager_send(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	bool sent;
	int fd;

	if (n < 2 || n >= sizeof a.sun_path || !strchr("/@", *path))
		return true; /* nobody wants to know */
	memcpy(a.sun_path, path, n);
	if (*path == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	sent = fd >= 0 && sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) >= 0;
	if (fd >= 0)
		close(fd);
	return sent;
}

__attribute__((format(printf, 1, 2))) static bool manager_tell(const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;
	bool sent;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	sent = manager_send(buf_str(&text));
	buf_fini(&text);
	return sent;
}

/* Once per text; again if it was dropped. */
__attribute__((format(printf, 2, 3))) static void manager_say(struct manager *m, const char *fmt, ...)
{
	char status[MANAGER_STATUS_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(status, sizeof status, fmt, ap);
	va_end(ap);
	if (strcmp(m->status, status) != 0 && manager_tell("STATUS=%s", status))
		memcpy(m->status, status, sizeof status);
}

void manager_begins(struct manager *m, const char *stage, int seconds)
{
	atomic_store(&m->patience, seconds);
	atomic_store(&m->stage, stage);
	atomic_fetch_add(&m->moved, 1);
}

void manager_progress(struct manager *m, const char *stage)
{
	manager_begins(m, stage, 0);
}

void manager_loading(struct manager *m, const char *model)
{
	const char *stage = atomic_load(&m->stage);
	uint64_t moved = atomic_load(&m->moved);

	manager_say(m, "loading %s%s%s", model, stage ? ": " : "", stage ? stage : "");
	if (moved != m->moved_seen)
		manager_tell("EXTEND_TIMEOUT_USEC=%lld", MANAGER_MORE_US + atomic_load(&m->patience) * 1000000LL);
	m->moved_seen = moved;
}

void manager_ready(struct manager *m)
{
	m->ready = true;
	m->unsaid = !manager_send("READY=1");
}

void manager_reloading(struct manager *m)
{
	struct timespec t;

	if (!m->ready)
		return; /* READY=1, the end of a reload, would say too much */
	clock_gettime(CLOCK_MONOTONIC, &t);
	manager_tell("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000);
}

void manager_stopping(struct manager *m, long long seconds)
{
	manager_tell("STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld", (seconds + MANAGER_END_S) * 1000000);
	m->unsaid = false;
	manager_say(m, "finishing requests");
}

/* A step may take minutes, a kernel of it may not: what counts is that the engine goes from one to the next. */
static bool manager_alive(struct manager *m, const struct engine_status *s)
{
	bool moved = s->kernels != m->kernels_seen;

	m->kernels_seen = s->kernels;
	return !s->failed && (moved || s->step_age == 0);
}

void manager_tick(struct manager *m, const struct engine_status *s, const char *model, const char *address)
{
	long long now = clock_ms(), ms = now - m->ticked;
	double rate = m->ticked && ms > 0 ? (double)(s->generated_tokens - m->tokens_seen) * 1000 / (double)ms : 0;

	m->ticked = now;
	if (m->unsaid)
		manager_ready(m);
	m->tokens_seen = s->generated_tokens;
	if (s->failed)
		manager_say(m, "the engine failed: %s", s->why_failed);
	else if (s->running + s->queued)
		manager_say(m, "serving %s on %s: %d running, %d waiting, %.1f tokens/s", model, address, s->running,
			s->queued, rate);
	else
		manager_say(m, "%s %s on %s", s->draining ? "drained:" : "serving", model, address);
	if (manager_alive(m, s) && m->watched)
		manager_send("WATCHDOG=1");
}
