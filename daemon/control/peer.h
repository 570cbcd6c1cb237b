/* SPDX-License-Identifier: MIT
 * peer.h - who is at the other end of the control socket, and what that allows.
 * Threads: control. Locks: none. */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include "ctl/verb.h"

#include <sys/types.h>

struct peer {
	uid_t uid;
	pid_t pid;
	enum verb_level level;
};

/* The groups that operate and administer, looked up once; (gid_t)-1 where a group does not exist. */
struct peer_groups {
	gid_t operate, admin;
};
void peer_groups(struct peer_groups *ret_g, const char *operate, const char *admin);

/* Root and the daemon's own user administer; members of the groups by group; all others that could connect
 * only monitor. -errno. */
int peer_identify(int fd, const struct peer_groups *g, struct peer *ret_p);

#endif
