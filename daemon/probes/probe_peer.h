/* SPDX-License-Identifier: MIT
 * probe_peer.h - this daemon as the chat server that a probe talks to, mostly without a socket.
 * Threads: ops. Locks: none. */
#ifndef DAEMON_PROBE_PEER_H
#define DAEMON_PROBE_PEER_H

#include "api/chat/chat.h"
#include "ctl/probe/probe.h"
#include "engine/engine.h"

struct probe_http;

/* What the peer is made of; it is the `arg` of all its functions. */
struct probe_here {
	struct engine *engine;
	struct chat_under under;     /* what chats run under; zeroes: what is in force */
	const atomic_bool *cancel;   /* once set, what is asked ends soon with RC_CANCELLED; NULL: never */
	/* Of who must not be in anybody's way; both may be NULL. admit: before a request, may wait; 0 or RC_CANCELLED.
	 * look: while an answer comes, again and again. */
	int (*admit)(struct probe_here *h, struct buf *why);
	void (*look)(struct probe_here *h);
	void *arg;                   /* theirs */
	struct probe_http *front;    /* the daemon's own HTTP (probe_front.h); NULL: there is none */
	bool local;                  /* only this machine can reach it */
	int refused;                 /* set: how the server turned a request away, which says nothing about an answer */
};

/* Fills all but `progress`, which stays the caller's; `http` only with a front. The requests of `chat` carry no label
 * of their own: their ids stand in the result. */
void probe_peer_init(struct probe_peer *ret_p, struct probe_here *h);

/* Can the probe be run under a set that is not in force? RC_INVALID: it looks at what only the active set does. */
int probe_here_under(const char *probe, struct buf *why);
/* Before anything is computed: 0, or RC_CANCELLED. */
int probe_here_begin(struct probe_here *h, struct buf *why);
/* Is it time to end? Looks first. */
bool probe_here_cancelled(struct probe_here *h);
/* For probe_peer.c: probe_here.c, the daemon's looks into itself. */
int probe_here_replay(void *here, struct probe_replay *r, struct buf *why);
int probe_here_compare(void *here, const struct probe_compare *c, json_t **ret_reply, struct buf *why);

#endif
