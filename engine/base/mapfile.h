/* SPDX-License-Identifier: MIT
 * mapfile.h - read-only memory maps of whole files.
 * Threads: any. Locks: none. */
#ifndef BASE_MAPFILE_H
#define BASE_MAPFILE_H

#include "engine/base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct mapfile {
	const void *data; /* NULL for an empty file */
	size_t size;
	int64_t mtime_ns; /* when its content last changed, as the file system has it */
};

/* Maps a regular file; touches none of its pages. 0 or -errno with `why` naming the path. */
int mapfile_open(struct mapfile *m, const char *path, struct buf *why);
void mapfile_close(struct mapfile *m);
/* Reads a whole small file into b; files above max are refused with RC_TOO_LARGE. */
int mapfile_slurp(const char *path, size_t max, struct buf *b, struct buf *why);

#endif
