/* SPDX-License-Identifier: MIT
 * base64.c - bytes as text (RFC 4648 section 4).
 * Threads: any. Locks: none. */
#include "engine/base/base64.h"
#include "engine/base/rc.h"

#include <stdint.h>
#include <string.h>

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *out, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	buf_reserve(out, n / 3 * 4 + 8);
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			(left > 2 ? p[i + 2] : 0);
		const char group[4] = { base64_digits[v >> 18], base64_digits[v >> 12 & 63],
					left > 1 ? base64_digits[v >> 6 & 63] : '=',
					left > 2 ? base64_digits[v & 63] : '=' };

		buf_add(out, group, sizeof group);
	}
}

/* Six bits; -1 for what is no digit. */
static int base64_digit(char c)
{
	const char *at = c ? strchr(base64_digits, c) : NULL;

	return at ? (int)(at - base64_digits) : -1;
}

/* One group of four that stands for n bytes. */
static int base64_group(struct buf *out, const char *s, size_t n)
{
	uint32_t v = 0;
	char byte[3];

	for (size_t i = 0; i < 4; i++) {
		int d = i <= n ? base64_digit(s[i]) : 0;

		if (d < 0 || (i > n && s[i] != '='))
			return RC_INVALID;
		v = v << 6 | (uint32_t)d;
	}
	for (size_t i = 0; i < n; i++)
		byte[i] = (char)(v >> (16 - 8 * i));
	buf_add(out, byte, n);
	return 0;
}

int base64_get(struct buf *out, const char *text, size_t len)
{
	size_t before = out->len, pad = len < 4 ? 0 : (size_t)(text[len - 1] == '=') + (text[len - 2] == '=');
	int rc = len % 4 ? RC_INVALID : 0;

	for (size_t i = 0; i < len && !rc; i += 4)
		rc = base64_group(out, text + i, i + 4 < len ? 3 : 3 - pad);
	if (rc && out->data) {
		out->len = before;
		out->data[before] = '\0';
	}
	return rc;
}
