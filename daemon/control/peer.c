/* SPDX-License-Identifier: MIT
 * peer.c - who is at the other end of the control socket, and what that allows.
 * Threads: control. Locks: none. */
#include "daemon/control/peer.h"

#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER_MAX_GROUPS 1024

static gid_t peer_gid(const char *name)
{
	const struct group *g = getgrnam(name);

	return g ? g->gr_gid : (gid_t)-1;
}

void peer_groups(struct peer_groups *ret_g, const char *operate, const char *admin)
{
	*ret_g = (struct peer_groups){ .operate = peer_gid(operate), .admin = peer_gid(admin) };
}

static bool peer_has(gid_t want, gid_t own, const gid_t *gid, size_t n)
{
	if (want == (gid_t)-1)
		return false;
	for (size_t i = 0; i < n; i++)
		if (gid[i] == want)
			return true;
	return own == want;
}

int peer_identify(int fd, const struct peer_groups *g, struct peer *ret_p)
{
	gid_t gid[PEER_MAX_GROUPS];
	struct ucred c;
	socklen_t len = sizeof c, glen = sizeof gid;
	size_t n = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0)
		return -errno;
	/* The groups at the time of connect(2), as the kernel knows them: no look-up that could block or
	 * lie. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, gid, &glen) == 0)
		n = glen / sizeof *gid;
	*ret_p = (struct peer){ .uid = c.uid, .pid = c.pid, .level = VERB_MONITOR };
	if (c.uid == 0 || c.uid == geteuid() || peer_has(g->admin, c.gid, gid, n))
		ret_p->level = VERB_ADMIN;
	else if (peer_has(g->operate, c.gid, gid, n))
		ret_p->level = VERB_OPERATE;
	return 0;
}
