/* SPDX-License-Identifier: MIT
 * gzip_size.h - how many bytes `gzip -6 -c <FILE` makes of a text, to the byte.
 * Threads: any. Locks: none. */
#ifndef CTL_GZIP_SIZE_H
#define CTL_GZIP_SIZE_H

#include <stddef.h>

#define GZIP_SIZE_MAX ((size_t)1 << 30)

/* What GNU gzip writes for that text at its default level, header and trailer included, when it reads the text from a
 * file on standard input. zlib's deflate() ends its blocks elsewhere and differs by up to a hundredth above 20 KB, so
 * a figure made with it is not the one that a reader of the same text gets. At most GZIP_SIZE_MAX bytes. */
size_t gzip_size(const char *text, size_t len);

#endif
