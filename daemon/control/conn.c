/* SPDX-License-Identifier: MIT
 * conn.c - one control connection: its buffers, limits and deadlines. What is said is call.c's.
 * Threads: control. Locks: none. */
#include "daemon/control/conn.h"
#include "ctl/varlink.h"
#include "daemon/control/call.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONN_CHUNK 65536

struct conn {
	struct conn_set *set;
	struct list node;
	struct loop_source source;
	struct peer peer;
	struct buf in, out;
	size_t scanned;     /* of in, see varlink_frame() */
	size_t sent;        /* of out */
	struct call *call;  /* a call that will be answered later; nothing is read until then */
	long long in_since; /* when the first byte of the incomplete call came; 0: none */
	long long out_since; /* when the peer last took something while more waited; 0: nothing waits */
	bool eof, finish, dead;
};

const struct peer *conn_peer(const struct conn *c)
{
	return &c->peer;
}

struct daemon *conn_daemon(const struct conn *c)
{
	return c->set->daemon;
}

static bool conn_idle(const struct conn *c)
{
	return !c->call && c->sent == c->out.len;
}

static void conn_close(struct conn *c)
{
	struct conn_set *s = c->set;

	if (c->call)
		call_gone(&c->call);
	s->out_total -= c->out.len;
	s->n--;
	list_del(&c->node);
	loop_del(s->loop, &c->source);
	close(c->source.fd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

/* What the loop must tell about this connection now. A hang-up is always told. */
static void conn_watch(struct conn *c)
{
	uint32_t events = 0;

	if (c->sent < c->out.len || c->dead)
		events = EPOLLOUT;
	else if (!c->call && !c->eof)
		events = EPOLLIN;
	loop_mod(c->set->loop, &c->source, events);
}

void conn_send(struct conn *c, const char *error, json_t *params, bool continues)
{
	struct conn_set *s = c->set;
	size_t before = c->out.len;
	json_t *e;

	if (c->dead || c->finish)
		return;
	varlink_put_reply(&c->out, error, params, continues);
	if (c->out.len - before > CONN_MAX_REPLY) {
		c->out.len = before;
		e = varlink_text("message", "the reply is larger than the limit");
		varlink_put_reply(&c->out, rc_varlink(RC_TOO_LARGE), e, false);
		json_decref(e);
	}
	s->out_total += c->out.len - before;
	if (c->out.len - c->sent > 2 * CONN_MAX_REPLY || s->out_total > CONN_MAX_OUT) {
		log_event(LOG_LV_WARN, "control_overflow", "uid=%u pid=%d waiting=%zu", (unsigned)c->peer.uid,
			  (int)c->peer.pid, c->out.len - c->sent);
		c->dead = true;
	}
	if (!c->out_since)
		c->out_since = clock_ms();
	conn_watch(c);
}

void conn_finish(struct conn *c)
{
	c->finish = true;
}

void conn_resume(struct conn *c)
{
	c->call = NULL;
	/* Calls that arrived meanwhile are handled from the loop, not from here: whoever finished this one
	 * may be deep in code of its own. The socket is writable at once. */
	loop_mod(c->set->loop, &c->source, EPOLLOUT);
}

static void conn_flush(struct conn *c)
{
	while (c->sent < c->out.len) {
		ssize_t n = send(c->source.fd, c->out.data + c->sent, c->out.len - c->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			c->dead |= errno != EAGAIN;
			return;
		}
		c->sent += (size_t)n;
		c->out_since = clock_ms();
	}
	c->set->out_total -= c->out.len;
	c->sent = 0;
	c->out_since = 0;
	if (c->out.cap > CONN_CHUNK)
		buf_fini(&c->out);
	else
		buf_clear(&c->out);
}

static void conn_read(struct conn *c)
{
	char chunk[CONN_CHUNK];
	ssize_t n = recv(c->source.fd, chunk, sizeof chunk, MSG_DONTWAIT);

	if (n < 0) {
		c->dead |= errno != EAGAIN && errno != EINTR;
		return;
	}
	c->eof |= n == 0;
	buf_add(&c->in, chunk, (size_t)n);
}

/* Handles the complete calls that have arrived, one after the other. */
static void conn_pump(struct conn *c)
{
	size_t len, used = 0;
	int r = 0;

	while (!c->dead && !c->finish && conn_idle(c)) {
		r = varlink_frame(&c->in, VARLINK_MAX_CALL, &c->scanned, &len);
		if (r)
			break;
		c->call = call_begin(c, c->in.data, len);
		buf_drop(&c->in, len + 1);
		used++;
		conn_flush(c);
	}
	if (r == RC_TOO_LARGE) {
		call_refuse(c, r, "a call has at most 1 MiB");
		conn_finish(c);
		buf_fini(&c->in);
		c->scanned = 0;
	}
	if (c->in.len == 0 || !conn_idle(c))
		c->in_since = 0;
	else if (!c->in_since || used)
		c->in_since = clock_ms();
}

static void conn_event(void *arg, uint32_t events)
{
	struct conn *c = arg;

	if (events & EPOLLIN)
		conn_read(c);
	if (events & EPOLLOUT)
		conn_flush(c);
	conn_pump(c);
	conn_flush(c);
	if (c->call && !c->dead && c->sent == c->out.len)
		call_taken(c->call);
	if (c->dead || events & (EPOLLERR | EPOLLHUP) || ((c->finish || c->eof) && conn_idle(c)))
		conn_close(c);
	else
		conn_watch(c);
}

int conn_open(struct conn_set *s, int fd, const struct peer *peer, struct conn **ret_c)
{
	struct conn *c = mem_new(sizeof *c);
	int r;

	*c = (struct conn){ .set = s, .peer = *peer, .source = { fd, conn_event, c } };
	r = loop_add(s->loop, &c->source, EPOLLIN);
	if (r) {
		free(c);
		return r;
	}
	list_put(&s->conns, &c->node);
	s->n++;
	*ret_c = c;
	return 0;
}

void conn_refuse(struct conn **cp, const char *why)
{
	struct conn *c = *cp;

	*cp = NULL;
	call_refuse(c, RC_BUSY, why);
	conn_flush(c);
	conn_close(c);
}

/* ---- all of them ---- */

void conn_set_init(struct conn_set *s, struct loop *l, struct daemon *d)
{
	*s = (struct conn_set){ .loop = l, .daemon = d };
	list_init(&s->conns);
}

void conn_set_fini(struct conn_set *s)
{
	while (!list_empty(&s->conns))
		conn_close(list_entry(s->conns.next, struct conn, node));
}

int conn_set_of_uid(const struct conn_set *s, uid_t uid)
{
	int n = 0;

	list_each(c, &s->conns, struct conn, node)
		n += c->peer.uid == uid;
	return n;
}

/* What a connection is late with; NULL: nothing. */
static const char *conn_late(const struct conn *c, long long now)
{
	if (c->in_since && now - c->in_since > CONN_IN_MS)
		return "half a call";
	if (c->out_since && now - c->out_since > CONN_OUT_MS)
		return "a reply not read";
	return NULL;
}

void conn_set_tick(struct conn_set *s)
{
	long long now = clock_ms();
	struct list *next;

	for (struct list *n = s->conns.next; n != &s->conns; n = next) {
		struct conn *c = list_entry(n, struct conn, node);
		const char *late = conn_late(c, now);

		next = n->next;
		if (!late)
			continue;
		log_event(LOG_LV_WARN, "control_deadline", "uid=%u pid=%d why=%s", (unsigned)c->peer.uid,
			  (int)c->peer.pid, LOGQ(late));
		conn_close(c);
	}
}

/* A peer that takes nothing holds up the others until then; each of them still gets one attempt. */
static void conn_flush_until(struct conn *c, long long until)
{
	struct pollfd p = { .fd = c->source.fd, .events = POLLOUT };
	long long left;

	conn_flush(c);
	while (c->sent < c->out.len && !c->dead && (left = until - clock_ms()) > 0) {
		must(poll(&p, 1, (int)left) >= 0 || errno == EINTR);
		conn_flush(c);
	}
}

void conn_set_flush(struct conn_set *s, int timeout_ms)
{
	long long until = clock_ms() + timeout_ms;

	list_each(c, &s->conns, struct conn, node)
		if (!c->dead)
			conn_flush_until(c, until);
}
