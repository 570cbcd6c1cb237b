/* SPDX-License-Identifier: MIT
 * conns.c - open connections, watched while a request comes in: it must come in time, and its sender must be there.
 * Threads: libmicrohttpd's; control ticks. Lock: conns.
 *
 * libmicrohttpd's own timeout begins again with every byte, so that a client who sends one now and then could hold a
 * connection for ever. And its epoll misses a goodbye that comes together with the last bytes: it takes a short read
 * for an empty socket, and the edge is gone. */
#include "api/http/conns.h"
#include "api/http/endpoint.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CONNS_SNDBUF (128 * 1024) /* bytes; the kernel counts its own of them twice */
#define CONNS_FRESH_S 0.2 /* from the connection to its first request, of a client that means it */
#define CONNS_SNDBUF_UNIX (16 * 1024) /* a reader's progress is seen after pieces of up to so many */

struct conn {
	struct list node;
	int fd;
	double opened;   /* clock_s(); 0: it has had a request */
	double due;      /* clock_s(): when what it is about must be done; 0: it is being answered */
	bool left;       /* the last tick found its client gone */
};

void conns_init(struct conns *c, double head, double body, double idle)
{
	lock_init(&c->lock, "conns");
	list_init(&c->list);
	c->head = head;
	c->body = body;
	c->idle = idle;
}

void conns_fini(struct conns *c)
{
	must(list_empty(&c->list));
	lock_fini(&c->lock);
}

static void conns_open(struct conns *c, int fd, void **context)
{
	struct conn *n = mem_new(sizeof *n);
	const int sends = endpoint_is_unix(fd) ? CONNS_SNDBUF_UNIX : CONNS_SNDBUF;

	/* Else the kernel takes megabytes for a client that does not read, and its answer is computed for nobody. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sends, sizeof sends);
	n->fd = fd;
	n->opened = clock_s();
	n->due = n->opened + c->head;
	*context = n;
	lock_take(&c->lock);
	list_put(&c->list, &n->node);
	lock_drop(&c->lock);
}

void conns_notify(void *arg, struct MHD_Connection *connection, void **context,
		  enum MHD_ConnectionNotificationCode code)
{
	struct conns *c = arg;
	struct conn *n = *context;
	const union MHD_ConnectionInfo *i;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		i = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		must(i);
		conns_open(c, i->connect_fd, context);
		return;
	}
	if (!n)
		return;
	/* Before the descriptor is closed: what is listed has a descriptor of its own. */
	lock_take(&c->lock);
	list_del(&n->node);
	lock_drop(&c->lock);
	free(n);
	*context = NULL;
}

static void conns_due(struct conns *c, struct MHD_Connection *connection, double due)
{
	const union MHD_ConnectionInfo *i =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct conn *n = i ? i->socket_context : NULL;

	must(n);
	lock_take(&c->lock);
	n->opened = 0;
	n->due = due;
	n->left = false;
	lock_drop(&c->lock);
}

void conns_body_begins(struct conns *c, struct MHD_Connection *connection)
{
	conns_due(c, connection, clock_s() + c->body);
}

void conns_request_whole(struct conns *c, struct MHD_Connection *connection)
{
	conns_due(c, connection, 0);
}

void conns_request_over(struct conns *c, struct MHD_Connection *connection)
{
	conns_due(c, connection, clock_s() + c->idle + c->head);
}

bool conns_unheard(struct conns *c)
{
	double now = clock_s();
	bool found = false;
	int unread = 0;

	lock_take(&c->lock);
	list_each(n, &c->list, struct conn, node)
		found |= n->opened > 0 && (now - n->opened < CONNS_FRESH_S ||
					   (ioctl(n->fd, FIONREAD, &unread) == 0 && unread > 0));
	lock_drop(&c->lock);
	return found;
}

/* A client that said goodbye, all of whose bytes have been read, cannot complete its request. Once is not enough:
 * what was read may be on its way to us. */
static bool conns_left(struct conn *n)
{
	struct pollfd p = { .fd = n->fd, .events = POLLRDHUP };
	bool before = n->left;
	int unread = 0;

	n->left = poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR) ||
					  (ioctl(n->fd, FIONREAD, &unread) == 0 && unread == 0));
	return before && n->left;
}

void conns_tick(struct conns *c)
{
	double now = clock_s();

	lock_take(&c->lock);
	list_each(n, &c->list, struct conn, node)
		if (n->due > 0 && (now > n->due || conns_left(n)))
			shutdown(n->fd, SHUT_RDWR); /* an edge that libmicrohttpd sees; it closes */
	lock_drop(&c->lock);
}
