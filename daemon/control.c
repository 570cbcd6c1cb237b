/* SPDX-License-Identifier: MIT
 * control.c - the control socket: connections, their buffers, limits and deadlines. What is said is call.c's.
 * Threads: control. Locks: none. */
#include "daemon/control.h"
#include "ctl/varlink.h"
#include "daemon/call.h"
#include "daemon/listen.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
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

#define CONTROL_CHUNK 65536

struct control {
	struct loop *loop;
	struct daemon *daemon;
	struct listen listen;
	struct loop_source source;
	struct peer_groups groups;
	struct list conns;
	int n_conns;
	size_t out_total;
	bool paused;        /* accept failed for want of descriptors; the next tick tries again */
};

struct conn {
	struct control *control;
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
	return c->control->daemon;
}

static bool conn_idle(const struct conn *c)
{
	return !c->call && c->sent == c->out.len;
}

static void conn_close(struct conn *c)
{
	struct control *ctl = c->control;

	if (c->call)
		call_gone(&c->call);
	ctl->out_total -= c->out.len;
	ctl->n_conns--;
	list_del(&c->node);
	loop_del(ctl->loop, &c->source);
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
	loop_mod(c->control->loop, &c->source, events);
}

void conn_send(struct conn *c, const char *error, json_t *params, bool continues)
{
	struct control *ctl = c->control;
	size_t before = c->out.len;
	json_t *e;

	if (c->dead || c->finish)
		return;
	varlink_put_reply(&c->out, error, params, continues);
	if (c->out.len - before > CONTROL_MAX_REPLY) {
		c->out.len = before;
		e = varlink_text("message", "the reply is larger than the limit");
		varlink_put_reply(&c->out, rc_varlink(RC_TOO_LARGE), e, false);
		json_decref(e);
	}
	ctl->out_total += c->out.len - before;
	if (c->out.len - c->sent > 2 * CONTROL_MAX_REPLY || ctl->out_total > CONTROL_MAX_OUT) {
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
	loop_mod(c->control->loop, &c->source, EPOLLOUT);
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
	c->control->out_total -= c->out.len;
	c->sent = 0;
	c->out_since = 0;
	if (c->out.cap > CONTROL_CHUNK)
		buf_fini(&c->out);
	else
		buf_clear(&c->out);
}

static void conn_read(struct conn *c)
{
	char chunk[CONTROL_CHUNK];
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
	if (c->dead || events & (EPOLLERR | EPOLLHUP) || ((c->finish || c->eof) && conn_idle(c)))
		conn_close(c);
	else
		conn_watch(c);
}

/* ---- accepting ---- */

static int control_per_uid(struct control *c, uid_t uid)
{
	int n = 0;

	list_each(k, &c->conns, struct conn, node)
		n += k->peer.uid == uid;
	return n;
}

static int control_admit(struct control *c, int fd)
{
	struct conn *k;
	struct peer peer;
	const char *full = NULL;
	int r = peer_identify(fd, &c->groups, &peer);

	if (r)
		return r;
	if (c->n_conns >= CONTROL_MAX_CONNS)
		full = "too many connections";
	else if (control_per_uid(c, peer.uid) >= CONTROL_MAX_PER_UID)
		full = "too many connections of this user";
	k = mem_new(sizeof *k);
	*k = (struct conn){ .control = c, .peer = peer, .source = { fd, conn_event, k } };
	r = loop_add(c->loop, &k->source, EPOLLIN);
	if (r) {
		free(k);
		return r;
	}
	list_put(&c->conns, &k->node);
	c->n_conns++;
	if (full) {
		log_event(LOG_LV_WARN, "control_refused", "uid=%u pid=%d why=%s", (unsigned)peer.uid,
			  (int)peer.pid,
			  LOGQ(full));
		call_refuse(k, RC_BUSY, full);
		conn_flush(k);
		conn_close(k);
	}
	return 0;
}

static void control_accept(void *arg, uint32_t events)
{
	struct control *c = arg;
	int fd = accept4(c->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

	(void)events;
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		log_event(LOG_LV_ERR, "control_accept", "error=%s", LOGQ(strerror(errno)));
		loop_mod(c->loop, &c->source, 0);
		c->paused = true;
		return;
	}
	r = control_admit(c, fd);
	if (r) {
		log_event(LOG_LV_ERR, "control_accept", "error=%s", LOGQ(rc_text(r)));
		close(fd);
	}
}

int control_open(const struct control_options *o, struct loop *l, struct daemon *d, struct control **ret_c,
		 struct buf *why)
{
	struct control *c = mem_new(sizeof *c);
	int r;

	c->loop = l;
	c->daemon = d;
	list_init(&c->conns);
	peer_groups(&c->groups, o->group, o->admin_group);
	r = listen_open(&c->listen, o->path, o->mode, c->groups.operate, why);
	if (!r) {
		c->source = (struct loop_source){ c->listen.fd, control_accept, c };
		r = loop_add(l, &c->source, EPOLLIN);
	}
	if (r) {
		listen_close(&c->listen);
		free(c);
		return r;
	}
	*ret_c = c;
	return 0;
}

void control_close(struct control **cp)
{
	struct control *c = *cp;

	if (!c)
		return;
	loop_del(c->loop, &c->source);
	listen_close(&c->listen);
	while (!list_empty(&c->conns))
		conn_close(list_entry(c->conns.next, struct conn, node));
	free(c);
	*cp = NULL;
}

void control_tick(struct control *c)
{
	long long now = clock_ms();
	struct list *next;

	if (c->paused) {
		c->paused = false;
		loop_mod(c->loop, &c->source, EPOLLIN);
	}
	for (struct list *n = c->conns.next; n != &c->conns; n = next) {
		struct conn *k = list_entry(n, struct conn, node);
		const char *late = k->in_since && now - k->in_since > CONTROL_IN_MS ? "half a call" :
				   k->out_since &&
				   now - k->out_since > CONTROL_OUT_MS ? "a reply not read" : NULL;

		next = n->next;
		if (!late)
			continue;
		log_event(LOG_LV_WARN, "control_deadline", "uid=%u pid=%d why=%s", (unsigned)k->peer.uid,
			  (int)k->peer.pid, LOGQ(late));
		conn_close(k);
	}
}

/* A peer that takes nothing holds up the others until then; each of them still gets one attempt. */
static void control_flush_one(struct conn *k, long long until)
{
	struct pollfd p = { .fd = k->source.fd, .events = POLLOUT };
	long long left;

	conn_flush(k);
	while (k->sent < k->out.len && !k->dead && (left = until - clock_ms()) > 0) {
		must(poll(&p, 1, (int)left) >= 0 || errno == EINTR);
		conn_flush(k);
	}
}

void control_flush(struct control *c, int timeout_ms)
{
	long long until = clock_ms() + timeout_ms;

	list_each(k, &c->conns, struct conn, node)
		if (!k->dead)
			control_flush_one(k, until);
}
