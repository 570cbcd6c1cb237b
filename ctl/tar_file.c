/* SPDX-License-Identifier: MIT
 * tar_file.c - writes a .tar.gz of texts, for the caller's eyes only (mode 0600), whole or not at all.
 * Threads: one. Locks: none. */
#include "ctl/tar_file.h"
#include "ctl/part_file.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define TAR_FILE_BLOCK 512

/* POSIX ustar; numbers are octal text. */
struct tar_file_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};

struct tar_file {
	char *path, *top;
	struct buf part;  /* its name until it is whole */
	gzFile gz;
	bool failed;
	long long time;
};

int tar_file_new(const char *path, const char *top, struct tar_file **ret_t, struct buf *why)
{
	struct tar_file *t = mem_new(sizeof *t);
	int fd = part_file_open(path, &t->part, why);

	t->gz = fd < 0 ? NULL : gzdopen(fd, "wb");
	if (!t->gz) {
		int rc = fd < 0 ? fd : buf_why(why, -ENOMEM, "%s: %s", path, strerror(ENOMEM));

		if (fd >= 0) {
			close(fd);
			unlink(buf_str(&t->part));
		}
		buf_fini(&t->part);
		free(t);
		return rc;
	}
	t->path = mem_strdup(path);
	t->top = mem_strdup(top);
	t->time = (long long)time(NULL);
	*ret_t = t;
	return 0;
}

static void tar_file_write(struct tar_file *t, const void *data, size_t len)
{
	t->failed |= len && gzwrite(t->gz, data, (unsigned)len) != (int)len;
}

void tar_file_add(struct tar_file *t, const char *name, const char *data, size_t len)
{
	static const char zero[TAR_FILE_BLOCK];
	struct tar_file_head h = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	unsigned sum = 0;

	must(sizeof h == TAR_FILE_BLOCK && strlen(name) <= 80 && len < (size_t)1 << 31);
	snprintf(h.name, sizeof h.name, "%.18s/%s", t->top, name);
	snprintf(h.mode, sizeof h.mode, "%07o", 0600);
	snprintf(h.uid, sizeof h.uid, "%07o", 0);
	snprintf(h.gid, sizeof h.gid, "%07o", 0);
	snprintf(h.size, sizeof h.size, "%011llo", (unsigned long long)len);
	snprintf(h.mtime, sizeof h.mtime, "%011llo", (unsigned long long)t->time);
	memset(h.sum, ' ', sizeof h.sum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof h.sum, "%06o", sum);
	tar_file_write(t, &h, sizeof h);
	tar_file_write(t, data, len);
	tar_file_write(t, zero, (TAR_FILE_BLOCK - len % TAR_FILE_BLOCK) % TAR_FILE_BLOCK);
}

int tar_file_end(struct tar_file **tp, struct buf *why)
{
	static const char zero[2 * TAR_FILE_BLOCK];
	struct tar_file *t = *tp;
	int rc = 0;

	*tp = NULL;
	if (!t)
		return 0;
	tar_file_write(t, zero, sizeof zero);
	errno = 0;
	if (gzclose(t->gz) != Z_OK || t->failed)
		rc = errno ? -errno : -EIO;
	if (!rc && rename(buf_str(&t->part), t->path) < 0)
		rc = -errno;
	if (rc) {
		unlink(buf_str(&t->part));
		buf_why(why, rc, "%s: %s", t->path, strerror(-rc));
	}
	buf_fini(&t->part);
	free(t->path);
	free(t->top);
	free(t);
	return rc;
}
