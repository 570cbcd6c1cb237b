/* SPDX-License-Identifier: MIT
 * control.c - the control socket: who may connect, and how many. A connection is conn.c's.
 * Threads: control. Locks: none. */
#include "daemon/control/control.h"
#include "daemon/control/conn.h"
#include "daemon/control/listen.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct control {
	struct loop *loop;
	struct listen listen;
	struct loop_source source;
	struct peer_groups groups;
	struct conn_set conns;
	bool paused;        /* accept failed for want of descriptors; the next tick tries again */
};

static int control_admit(struct control *c, int fd)
{
	struct conn *k;
	struct peer peer;
	const char *full = NULL;
	int r = peer_identify(fd, &c->groups, &peer);

	if (r)
		return r;
	if (c->conns.n >= CONTROL_MAX_CONNS)
		full = "too many connections";
	else if (conn_set_of_uid(&c->conns, peer.uid) >= CONTROL_MAX_PER_UID)
		full = "too many connections of this user";
	r = conn_open(&c->conns, fd, &peer, &k);
	if (r || !full)
		return r;
	log_event(LOG_LV_WARN, "control_refused", "uid=%u pid=%d why=%s", (unsigned)peer.uid, (int)peer.pid,
		  LOGQ(full));
	conn_refuse(&k, full);
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
	int r = 0;

	c->loop = l;
	conn_set_init(&c->conns, l, d);
	peer_groups(&c->groups, o->group, o->admin_group);
	if (o->fd >= 0)
		listen_given(&c->listen, o->fd, o->path);
	else
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
	conn_set_fini(&c->conns);
	free(c);
	*cp = NULL;
}

void control_tick(struct control *c)
{
	if (c->paused) {
		c->paused = false;
		loop_mod(c->loop, &c->source, EPOLLIN);
	}
	conn_set_tick(&c->conns);
}

void control_flush(struct control *c, int timeout_ms)
{
	conn_set_flush(&c->conns, timeout_ms);
}
