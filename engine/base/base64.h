/* SPDX-License-Identifier: MIT
 * base64.h - bytes as text (RFC 4648 section 4).
 * Threads: any. Locks: none. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "engine/base/buf.h"

/* Appends, with padding. */
void base64_put(struct buf *out, const void *bytes, size_t n);
/* Appends the bytes of a text made by base64_put(); RC_INVALID, and nothing appended, for any other. */
int base64_get(struct buf *out, const char *text, size_t len);

#endif
