/* SPDX-License-Identifier: MIT
 * dump_file.h - files of cache dump: written part by part as they come, gzipped if that is wanted.
 * Threads: one. Locks: none. */
#ifndef CTL_DUMP_FILE_H
#define CTL_DUMP_FILE_H

#include "engine/base/buf.h"

#include <stdbool.h>

struct dump_file;

/* Makes a file beside `path`, which takes its place at the end. -errno. */
int dump_file_new(const char *path, bool gzip, struct dump_file **ret_f, struct buf *why);
/* Adds bytes that came as base64. RC_JSON, -errno. */
int dump_file_add(struct dump_file *f, const char *text, size_t len, struct buf *why);
/* It is whole: moves it to its path. -errno. Frees and nulls in any case. */
int dump_file_end(struct dump_file **f, struct buf *why);
/* Removes what there is of it; NULL is fine. */
void dump_file_drop(struct dump_file **f);

#endif
