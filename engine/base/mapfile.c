/* SPDX-License-Identifier: MIT
 * mapfile.c - read-only memory maps of whole files.
 * Threads: any. Locks: none. */
#include "engine/base/mapfile.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a regular file for reading and finds its size and time. */
static int mapfile_fd(const char *path, struct mapfile *ret_m, struct buf *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	struct stat st;

	if (fd < 0)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		rc = buf_why(why, -errno, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = buf_why(why, -EINVAL, "%s: not a regular file", path);
	else {
		ret_m->size = (size_t)st.st_size;
		ret_m->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
		return fd;
	}
	close(fd);
	return rc;
}

int mapfile_open(struct mapfile *m, const char *path, struct buf *why)
{
	struct mapfile f = { 0 };
	int fd = mapfile_fd(path, &f, why);
	void *p = NULL;

	if (fd < 0)
		return fd;
	if (f.size > 0)
		p = mmap(NULL, f.size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return buf_why(why, -errno, "%s: mmap of %zu bytes: %s", path, f.size, strerror(errno));
	f.data = p;
	*m = f;
	return 0;
}

void mapfile_close(struct mapfile *m)
{
	if (m->data)
		munmap((void *)m->data, m->size);
	*m = (struct mapfile){ 0 };
}

int mapfile_slurp(const char *path, size_t max, struct buf *b, struct buf *why)
{
	struct mapfile f = { 0 };
	int fd = mapfile_fd(path, &f, why), rc = 0;
	char chunk[65536];
	ssize_t n;

	if (fd < 0)
		return fd;
	buf_clear(b);
	while ((n = read(fd, chunk, sizeof chunk)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = buf_why(why, -errno, "%s: %s", path, strerror(errno));
			break;
		}
		if (b->len + (size_t)n > max) {
			rc = buf_why(why, RC_TOO_LARGE, "%s: larger than %zu bytes", path, max);
			break;
		}
		buf_add(b, chunk, (size_t)n);
	}
	close(fd);
	return rc;
}
