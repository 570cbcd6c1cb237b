/* SPDX-License-Identifier: MIT
 * cache_aside.c - what lies in the cache's directory and is none of its files: moved out of the way, never deleted.
 * Threads: any. Locks: none. */
#include "engine/cache/cache_aside.h"
#include "engine/base/mem.h"
#include "engine/cache/cache_disk_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_ASIDE_MAX 64
#define CACHE_ASIDE_BYTES (1LL << 30)
#define CACHE_ASIDE_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define CACHE_ASIDE_TAG "CACHEDIR.TAG"

/* The first line is what https://bford.info/cachedir/ asks for, the second what makes it ours. */
static const char cache_aside_tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
				      "# Cached blocks of dsv4d; other files here are moved to aside/.\n";

/* What a directory of the cache has besides cached files, and what file systems put there. */
static const char *const cache_aside_known[] = { ".", "..", "bad", "aside", CACHE_ASIDE_TAG, "lost+found" };

bool cache_aside_strange(int dir, const char *name)
{
	struct cache_disk_name n;
	struct stat st;
	bool tmp;

	for (size_t i = 0; i < sizeof cache_aside_known / sizeof *cache_aside_known; i++)
		if (strcmp(name, cache_aside_known[i]) == 0)
			return false;
	if (strncmp(name, ".nfs", 4) == 0) /* a file that is gone, but open somewhere */
		return false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return !cache_disk_name_parse(name, &n, &tmp) || !S_ISREG(st.st_mode);
}

/* ---- names ---- */

/* fn for every name, until it says false. False: it did, or the directory cannot be read. */
static bool cache_aside_each(int fd, bool (*fn)(void *arg, int fd, const char *name), void *arg)
{
	int own = openat(fd, ".", CACHE_ASIDE_OPEN);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	struct dirent *e = NULL;
	bool go = dir != NULL;

	if (!dir && own >= 0)
		close(own);
	while (go && (e = readdir(dir)))
		go = fn(arg, fd, e->d_name);
	if (dir)
		closedir(dir);
	return go;
}

static bool cache_aside_count(void *arg, int fd, const char *name)
{
	struct cache_aside *a = arg;
	struct stat st;

	if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	atomic_fetch_add(&a->n, 1);
	atomic_fetch_add(&a->bytes, (long long)st.st_size);
	return true;
}

/* As many as could be moved at most; those behind are moved another time. */
struct cache_aside_names { char *name[CACHE_ASIDE_MAX]; int n; long long more; };

/* Moved later: moving a file while names are read may show it twice. */
static bool cache_aside_note(void *arg, int fd, const char *name)
{
	struct cache_aside_names *l = arg;

	if (!cache_aside_strange(fd, name))
		return true;
	if (l->n < CACHE_ASIDE_MAX)
		l->name[l->n++] = mem_strdup(name);
	else
		l->more++;
	return true;
}

void cache_aside_sweep(struct cache_aside *a)
{
	struct cache_aside_names l = { .n = 0 };

	cache_aside_each(a->dir, cache_aside_note, &l);
	for (int i = 0; i < l.n; i++) {
		(void)cache_aside_move(a, l.name[i]);
		free(l.name[i]);
	}
	atomic_fetch_add(&a->stays, l.more);
}

/* ---- whose directory ---- */

static bool cache_aside_tagged(int dir)
{
	char text[sizeof cache_aside_tag];
	int fd = openat(dir, CACHE_ASIDE_TAG, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)sizeof cache_aside_tag - 1 && memcmp(text, cache_aside_tag, (size_t)n) == 0;
}

static bool cache_aside_usual(void *arg, int fd, const char *name)
{
	(void)arg;
	return !cache_aside_strange(fd, name);
}

/* One that is there already is somebody's, and stays. */
static void cache_aside_put_tag(int dir)
{
	int fd = openat(dir, CACHE_ASIDE_TAG, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (write(fd, cache_aside_tag, sizeof cache_aside_tag - 1) != (ssize_t)sizeof cache_aside_tag - 1)
		unlinkat(dir, CACHE_ASIDE_TAG, 0);
	close(fd);
}

/* ---- life ---- */

void cache_aside_open(struct cache_aside *a, int dir)
{
	a->dir = dir;
	a->fd = -1;
	if (!cache_aside_tagged(dir)) {
		if (!cache_aside_each(dir, cache_aside_usual, NULL))
			return;
		cache_aside_put_tag(dir);
	}
	if (mkdirat(dir, "aside", S_IRWXU) == 0 || errno == EEXIST)
		a->fd = openat(dir, "aside", CACHE_ASIDE_OPEN);
	if (a->fd >= 0)
		cache_aside_each(a->fd, cache_aside_count, a);
}

void cache_aside_close(struct cache_aside *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

/* ---- moving ---- */

/* A name that is free in aside/: the own one, or with a number after it. */
static bool cache_aside_free(const struct cache_aside *a, const char *name, char out[NAME_MAX + 1])
{
	struct stat st;

	snprintf(out, NAME_MAX + 1, "%s", name);
	for (int i = 1; i <= CACHE_ASIDE_MAX; i++) {
		if (fstatat(a->fd, out, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT;
		snprintf(out, NAME_MAX + 1, "%.*s.%d", NAME_MAX - 12, name, i); /* any int fits */
	}
	return false;
}

static void cache_aside_give_room(struct cache_aside *a, long long bytes)
{
	atomic_fetch_sub(&a->n, 1);
	atomic_fetch_sub(&a->bytes, bytes);
}

/* Counted before it is moved, so that two at once are never one too many. */
static bool cache_aside_take_room(struct cache_aside *a, long long bytes)
{
	long long n = atomic_fetch_add(&a->n, 1) + 1, sum = atomic_fetch_add(&a->bytes, bytes) + bytes;

	if (n <= CACHE_ASIDE_MAX && sum <= CACHE_ASIDE_BYTES)
		return true;
	cache_aside_give_room(a, bytes);
	return false;
}

static int cache_aside_try(struct cache_aside *a, const char *name)
{
	char to[NAME_MAX + 1];
	struct stat st;
	int rc;

	if (a->fd < 0)
		return -EROFS;
	if (fstatat(a->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!cache_aside_free(a, name, to) || !cache_aside_take_room(a, (long long)st.st_size))
		return -ENOSPC;
	if (renameat(a->dir, name, a->fd, to) == 0)
		return 0;
	rc = -errno;
	cache_aside_give_room(a, (long long)st.st_size);
	return rc;
}

int cache_aside_move(struct cache_aside *a, const char *name)
{
	int rc = cache_aside_try(a, name);

	atomic_fetch_add(rc ? &a->stays : &a->moved, 1);
	return rc;
}
