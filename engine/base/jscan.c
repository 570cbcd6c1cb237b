/* SPDX-License-Identifier: MIT
 * jscan.c - reads JSON value by value, without building a tree.
 * Threads: any, one at a time per scanner. Locks: none. */
#include "engine/base/jscan.h"
#include "engine/base/utf8.h"

#include <string.h>

void jscan_init(struct jscan *s, const char *text, size_t len)
{
	*s = (struct jscan){ .text = text, .p = text, .end = text + len };
}

bool jscan_fail(struct jscan *s, const char *error)
{
	if (!s->error)
		s->error = error;
	return false;
}

size_t jscan_at(const struct jscan *s)
{
	return (size_t)(s->p - s->text);
}

char jscan_peek(struct jscan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
	return s->p < s->end && !s->error ? *s->p : '\0';
}

static bool jscan_char(struct jscan *s, char c, const char *error)
{
	if (jscan_peek(s) != c)
		return jscan_fail(s, error);
	s->p++;
	return true;
}

bool jscan_enter(struct jscan *s, char open)
{
	s->fresh = true;
	return jscan_char(s, open, open == '{' ? "expected an object" : "expected an array");
}

/* Passes the comma that is due, or the closing bracket; false for the latter. */
static bool jscan_more(struct jscan *s, char close)
{
	bool fresh = s->fresh;

	s->fresh = false;
	if (jscan_peek(s) == close) {
		s->p++;
		return false;
	}
	return fresh ? !s->error : jscan_char(s, ',', "expected ',' or a closing bracket");
}

bool jscan_next(struct jscan *s)
{
	return jscan_more(s, ']');
}

bool jscan_key(struct jscan *s, char *out, size_t size, size_t *ret_len)
{
	return jscan_more(s, '}') && jscan_string(s, out, size, ret_len) &&
	       jscan_char(s, ':', "expected ':'");
}

/* Four hex digits, or -1. */
static int jscan_hex4(struct jscan *s)
{
	int v = 0, i;

	if (s->end - s->p < 4)
		return -1;
	for (i = 0; i < 4; i++) {
		char c = *s->p++;

		if (c >= '0' && c <= '9')
			v = v * 16 + c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v * 16 + (c | 32) - 'a' + 10;
		else
			return -1;
	}
	return v;
}

/* After "\u": one code point as UTF-8, or 0 bytes for a bad one. */
static int jscan_unicode(struct jscan *s, char out[4])
{
	int v = jscan_hex4(s), low;

	if (v >= 0xd800 && v < 0xdc00 && s->end - s->p >= 2 && s->p[0] == '\\' && s->p[1] == 'u') {
		s->p += 2;
		low = jscan_hex4(s);
		if (low < 0xdc00 || low > 0xdfff)
			return 0;
		v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
	}
	return v <= 0 || (v >= 0xd800 && v <= 0xdfff) ? 0 : utf8_put((uint32_t)v, out);
}

/* After a backslash; the bytes it stands for, or 0. */
static int jscan_escape(struct jscan *s, char out[4])
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = s->p < s->end ? *s->p++ : '\0';
	const char *at = c ? strchr(from, c) : NULL;

	if (c == 'u')
		return jscan_unicode(s, out);
	if (!at)
		return 0;
	out[0] = to[at - from];
	return 1;
}

bool jscan_string(struct jscan *s, char *out, size_t size, size_t *ret_len)
{
	size_t n = 0;

	if (!jscan_char(s, '"', "expected a string"))
		return false;
	while (s->p < s->end && *s->p != '"') {
		char c = *s->p++, bytes[4];
		int i, k = 1;

		bytes[0] = c;
		if ((unsigned char)c < 0x20)
			return jscan_fail(s, "control character in a string");
		if (c == '\\')
			k = jscan_escape(s, bytes);
		if (k == 0)
			return jscan_fail(s, "bad escape in a string");
		if (n + (size_t)k >= size)
			return jscan_fail(s, "string too long");
		for (i = 0; i < k; i++)
			out[n++] = bytes[i];
	}
	if (s->p == s->end)
		return jscan_fail(s, "string without an end");
	s->p++;
	if (n >= size)
		return jscan_fail(s, "string too long");
	if (utf8_valid(out, n) < n)
		return jscan_fail(s, "string that is not UTF-8");
	out[n] = '\0';
	if (ret_len)
		*ret_len = n;
	return true;
}

