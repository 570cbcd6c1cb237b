/* SPDX-License-Identifier: MIT
 * probe_peer.h - this daemon as the chat server that a probe talks to, without a socket.
 * Threads: ops. Locks: none. */
#ifndef DAEMON_PROBE_PEER_H
#define DAEMON_PROBE_PEER_H

#include "ctl/probe.h"
#include "engine/engine.h"

/* Fills `chat`, `arg`, `model` and `context`; `progress` stays the caller's. The requests carry no label of their
 * own: their ids stand in the result. */
void probe_peer_init(struct probe_peer *ret_p, struct engine *e);

#endif
