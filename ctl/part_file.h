/* SPDX-License-Identifier: MIT
 * part_file.h - files of the caller's, made beside their path and moved there when they are whole.
 * Threads: one. Locks: none. */
#ifndef CTL_PART_FILE_H
#define CTL_PART_FILE_H

#include "engine/base/buf.h"

/* Makes the file, for the caller's eyes only (mode 0600); rename() of *ret_part to `path` is the caller's. A
 * descriptor, or -errno, why names the path. -EEXIST: there is something else than a regular file (a link is none),
 * which a rename would put away. */
int part_file_open(const char *path, struct buf *ret_part, struct buf *why);

#endif
