/* SPDX-License-Identifier: MIT
 * tar_file.h - writes a .tar.gz of texts, for the caller's eyes only (mode 0600), whole or not at all.
 * Threads: one. Locks: none. */
#ifndef CTL_TAR_FILE_H
#define CTL_TAR_FILE_H

#include "engine/base/buf.h"

#include <stddef.h>

struct tar_file;

/* Every file in it lies below the folder `top`. -errno; why names the path. */
int tar_file_new(const char *path, const char *top, struct tar_file **ret_t, struct buf *why);
/* `name` of at most 80 characters. An error is kept until the end. */
void tar_file_add(struct tar_file *t, const char *name, const char *data, size_t len);
/* Gives the file its name. -errno; then there is none. Frees it in any case; NULL is fine. */
int tar_file_end(struct tar_file **t, struct buf *why);

#endif
