/* SPDX-License-Identifier: MIT
 * cache_dir.c - the directory of cached files: whole files in and out, under names that are always whole files.
 * Threads: any, writing one at a time per struct, the rest any. Locks: none. */
#include "engine/cache/cache_dir.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_DIR_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define CACHE_DIR_SECOND 1000000000LL

/* ---- opening ---- */

static int cache_dir_check(struct cache_dir *d, const char *path, struct buf *why)
{
	struct stat st;

	if (fstat(d->fd, &st) < 0)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	/* Whoever may write there could make an answer continue from anything. */
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return buf_why(why, -EPERM, "%s may be written by others", path);
	if (flock(d->fd, LOCK_EX | LOCK_NB) < 0)
		return buf_why(why, errno == EWOULDBLOCK ? -EBUSY : -errno, "%s: %s", path,
			errno == EWOULDBLOCK ? "another process has it" : strerror(errno));
	return 0;
}

int cache_dir_open(struct cache_dir *d, const char *path, struct buf *why)
{
	int rc;

	d->bad_fd = d->aside.fd = -1;
	/* The last component may be a link that the operator made; what it leads to is checked. */
	if ((mkdir(path, S_IRWXU) < 0 && errno != EEXIST) ||
	    (d->fd = open(path, CACHE_DIR_OPEN & ~O_NOFOLLOW)) < 0)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if ((rc = cache_dir_check(d, path, why)) < 0) {
		cache_dir_close(d);
		return rc;
	}
	/* Without bad/ there is no moving files there, each of which is then an error of its own. */
	if (mkdirat(d->fd, "bad", S_IRWXU) == 0 || errno == EEXIST)
		d->bad_fd = openat(d->fd, "bad", CACHE_DIR_OPEN);
	cache_aside_open(&d->aside, d->fd);
	return 0;
}

void cache_dir_close(struct cache_dir *d)
{
	cache_aside_close(&d->aside);
	if (d->bad_fd >= 0)
		close(d->bad_fd);
	if (d->fd >= 0) {
		flock(d->fd, LOCK_UN); /* a child that was forked meanwhile shares it */
		close(d->fd);
	}
	d->fd = d->bad_fd = -1;
}

/* ---- looking ---- */

