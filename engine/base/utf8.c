/* SPDX-License-Identifier: MIT
 * utf8.c - checking, repairing and streaming UTF-8.
 * Threads: any. Locks: none. */
#include "engine/base/utf8.h"
#include "engine/base/must.h"

#include <string.h>

/* What may follow a lead byte: how many bytes, and the range of the first of them (the others are 80..BF).
 * 0: no character begins with it. */
static int utf8_lead(unsigned char c, unsigned char *ret_low, unsigned char *ret_high)
{
	*ret_low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
	*ret_high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
	if (c >= 0xC2 && c <= 0xDF)
		return 1;
	if (c >= 0xE0 && c <= 0xEF)
		return 2;
	return c >= 0xF0 && c <= 0xF4 ? 3 : 0;
}

enum utf8_kind utf8_step(const char *s, size_t len, size_t *ret_len)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned char low, high;
	int more, i;

	*ret_len = 1;
	if (u[0] < 0x80)
		return UTF8_VALID;
	more = utf8_lead(u[0], &low, &high);
	if (more == 0)
		return UTF8_INVALID;
	for (i = 1; i <= more; i++) {
		*ret_len = (size_t)i;
		if ((size_t)i == len)
			return UTF8_CUT;
		if (u[i] < low || u[i] > high)
			return UTF8_INVALID;
		low = 0x80;
		high = 0xBF;
	}
	*ret_len = (size_t)i;
	return UTF8_VALID;
}

size_t utf8_valid(const char *s, size_t len)
{
	size_t i = 0, n;
	uint64_t eight;

	while (i < len) {
		/* Most text is ASCII: eight bytes at a time while it is. */
		while (len - i >= sizeof eight &&
		       (memcpy(&eight, s + i, sizeof eight), !(eight & 0x8080808080808080)))
			i += sizeof eight;
		if (i == len || utf8_step(s + i, len - i, &n) != UTF8_VALID)
			break;
		i += n;
	}
	return i;
}

int utf8_put(uint32_t c, char out[4])
{
	int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };

	must(c <= 0x10FFFF);
	for (int i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3F));
	out[0] = (char)(lead[n] | c);
	return n;
}

uint32_t utf8_get(const char *s, size_t n)
{
	static const unsigned char mask[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
	uint32_t c = (unsigned char)s[0] & mask[n];

	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3F);
	return c;
}

void utf8_repair(const char *s, size_t len, struct buf *out)
{
	size_t n;

	for (;;) {
		n = utf8_valid(s, len);
		buf_add(out, s, n);
		s += n;
		len -= n;
		if (len == 0)
			return;
		utf8_step(s, len, &n);
		buf_adds(out, UTF8_REPLACEMENT);
		s += n;
		len -= n;
	}
}

/* Emits what the held bytes have become; returns with a cut character held, or nothing. */
static void utf8_stream_settle(struct utf8_stream *s, struct buf *out)
{
	size_t n;

	while (s->n_held > 0) {
		enum utf8_kind kind = utf8_step(s->held, (size_t)s->n_held, &n);

		if (kind == UTF8_CUT)
			return;
		if (kind == UTF8_VALID)
			buf_add(out, s->held, n);
		else
			buf_adds(out, UTF8_REPLACEMENT);
		s->n_held -= (int)n;
		memmove(s->held, s->held + n, (size_t)s->n_held);
	}
}

void utf8_stream_put(struct utf8_stream *s, const char *bytes, size_t len, struct buf *out)
{
	size_t i = 0, n;

	while (i < len) {
		if (s->n_held == 0) {
			n = utf8_valid(bytes + i, len - i);
			buf_add(out, bytes + i, n);
			i += n;
			if (i == len)
				return;
		}
		s->held[s->n_held++] = bytes[i++];
		utf8_stream_settle(s, out);
	}
}

void utf8_stream_end(struct utf8_stream *s, struct buf *out)
{
	if (s->n_held > 0) /* one cut character, so one replacement */
		buf_adds(out, UTF8_REPLACEMENT);
	s->n_held = 0;
}
