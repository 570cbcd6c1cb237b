/* SPDX-License-Identifier: MIT
 * plugin_file.c - a plugin's file: policy, bytes, facts; read without running any of it.
 * Threads: any. Locks: none (an atomic counter numbers the copies). */
#include "engine/plugin/plugin_file.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/plugin/plugin_elf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- policy: what only root or we can have written ---- */

static int plugin_file_trusted(const struct stat *st, const char *path, uid_t self, struct buf *why)
{
	if (st->st_uid != 0 && st->st_uid != self)
		return plugin_refuse(why, PLUGIN_REFUSED_foreign, "%s belongs to uid %u", path, (unsigned)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return plugin_refuse(why, PLUGIN_REFUSED_writable, "%s has mode %04o", path, st->st_mode & 07777u);
	return 0;
}

static int plugin_file_errno(struct buf *why, const char *path)
{
	int e = errno;

	return buf_why(why, e == ENOENT ? RC_NOT_FOUND : -e, "%s: %s", path, strerror(e));
}

static int plugin_file_dir_check(int fd, const char *path, uid_t self, struct buf *why)
{
	struct stat st;

	return fstat(fd, &st) ? plugin_file_errno(why, path) : plugin_file_trusted(&st, path, self, why);
}

/* ---- the walk ---- */

/* What of `name` lies below dir: a relative one as it is, an absolute one without dir (as given, or resolved). */
static const char *plugin_file_below(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *real;

	if (*name != '/')
		return name;
	while (n > 1 && dir[n - 1] == '/')
		n--;
	if (!strncmp(name, dir, n) && name[n] == '/')
		return name + n;
	real = realpath(dir, NULL);
	n = real ? strlen(real) : 0;
	name = n && !strncmp(name, real, n) && name[n] == '/' ? name + n : NULL;
	free(real);
	return name;
}

/* Opens one component below fd. One at a time and without following links, so that each directory that leads to the
 * file is judged, and none is looked up twice. */
static int plugin_file_step(int fd, const char *path, const char *part, bool last, struct buf *why)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (last ? 0 : O_DIRECTORY);
	int next = openat(fd, part, flags), e = errno;
	struct stat st;

	if (next >= 0)
		return next;
	/* O_DIRECTORY | O_NOFOLLOW says ENOTDIR of a link. */
	if ((e == ELOOP || e == ENOTDIR) && !fstatat(fd, part, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
		return plugin_refuse(why, PLUGIN_REFUSED_outside, "%s is a symbolic link", path);
	errno = e;
	return plugin_file_errno(why, path);
}

/* Copies the next component of *p and moves behind it and its slashes. */
static int plugin_file_part(const char **p, char part[NAME_MAX + 1], const char *path, struct buf *why)
{
	size_t n;

	*p += strspn(*p, "/");
	n = strcspn(*p, "/");
	if (n > NAME_MAX)
		return buf_why(why, -ENAMETOOLONG, "%.96s: %s", *p, strerror(ENAMETOOLONG));
	if (n == 2 && !memcmp(*p, "..", 2))
		return plugin_refuse(why, PLUGIN_REFUSED_outside, "%s/..: a name leads down only", path);
	memcpy(part, *p, n);
	part[n] = '\0';
	*p += n;
	*p += strspn(*p, "/");
	return 0;
}

/* Judges the directory fd, which is closed, and opens the next component of *p in it. */
static int plugin_file_descend(int fd, struct buf *path, const char **p, uid_t self, struct buf *why)
{
	char part[NAME_MAX + 1];
	int rc = plugin_file_dir_check(fd, buf_str(path), self, why);

	rc = rc ? rc : plugin_file_part(p, part, buf_str(path), why);
	if (!rc) {
		buf_printf(path, "/%s", part);
		rc = plugin_file_step(fd, buf_str(path), part, !**p, why);
	}
	close(fd);
	return rc;
}

int plugin_file_walk(const char *dir, const char *name, uid_t self, char **ret_path, struct buf *why)
{
	const char *below = plugin_file_below(dir, name);
	struct buf path = { 0 };
	int fd;

	*ret_path = NULL;
	if (!below)
		return plugin_refuse(why, PLUGIN_REFUSED_outside, "%.96s is not below %s", name, dir);
	buf_adds(&path, dir);
	fd = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	if (fd < 0)
		fd = plugin_file_errno(why, dir);
	while (fd >= 0 && *below)
		fd = plugin_file_descend(fd, &path, &below, self, why);
	*ret_path = buf_take(&path);
	return fd;
}

/* ---- the bytes ---- */

static int plugin_file_changed(const struct stat *a, const struct stat *b, const char *path, struct buf *why)
{
	if (a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	    a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	    a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec)
		return 0;
	return plugin_refuse(why, PLUGIN_REFUSED_changed, "%s changed while it was read", path);
}

/* Fills pf->bytes. A file that is shorter than it said has changed. */
static int plugin_file_fill(int fd, struct plugin_file *pf, struct buf *why)
{
	size_t have = 0;

	pf->bytes = mem_try(pf->size, 1);
	if (!pf->bytes)
		return -ENOMEM;
	while (have < pf->size) {
		ssize_t n = pread(fd, pf->bytes + have, pf->size - have, (off_t)have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return plugin_file_errno(why, pf->path);
		if (n == 0)
			return plugin_refuse(why, PLUGIN_REFUSED_changed, "%s became shorter while it was read",
					     pf->path);
		have += (size_t)n;
	}
	return 0;
}

/* Header and facts, and which file the complaint is about. */
static int plugin_file_judge(struct plugin_file *pf, struct buf *why)
{
	struct buf text = { 0 };
	size_t loaded = 0;
	int rc = plugin_elf_check(pf->bytes, pf->size, &loaded, &text);

	/* Only what will be mapped: debug information may quote the markers. */
	rc = rc ? rc : plugin_facts_read(&pf->facts, pf->bytes, loaded, &text);
	if (rc)
		buf_why(why, rc, "%s (%s)", buf_str(&text), pf->path);
	buf_fini(&text);
	return rc;
}

int plugin_file_read(int fd, const struct stat *before, uid_t self, struct plugin_file *pf, struct buf *why)
{
	struct stat after;
	int rc;

	if (!S_ISREG(before->st_mode))
		return plugin_refuse(why, PLUGIN_REFUSED_not_file, "%s is no regular file", pf->path);
	rc = plugin_file_trusted(before, pf->path, self, why);
	if (rc)
		return rc;
	if (before->st_size < 1 || (uintmax_t)before->st_size > PLUGIN_FILE_MAX)
		return plugin_refuse(why, PLUGIN_REFUSED_not_file, "%s has %lld bytes", pf->path,
				     (long long)before->st_size);
	pf->size = (size_t)before->st_size;
	rc = plugin_file_fill(fd, pf, why);
	if (!rc)
		rc = fstat(fd, &after) ? plugin_file_errno(why, pf->path) :
					 plugin_file_changed(before, &after, pf->path, why);
	rc = rc ? rc : plugin_file_judge(pf, why);
	if (!rc)
		sha256_hex(pf->sha256, pf->bytes, pf->size);
	return rc;
}

int plugin_file_open(const char *dir, const char *name, uid_t self, struct plugin_file **ret_pf, struct buf *why)
{
	struct plugin_file *pf = mem_new(sizeof *pf);
	struct stat before;
	int fd = plugin_file_walk(dir, name, self, &pf->path, why), rc = fd;

	if (fd >= 0) {
		rc = fstat(fd, &before) ? plugin_file_errno(why, pf->path) :
					  plugin_file_read(fd, &before, self, pf, why);
		close(fd);
	}
	if (rc)
		plugin_file_free(&pf);
	else
		*ret_pf = pf;
	return rc;
}

void plugin_file_free(struct plugin_file **pf)
{
	if (!*pf)
		return;
	free((*pf)->path);
	free((*pf)->bytes);
	free(*pf);
	*pf = NULL;
}

/* ---- the copy ---- */

static int plugin_file_write(int fd, const struct plugin_file *pf, const char *path, struct buf *why)
{
	for (size_t done = 0; done < pf->size;) {
		ssize_t n = write(fd, pf->bytes + done, pf->size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return plugin_file_errno(why, path);
		done += (size_t)n;
	}
	return 0;
}

/* Creates a file by a name that nothing has: numbers rise, and a file left by an earlier process of this PID is
 * passed over. */
static int plugin_file_create(int dir, const char *to_dir, const char *name, char **ret_path, struct buf *why)
{
	static atomic_uint count;
	struct buf path = { 0 };
	int fd;

	do {
		buf_clear(&path);
		buf_printf(&path, "%s/%s.%d.%u.so", to_dir, name, (int)getpid(), atomic_fetch_add(&count, 1));
		fd = openat(dir, strrchr(path.data, '/') + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		fd = plugin_file_errno(why, path.data);
	*ret_path = buf_take(&path);
	return fd;
}

int plugin_file_copy(const struct plugin_file *pf, const char *to_dir, char **ret_path, struct buf *why)
{
	int dir = open(to_dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY), fd, rc;
	char *path = NULL;

	if (dir < 0)
		return plugin_file_errno(why, to_dir);
	rc = plugin_file_dir_check(dir, to_dir, geteuid(), why);
	fd = rc ? rc : plugin_file_create(dir, to_dir, pf->facts.name, &path, why);
	close(dir);
	if (fd >= 0) {
		/* open() took the umask off the mode. */
		rc = fchmod(fd, 0500) ? plugin_file_errno(why, path) : plugin_file_write(fd, pf, path, why);
		if (close(fd) && !rc)
			rc = plugin_file_errno(why, path);
		if (rc)
			unlink(path);
	}
	if (fd < 0 || rc) {
		free(path);
		return rc ? rc : fd;
	}
	*ret_path = path;
	return 0;
}
