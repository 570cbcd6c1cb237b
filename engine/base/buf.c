/* SPDX-License-Identifier: MIT
 * buf.c - a growable byte buffer, always NUL-terminated after its bytes.
 * Threads: any, one at a time per buffer. Locks: none. */
#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct buf){ 0 };
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_reserve(struct buf *b, size_t extra)
{
	size_t need, cap = b->cap ? b->cap : 64;

	must(!__builtin_add_overflow(b->len, extra, &need) && need < (size_t)1 << 48);
	need++;
	if (need <= b->cap)
		return;
	while (cap < need)
		cap *= 2;
	b->data = mem_grow(b->data, cap, 1);
	b->cap = cap;
	b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	must(n >= 0);
	buf_reserve(b, (size_t)n);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	b->len += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_drop(struct buf *b, size_t n)
{
	must(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	char *s = b->data ? b->data : mem_strdup("");

	*b = (struct buf){ 0 };
	return s;
}

int buf_why(struct buf *why, int rc, const char *fmt, ...)
{
	va_list ap;

	if (!why)
		return rc;
	buf_clear(why);
	va_start(ap, fmt);
	buf_vprintf(why, fmt, ap);
	va_end(ap);
	return rc;
}
