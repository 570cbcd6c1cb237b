/* SPDX-License-Identifier: MIT
 * client.c - the client's side of the control socket: connect, call, read replies, with deadlines.
 * Threads: one per client. Locks: none. */
#include "ctl/client.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENT_SEND_MS 10000
#define CLIENT_RETRY_MS 20

struct client {
	int fd;
	struct buf in;
	size_t scanned; /* of in, see varlink_frame() */
};

int client_open(const char *path, struct client **ret_c, struct buf *why)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = CLIENT_SEND_MS / 1000 };
	int fd, e;

	if (strlen(path) >= sizeof a.sun_path)
		return buf_why(why, -ENAMETOOLONG, "%s: socket paths have at most %zu bytes", path,
			       sizeof a.sun_path - 1);
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* of a daemon that hangs the queue of callers may be full */
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		e = errno;
		if (fd >= 0)
			close(fd);
		if (e == EAGAIN)
			return buf_why(why, RC_TIMEOUT, "%s: %s", path, rc_text(RC_TIMEOUT));
		return buf_why(why, -e, "%s: %s%s", path, strerror(e),
			       e == ENOENT || e == ECONNREFUSED ? " (is dsv4d running?)" : "");
	}
	*ret_c = mem_new(sizeof **ret_c);
	(*ret_c)->fd = fd;
	return 0;
}

int client_open_patiently(const char *path, long timeout_ms, struct client **ret_c, struct buf *why)
{
	long long until = clock_ms() + timeout_ms;
	int r;

	while ((r = client_open(path, ret_c, why)) == -ENOENT || r == -ECONNREFUSED) {
		if (clock_ms() >= until)
			return r;
		poll(NULL, 0, CLIENT_RETRY_MS);
	}
	return r;
}

void client_close(struct client **c)
{
	if (!*c)
		return;
	close((*c)->fd);
	buf_fini(&(*c)->in);
	free(*c);
	*c = NULL;
}

/* 0 when ready, RC_TIMEOUT after `until` (milliseconds; < 0: never), -errno. */
static int client_poll(struct client *c, short events, long long until)
{
	for (;;) {
		struct pollfd p = { .fd = c->fd, .events = events };
		long long left = until < 0 ? -1 : until - clock_ms();
		int n;

		if (until >= 0 && left < 0)
			return RC_TIMEOUT;
		n = poll(&p, 1, left > 60000 ? 60000 : (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int client_send(struct client *c, const char *method, json_t *params, bool more, struct buf *why)
{
	struct buf out = { 0 };
	long long until = clock_ms() + CLIENT_SEND_MS;
	size_t sent = 0;
	int r = 0;

	varlink_put_call(&out, method, params, more, false);
	if (out.len > VARLINK_MAX_CALL)
		r = buf_why(why, RC_TOO_LARGE, "the call has %zu bytes, at most %u are allowed", out.len,
			    VARLINK_MAX_CALL);
	while (!r && sent < out.len) {
		ssize_t n = send(c->fd, out.data + sent, out.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			r = client_poll(c, POLLOUT, until);
		else if (errno == EPIPE)
			break; /* refused before we spoke: the reply that says why is already here */
		else if (errno != EINTR)
			r = -errno;
		if (r)
			buf_why(why, r, "sending: %s", rc_text(r));
	}
	buf_fini(&out);
	return r;
}

/* Adds what has arrived to c->in: 1 for some bytes, 0 at the end, RC_TIMEOUT, -errno. */
static int client_read(struct client *c, long long until)
{
	char chunk[65536];
	ssize_t n;
	int r = client_poll(c, POLLIN, until);

	if (r)
		return r;
	n = recv(c->fd, chunk, sizeof chunk, 0);
	if (n < 0)
		return errno == EINTR ? 1 : errno == ECONNRESET ? 0 : -errno;
	buf_add(&c->in, chunk, (size_t)n);
	return n > 0;
}

int client_reply(struct client *c, long timeout_ms, struct varlink_reply *ret_r, struct buf *why)
{
	long long until = timeout_ms < 0 ? -1 : clock_ms() + timeout_ms;
	size_t len = 0;
	int r;

	while ((r = varlink_frame(&c->in, VARLINK_MAX_REPLY, &c->scanned, &len)) == -EAGAIN) {
		r = client_read(c, until);
		if (r == 0)
			return buf_why(why, -ECONNRESET, "the daemon closed the connection");
		if (r < 0)
			return buf_why(why, r, "waiting for a reply: %s", rc_text(r));
	}
	if (r)
		return buf_why(why, r, "the reply is larger than %u bytes", VARLINK_MAX_REPLY);
	r = varlink_parse_reply(c->in.data, len, ret_r, why);
	buf_drop(&c->in, len + 1);
	return r;
}

int client_wait_close(struct client *c, long timeout_ms)
{
	long long until = timeout_ms < 0 ? -1 : clock_ms() + timeout_ms;
	int r;

	while ((r = client_read(c, until)) > 0)
		buf_clear(&c->in);
	return r;
}
