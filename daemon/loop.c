/* SPDX-License-Identifier: MIT
 * loop.c - the control thread's event loop: epoll over sources that their owners embed.
 * Threads: control. Locks: none. */
#include "daemon/loop.h"
#include "engine/base/must.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

int loop_init(struct loop *l)
{
	l->quit = false;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll < 0 ? -errno : 0;
}

void loop_fini(struct loop *l)
{
	if (l->epoll >= 0)
		close(l->epoll);
	l->epoll = -1;
}

int loop_add(struct loop *l, struct loop_source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &e) < 0 ? -errno : 0;
}

void loop_mod(struct loop *l, struct loop_source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	must_zero(epoll_ctl(l->epoll, EPOLL_CTL_MOD, s->fd, &e));
}

void loop_del(struct loop *l, struct loop_source *s)
{
	must_zero(epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL));
}

void loop_run(struct loop *l)
{
	while (!l->quit) {
		struct epoll_event e;
		/* One event at a time: no later event of a batch can point to a source that a handler
		 * freed. */
		int n = epoll_wait(l->epoll, &e, 1, -1);

		must(n >= 0 || errno == EINTR);
		if (n > 0) {
			struct loop_source *s = e.data.ptr;

			s->fn(s->arg, e.events);
		}
	}
}
