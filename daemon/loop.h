/* SPDX-License-Identifier: MIT
 * loop.h - the control thread's event loop: epoll over sources that their owners embed.
 * Threads: control. Locks: none. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop {
	int epoll;
	bool quit;
};

/* Set fd, fn and arg, then loop_add(). The owner closes fd after loop_del(). */
struct loop_source {
	int fd;
	void (*fn)(void *arg, uint32_t events);
	void *arg;
};

/* -errno: loop_fini() may still be called. */
int loop_init(struct loop *l);
void loop_fini(struct loop *l);
/* events as for epoll_ctl(2). -errno, and the source is not watched. */
int loop_add(struct loop *l, struct loop_source *s, uint32_t events);
/* Other events, or none more, of a source that was added. */
void loop_mod(struct loop *l, struct loop_source *s, uint32_t events);
void loop_del(struct loop *l, struct loop_source *s);
/* Runs handlers until one sets l->quit. A handler may delete and free any source. */
void loop_run(struct loop *l);

#endif