bool jscan_count(struct jscan *s, int64_t *ret_v)
{
	char c = jscan_peek(s);
	int64_t v = 0;

	if (c < '0' || c > '9')
		return jscan_fail(s, "expected a count");
	if (c == '0' && s->end - s->p > 1 && s->p[1] >= '0' && s->p[1] <= '9')
		return jscan_fail(s, "number with a leading zero");
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
			return jscan_fail(s, "number too large");
	if (s->p < s->end && (*s->p == '.' || *s->p == 'e' || *s->p == 'E'))
		return jscan_fail(s, "expected a count");
	*ret_v = v;
	return true;
}

bool jscan_bool(struct jscan *s, bool *ret_v)
{
	char c = jscan_peek(s);

	if ((c != 't' && c != 'f') || !jscan_skip(s))
		return jscan_fail(s, "expected true or false");
	*ret_v = c == 't';
	return true;
}

bool jscan_pick(struct jscan *s, const struct jscan_member *m, size_t n)
{
	char key[256];

	for (size_t i = 0; i < n; i++)
		*m[i].ret_value = (struct jscan){ 0 };
	for (jscan_enter(s, '{'); jscan_key(s, key, sizeof key, NULL); jscan_skip(s)) {
		for (size_t i = 0; i < n; i++) {
			if (strcmp(key, m[i].name) != 0)
				continue;
			if (m[i].ret_value->text)
				return jscan_fail(s, "a second member of one name");
			*m[i].ret_value = *s;
		}
	}
	return !s->error;
}

/* A string of any length, undecoded. */
static bool jscan_skip_string(struct jscan *s)
{
	for (s->p++; s->p < s->end && *s->p != '"'; s->p++) {
		if ((unsigned char)*s->p < 0x20)
			return jscan_fail(s, "control character in a string");
		if (*s->p == '\\' && ++s->p == s->end)
			break;
	}
	if (s->p == s->end)
		return jscan_fail(s, "string without an end");
	s->p++;
	return true;
}

static bool jscan_skip_scalar(struct jscan *s)
{
	static const char *const word[] = { "true", "false", "null" };
	const char *from = s->p;
	size_t i;

	for (i = 0; i < sizeof word / sizeof *word; i++) {
		size_t n = strlen(word[i]);

		if ((size_t)(s->end - s->p) >= n && memcmp(s->p, word[i], n) == 0) {
			s->p += n;
			return true;
		}
	}
	while (s->p < s->end && *s->p && strchr("+-.0123456789eE", *s->p))
		s->p++;
	return s->p > from || jscan_fail(s, "expected a value");
}

static bool jscan_skip_depth(struct jscan *s, int depth)
{
	char c = jscan_peek(s);

	if (c == '"')
		return jscan_skip_string(s);
	if (c != '{' && c != '[')
		return jscan_skip_scalar(s);
	if (depth == 0)
		return jscan_fail(s, "nested too deeply");
	jscan_enter(s, c);
	while (jscan_more(s, c == '{' ? '}' : ']')) {
		if (c == '{' &&
		    (jscan_peek(s) != '"' || !jscan_skip_string(s) || !jscan_char(s, ':', "expected ':'")))
			return jscan_fail(s, "expected a member");
		if (!jscan_skip_depth(s, depth - 1))
			return false;
	}
	return !s->error;
}

bool jscan_skip(struct jscan *s)
{
	return jscan_skip_depth(s, JSCAN_MAX_DEPTH);
}

bool jscan_done(struct jscan *s)
{
	jscan_peek(s);
	return !s->error && (s->p == s->end || jscan_fail(s, "text after the value"));
}
