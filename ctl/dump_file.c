/* SPDX-License-Identifier: MIT
 * dump_file.c - writes what cache dump sends to a file of the caller's.
 * Threads: one. Locks: none. */
#include "ctl/dump_file.h"
#include "ctl/part_file.h"
#include "engine/base/base64.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct dump_file {
	char *path;
	struct buf part;  /* its name until it is whole */
	struct buf bytes; /* of one part */
	gzFile gz;
};

int dump_file_new(const char *path, bool gzip, struct dump_file **ret_f, struct buf *why)
{
	struct dump_file *f = mem_new(sizeof *f);
	/* What is cached are people's words: for the caller's eyes only. */
	int fd = part_file_open(path, &f->part, why);

	f->path = mem_strdup(path);
	f->gz = fd < 0 ? NULL : gzdopen(fd, gzip ? "wb" : "wbT");
	if (!f->gz) {
		int rc = fd < 0 ? fd : buf_why(why, -ENOMEM, "%s: %s", path, strerror(ENOMEM));

		if (fd >= 0) {
			close(fd);
			unlink(buf_str(&f->part));
		}
		buf_fini(&f->part);
		free(f->path);
		free(f);
		return rc;
	}
	*ret_f = f;
	return 0;
}

static int dump_file_failed(const struct dump_file *f, struct buf *why)
{
	int rc = errno ? -errno : -EIO;

	return buf_why(why, rc, "%s: %s", buf_str(&f->part), strerror(-rc));
}

int dump_file_add(struct dump_file *f, const char *text, size_t len, struct buf *why)
{
	buf_clear(&f->bytes);
	if (base64_get(&f->bytes, text, len) < 0)
		return buf_why(why, RC_JSON, "a part of the file is no base64");
	errno = 0;
	if (f->bytes.len && gzwrite(f->gz, f->bytes.data, (unsigned)f->bytes.len) != (int)f->bytes.len)
		return dump_file_failed(f, why);
	return 0;
}

static void dump_file_free(struct dump_file **pf)
{
	struct dump_file *f = *pf;

	*pf = NULL;
	if (f->gz)
		gzclose(f->gz);
	buf_fini(&f->part);
	buf_fini(&f->bytes);
	free(f->path);
	free(f);
}

int dump_file_end(struct dump_file **pf, struct buf *why)
{
	struct dump_file *f = *pf;
	int rc = 0;

	errno = 0;
	if (gzclose(f->gz) != Z_OK)
		rc = dump_file_failed(f, why);
	f->gz = NULL;
	if (rc == 0 && rename(buf_str(&f->part), f->path) < 0)
		rc = dump_file_failed(f, why);
	if (rc)
		unlink(buf_str(&f->part));
	dump_file_free(pf);
	return rc;
}

void dump_file_drop(struct dump_file **f)
{
	if (!*f)
		return;
	unlink(buf_str(&(*f)->part));
	dump_file_free(f);
}