static void cache_dir_scan_name(int fd, bool bad, const char *text, cache_dir_scan_f *fn, void *arg)
{
	struct cache_disk_name n;
	struct stat st;
	bool tmp;

	if (!cache_disk_name_parse(text, &n, &tmp) || fstatat(fd, text, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	if (!tmp)
		fn(arg, &n, bad, (uint64_t)st.st_size, st.st_mtim.tv_sec * CACHE_DIR_SECOND + st.st_mtim.tv_nsec);
	else
		unlinkat(fd, text, 0);
}

static int cache_dir_scan_one(int fd, bool bad, cache_dir_scan_f *fn, void *arg)
{
	int own = openat(fd, ".", CACHE_DIR_OPEN);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	int rc;

	if (!dir) {
		rc = -errno;
		if (own >= 0)
			close(own);
		return rc;
	}
	for (;;) {
		struct dirent *e;

		errno = 0;
		if (!(e = readdir(dir)))
			break;
		cache_dir_scan_name(fd, bad, e->d_name, fn, arg);
	}
	rc = -errno;
	closedir(dir);
	return rc;
}

int cache_dir_scan(struct cache_dir *d, cache_dir_scan_f *fn, void *arg, struct buf *why)
{
	int rc = cache_dir_scan_one(d->fd, false, fn, arg);

	if (rc == 0 && d->bad_fd >= 0)
		rc = cache_dir_scan_one(d->bad_fd, true, fn, arg);
	cache_aside_sweep(&d->aside);
	return rc < 0 ? buf_why(why, rc, "names of the cached files: %s", strerror(-rc)) : 0;
}

/* ---- reading ---- */

/* Is it for want of something of this process's that a file could not be read? Then the file is not bad. */
static bool cache_dir_want(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == EACCES || err == EPERM;
}

static int cache_dir_cannot(int err, struct buf *why)
{
	if (err == ELOOP || err == ENXIO) /* a link; a FIFO or socket that nobody has open */
		return buf_why(why, RC_UNSUPPORTED, "no regular file");
	return buf_why(why, err == ENOENT || cache_dir_want(err) ? -err : RC_INVALID, "reading: %s", strerror(err));
}

/* At most n bytes: fewer where the file ends before. */
static ssize_t cache_dir_read_all(int fd, uint8_t *bytes, size_t n)
{
	size_t at = 0;
	ssize_t got = 1;

	while (at < n && got) {
		got = read(fd, bytes + at, n - at);
		if (got < 0 && errno != EINTR)
			return -errno;
		at += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)at;
}

static int cache_dir_read_fd(int fd, size_t max, size_t head, uint8_t **ret_bytes, size_t *ret_size, struct buf *why)
{
	struct stat st;
	size_t n;
	ssize_t got;

	if (fstat(fd, &st) < 0)
		return cache_dir_cannot(errno, why);
	if (!S_ISREG(st.st_mode))
		return buf_why(why, RC_UNSUPPORTED, "no regular file");
	n = (uint64_t)st.st_size > max ? head : (size_t)st.st_size;
	if (!(*ret_bytes = mem_try(n ? n : 1, 1)))
		return buf_why(why, -ENOMEM, "no memory for %zu bytes", n);
	if ((got = cache_dir_read_all(fd, *ret_bytes, n)) < 0)
		return cache_dir_cannot((int)-got, why);
	*ret_size = (size_t)got;
	return (uint64_t)st.st_size > max ? RC_TOO_LARGE : 0;
}

int cache_dir_read(struct cache_dir *d, const struct cache_disk_name *n, size_t max, size_t head, uint8_t **ret_bytes,
	size_t *ret_size, struct buf *why)
{
	char text[CACHE_DISK_NAME];
	uint8_t *bytes = NULL;
	int fd = openat(d->fd, cache_disk_name_print(n, text), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? cache_dir_cannot(errno, why) : cache_dir_read_fd(fd, max, head, &bytes, ret_size, why);

	if (fd >= 0)
		close(fd);
	if (rc < 0 && rc != RC_TOO_LARGE)
		free(bytes);
	else
		*ret_bytes = bytes;
	return rc;
}

/* ---- writing ---- */

static int cache_dir_write_all(int fd, const uint8_t *bytes, size_t n)
{
	while (n) {
		ssize_t put = write(fd, bytes, n);

		if (put < 0 && errno != EINTR)
			return -errno;
		bytes += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return 0;
}

static struct timespec cache_dir_time(int64_t stamp)
{
	return (struct timespec){ .tv_sec = stamp / CACHE_DIR_SECOND, .tv_nsec = stamp % CACHE_DIR_SECOND };
}

static int cache_dir_write_fd(int fd, const uint8_t *bytes, size_t size, int64_t stamp)
{
	struct timespec times[2] = { cache_dir_time(stamp), cache_dir_time(stamp) };
	int rc;

	/* A full disk says so before anything is written to it; a file system that cannot tell is asked by writing. */
	if (fallocate(fd, 0, 0, (off_t)size) < 0 && errno != EOPNOTSUPP && errno != EINTR)
		return -errno;
	if ((rc = cache_dir_write_all(fd, bytes, size)) < 0)
		return rc;
	return futimens(fd, times) < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* A link or a FIFO of that name is somebody's, and not replaced. */
static int cache_dir_name(struct cache_dir *d, const char *tmp, const char *name)
{
	struct stat st;

	if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		return -EEXIST;
	return renameat(d->fd, tmp, d->fd, name) < 0 ? -errno : 0;
}

int cache_dir_write(struct cache_dir *d, const struct cache_disk_name *n, const uint8_t *bytes, size_t size,
	int64_t stamp, struct buf *why)
{
	char name[CACHE_DISK_NAME], tmp[CACHE_DISK_NAME + sizeof CACHE_DISK_TMP];
	int fd, rc;

	snprintf(tmp, sizeof tmp, "%s%s", cache_disk_name_print(n, name), CACHE_DISK_TMP);
	fd = openat(d->fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
	if (fd < 0)
		return buf_why(why, -errno, "%s: %s", tmp, strerror(errno));
	rc = cache_dir_write_fd(fd, bytes, size, stamp);
	/* Some file systems say only now that there was no room. */
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0)
		rc = cache_dir_name(d, tmp, name);
	if (rc == 0)
		return 0;
	unlinkat(d->fd, tmp, 0);
	return buf_why(why, rc, "%s: %s", name, strerror(-rc));
}

int cache_dir_sync(struct cache_dir *d)
{
	return fsync(d->fd) < 0 ? -errno : 0;
}

/* ---- the rest ---- */

int cache_dir_set_aside(struct cache_dir *d, const struct cache_disk_name *n)
{
	char text[CACHE_DISK_NAME];

	return cache_aside_move(&d->aside, cache_disk_name_print(n, text));
}

int cache_dir_set_bad(struct cache_dir *d, const struct cache_disk_name *n)
{
	char text[CACHE_DISK_NAME];

	cache_disk_name_print(n, text);
	return d->bad_fd < 0 ? -EROFS : renameat(d->fd, text, d->bad_fd, text) < 0 ? -errno : 0;
}

int cache_dir_remove(struct cache_dir *d, const struct cache_disk_name *n, bool bad)
{
	char text[CACHE_DISK_NAME];

	if (unlinkat(bad ? d->bad_fd : d->fd, cache_disk_name_print(n, text), 0) == 0 || errno == ENOENT)
		return 0;
	return -errno;
}

void cache_dir_touch(struct cache_dir *d, const struct cache_disk_name *n, int64_t stamp)
{
	char text[CACHE_DISK_NAME];
	struct timespec times[2] = { cache_dir_time(stamp), cache_dir_time(stamp) };

	/* Only the order of a later deletion hangs on it. */
	(void)utimensat(d->fd, cache_disk_name_print(n, text), times, AT_SYMLINK_NOFOLLOW);
}
