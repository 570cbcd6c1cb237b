/* SPDX-License-Identifier: MIT
 * opaque.c - reasoning as a token that clients keep and send back without reading it.
 * Threads: any. Locks: none. */
#include "api/request/opaque.h"
#include "engine/base/base64.h"
#include "engine/base/sha256.h"

#include <string.h>

#define OPAQUE_MARK "dsv4.mark."
#define OPAQUE_HELD "dsv4.text."

void opaque_mark(struct buf *out, const char *text, size_t len)
{
	char hex[SHA256_HEX];

	sha256_hex(hex, text ? text : "", len);
	buf_printf(out, OPAQUE_MARK "%s", hex);
}

void opaque_hold(struct buf *out, const char *text, size_t len)
{
	buf_adds(out, OPAQUE_HELD);
	base64_put(out, text, len);
}

bool opaque_open(struct buf *out, const char *token, size_t len)
{
	size_t n = strlen(OPAQUE_HELD);

	return len >= n && !memcmp(token, OPAQUE_HELD, n) && base64_get(out, token + n, len - n) == 0;
}
