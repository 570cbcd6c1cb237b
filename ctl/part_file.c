/* SPDX-License-Identifier: MIT
 * part_file.c - files of the caller's, made beside their path and moved there when they are whole.
 * Threads: one. Locks: none. */
#include "ctl/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int part_file_open(const char *path, struct buf *ret_part, struct buf *why)
{
	struct stat st;
	int fd, e;

	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return buf_why(why, -EEXIST, "%s: exists and is no regular file", path);
	buf_clear(ret_part);
	buf_printf(ret_part, "%s.part.%ld", path, (long)getpid());
	fd = open(buf_str(ret_part), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	e = errno;
	return buf_why(why, -e, "%s: %s", path, strerror(e));
}
