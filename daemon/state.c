/* SPDX-License-Identifier: MIT
 * state.c - the state directory: what outlives a restart, the copies of plugins, and how the last run ended.
 * Threads: control opens and closes; state_write() and state_plugins() also on ops. Locks: none. */
#include "daemon/state.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_MARKER "running"
#define STATE_MAX_UNCLEAN 1000 /* counted no further */
#define STATE_MAX_FILE ((size_t)1 << 20)

struct state {
	char *dir, *plugins;
	int fd;                    /* of dir */
	int marker;                /* held under flock() while this daemon lives */
	int unclean;               /* ends in a row */
};

static int state_why(struct buf *why, const char *dir, const char *name)
{
	int e = errno;

	return buf_why(why, -e, "%s%s%s: %s", dir, *name ? "/" : "", name, strerror(e));
}

/* ---- making it ---- */

/* What an earlier run that was killed has left mapped nowhere any more. */
static int state_empty_plugins(struct state *s, struct buf *why)
{
	int fd = openat(s->fd, "plugins", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir || fchmod(fd, 0700)) {
		int r = state_why(why, s->dir, "plugins");

		if (dir)
			closedir(dir);
		else if (fd >= 0)
			close(fd);
		return r;
	}
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			unlinkat(fd, e->d_name, 0);
	closedir(dir);
	return 0;
}

/* In place, as the marker is what is locked. The pid is for people who look. */
static int state_mark_write(const struct state *s, int unclean, struct buf *why)
{
	char text[40];

	snprintf(text, sizeof text, "%d %d\n", (int)getpid(), unclean);
	if (ftruncate(s->marker, 0) || pwrite(s->marker, text, strlen(text), 0) < 0)
		return state_why(why, s->dir, STATE_MARKER);
	return 0;
}

/* What the marker's run had before it, and its own end. One that cannot be read had none. */
static int state_mark_read(const struct state *s)
{
	char text[40] = "";
	int pid, unclean;
	ssize_t n = pread(s->marker, text, sizeof text - 1, 0);

	if (n <= 0 || sscanf(text, "%d %d", &pid, &unclean) != 2 || unclean < 0 || unclean > STATE_MAX_UNCLEAN)
		return 1;
	return unclean < STATE_MAX_UNCLEAN ? unclean + 1 : unclean;
}

static int state_mark(struct state *s, struct buf *why)
{
	bool found;

	s->marker = openat(s->fd, STATE_MARKER, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	found = s->marker < 0 && errno == EEXIST;
	if (found)
		s->marker = openat(s->fd, STATE_MARKER, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (s->marker < 0)
		return state_why(why, s->dir, STATE_MARKER);
	if (flock(s->marker, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? buf_why(why, -EBUSY, "%s: another dsv4d runs on it", s->dir) :
		       state_why(why, s->dir, STATE_MARKER);
	s->unclean = found ? state_mark_read(s) : 0;
	return state_mark_write(s, s->unclean, why);
}

int state_open(const char *dir, struct state **ret_s, struct buf *why)
{
	struct state *s = mem_new(sizeof *s);
	struct buf plugins = { 0 };
	int r = 0;

	buf_printf(&plugins, "%s/plugins", dir);
	*s = (struct state){ .dir = mem_strdup(dir), .plugins = buf_take(&plugins), .marker = -1 };
	if (mkdir(dir, 0755) && errno != EEXIST)
		r = state_why(why, dir, "");
	s->fd = r ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!r && s->fd < 0)
		r = state_why(why, dir, "");
	r = r ? r : state_mark(s, why);
	if (!r && mkdirat(s->fd, "plugins", 0700) && errno != EEXIST)
		r = state_why(why, dir, "plugins");
	r = r ? r : state_empty_plugins(s, why);
	if (r)
		state_close(&s, false);
	else
		*ret_s = s;
	return r;
}

void state_close(struct state **sp, bool clean)
{
	struct state *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	if (clean)
		unlinkat(s->fd, STATE_MARKER, 0);
	if (s->marker >= 0)
		close(s->marker);
	if (s->fd >= 0)
		close(s->fd);
	free(s->dir);
	free(s->plugins);
	free(s);
}

int state_unclean(const struct state *s)
{
	return s ? s->unclean : 0;
}

int state_proven(const struct state *s, struct buf *why)
{
	return s ? state_mark_write(s, 0, why) : 0;
}

const char *state_plugins(const struct state *s)
{
	return s ? s->plugins : "";
}

/* ---- files ---- */

static int state_write_temp(const struct state *s, const char *temp, const char *bytes, size_t len)
{
	int fd = openat(s->fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), r = 0;

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len && !r;) {
		ssize_t n = write(fd, bytes + at, len - at);

		if (n < 0 && errno != EINTR)
			r = -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	if (!r && fsync(fd))
		r = -errno;
	close(fd);
	return r;
}

int state_write(const struct state *s, const char *name, const char *bytes, size_t len, struct buf *why)
{
	struct buf temp = { 0 };
	int r;

	if (!s)
		return buf_why(why, -ENOENT, "there is no usable state directory");
	buf_printf(&temp, "%s.new", name);
	r = state_write_temp(s, buf_str(&temp), bytes, len);
	if (!r && renameat(s->fd, buf_str(&temp), s->fd, name))
		r = -errno;
	if (!r && fsync(s->fd))
		r = -errno;
	if (r)
		buf_why(why, r, "%s/%s: %s", s->dir, name, strerror(-r));
	buf_fini(&temp);
	return r;
}

int state_read(const struct state *s, const char *name, struct buf *ret, struct buf *why)
{
	struct buf path = { 0 };
	int r;

	if (!s)
		return buf_why(why, -ENOENT, "there is no usable state directory");
	buf_printf(&path, "%s/%s", s->dir, name);
	r = mapfile_slurp(buf_str(&path), STATE_MAX_FILE, ret, why);
	buf_fini(&path);
	return r;
}

int state_set_aside(const struct state *s, const char *name, struct buf *why)
{
	struct buf aside = { 0 };
	int r;

	buf_printf(&aside, "%s.bad", name);
	r = renameat(s->fd, name, s->fd, buf_str(&aside)) ? state_why(why, s->dir, name) : 0;
	buf_fini(&aside);
	return r;
}
