/* SPDX-License-Identifier: MIT
 * listen.c - the listening Unix socket: made with the right owner and mode, stale files replaced, live ones not.
 * Threads: control. Locks: none (a lock file beside the socket). */
#include "daemon/control/listen.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_BACKLOG 64

static int listen_why(struct buf *why, const char *what, const char *path)
{
	int e = errno;

	return buf_why(why, -e, "%s: %s: %s", path, what, strerror(e));
}

/* Two daemons that start at the same moment must not both find the other's socket stale. */
static int listen_lock(struct listen *l, struct buf *why)
{
	struct buf name = { 0 };
	int r = 0;

	buf_printf(&name, "%s.lock", l->path);
	l->lock_fd = open(buf_str(&name), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->lock_fd < 0)
		r = listen_why(why, "cannot open", buf_str(&name));
	else if (flock(l->lock_fd, LOCK_EX | LOCK_NB) < 0)
		r = errno == EWOULDBLOCK ? buf_why(why, -EADDRINUSE, "%s: another dsv4d listens here",
						   l->path)
					 : listen_why(why, "cannot lock", buf_str(&name));
	buf_fini(&name);
	return r;
}

/* Removes what a killed process left: only a socket, and only if nobody answers. */
static int listen_unstale(const struct listen *l, const struct sockaddr_un *a, struct buf *why)
{
	struct stat st;
	int fd, r;

	if (lstat(l->path, &st) < 0)
		return errno == ENOENT ? 0 : listen_why(why, "cannot look at", l->path);
	if (!S_ISSOCK(st.st_mode))
		return buf_why(why, -EEXIST, "%s: exists and is no socket", l->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listen_why(why, "socket", l->path);
	r = connect(fd, (const struct sockaddr *)a, sizeof *a) < 0 ? errno : 0;
	close(fd);
	if (r != ECONNREFUSED && r != ENOENT)
		return buf_why(why, -EADDRINUSE, "%s: another process listens here", l->path);
	if (unlink(l->path) < 0 && errno != ENOENT)
		return listen_why(why, "cannot remove the stale socket", l->path);
	return 0;
}

/* The last directory is made when it is missing: /run/dsv4d is gone after a boot. */
static void listen_mkdir(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir;

	if (!slash || slash == path)
		return;
	dir = mem_strndup(path, (size_t)(slash - path));
	mkdir(dir, 0755); /* what is wrong with it, open(2) of the lock file says better */
	free(dir);
}

static int listen_bind(struct listen *l, const struct sockaddr_un *a, mode_t mode, gid_t gid, struct buf *why)
{
	mode_t old = umask(0777); /* nobody may connect before owner and mode are right */
	struct stat st;
	int r = bind(l->fd, (const struct sockaddr *)a, sizeof *a);

	umask(old);
	if (r < 0)
		return listen_why(why, "cannot bind", l->path);
	if (lstat(l->path, &st) < 0)
		return listen_why(why, "cannot look at", l->path);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	if (gid != (gid_t)-1 && lchown(l->path, (uid_t)-1, gid) < 0 && errno != EPERM)
		return listen_why(why, "cannot set the group", l->path);
	if (chmod(l->path, mode) < 0)
		return listen_why(why, "cannot set the mode", l->path);
	return listen(l->fd, LISTEN_BACKLOG) < 0 ? listen_why(why, "cannot listen", l->path) : 0;
}

int listen_open(struct listen *l, const char *path, mode_t mode, gid_t gid, struct buf *why)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int r;

	*l = (struct listen){ .fd = -1, .lock_fd = -1 };
	if (strlen(path) >= sizeof a.sun_path)
		return buf_why(why, -ENAMETOOLONG,
			       "%s: socket paths have at most %zu bytes, this one has %zu", path,
			       sizeof a.sun_path - 1, strlen(path));
	strcpy(a.sun_path, path);
	l->path = mem_strdup(path);
	listen_mkdir(path);
	r = listen_lock(l, why);
	r = r ? r : listen_unstale(l, &a, why);
	if (!r) {
		l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = l->fd < 0 ? listen_why(why, "socket", path) : listen_bind(l, &a, mode, gid, why);
	}
	if (r)
		listen_close(l);
	return r;
}

void listen_given(struct listen *l, int fd, const char *path)
{
	*l = (struct listen){ .fd = fd, .lock_fd = -1, .path = mem_strdup(path) };
}

void listen_close(struct listen *l)
{
	struct stat st;

	if (!l->path)
		return;
	if (l->ino && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	if (l->fd >= 0)
		close(l->fd);
	if (l->lock_fd >= 0)
		close(l->lock_fd);
	free(l->path);
	*l = (struct listen){ .fd = -1, .lock_fd = -1 };
}
