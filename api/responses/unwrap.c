/* SPDX-License-Identifier: MIT
 * unwrap.c - the text in {"input": "..."}, while its JSON still comes in pieces.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/responses/unwrap.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void unwrap_fini(struct unwrap *u)
{
	buf_fini(&u->json);
	*u = (struct unwrap){ 0 };
}

/* Goes through what stands before the text; stays BEFORE until all of that is there. */
static void unwrap_find(struct unwrap *u)
{
	static const char *const tokens[] = { "{", "\"input\"", ":", "\"" };
	const char *s = buf_str(&u->json), *end = s + u->json.len;

	for (size_t i = 0; i < mem_countof(tokens); i++) {
		size_t n = strlen(tokens[i]), left;

		while (s < end && strchr(" \t\r\n", *s))
			s++;
		left = (size_t)(end - s);
		if (strncmp(s, tokens[i], left < n ? left : n)) {
			u->state = UNWRAP_OTHER;
			return;
		}
		if (left < n)
			return;
		s += n;
	}
	u->state = UNWRAP_TEXT;
	u->at = (size_t)(s - u->json.data);
}

/* The value of the four digits of \uXXXX at s. */
static unsigned unwrap_code(const char *s)
{
	char digits[5] = { 0 };

	memcpy(digits, s + 2, 4);
	return (unsigned)strtoul(digits, NULL, 16);
}

/* The length of the escape at s, which has `len` bytes; 0: its end has not come. Two surrogates are one. */
static size_t unwrap_escape(const char *s, size_t len)
{
	if (len < 2 || (s[1] == 'u' && len < 6))
		return 0;
	if (s[1] != 'u')
		return 2;
	if (unwrap_code(s) < 0xD800 || unwrap_code(s) > 0xDBFF)
		return 6;
	return len < 12 ? 0 : 12;
}

/* The string's bytes from `at` on that say whole characters. */
static size_t unwrap_whole(const struct unwrap *u, bool *ret_end)
{
	const char *s = u->json.data;
	size_t i = u->at, n = 0;

	while (i < u->json.len && s[i] != '"') {
		if (s[i] == '\\')
			n = unwrap_escape(s + i, u->json.len - i);
		else if (utf8_step(s + i, u->json.len - i, &n) == UTF8_CUT)
			n = 0;
		if (!n)
			break;
		i += n;
	}
	*ret_end = i < u->json.len && s[i] == '"';
	return i - u->at;
}

static void unwrap_text(struct unwrap *u, struct buf *out)
{
	struct buf quoted = { 0 };
	json_t *v;
	bool end;
	size_t n = unwrap_whole(u, &end);

	buf_addc(&quoted, '"');
	buf_add(&quoted, u->json.data + u->at, n);
	buf_addc(&quoted, '"');
	v = json_loadb(quoted.data, quoted.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	buf_fini(&quoted);
	if (v)
		buf_add(out, json_string_value(v), json_string_length(v));
	json_decref(v);
	u->at += n + end;
	if (end)
		u->state = UNWRAP_AFTER;
}

void unwrap_put(struct unwrap *u, const char *json, size_t len, struct buf *out)
{
	buf_add(&u->json, json, len);
	if (u->state == UNWRAP_BEFORE)
		unwrap_find(u);
	if (u->state == UNWRAP_TEXT)
		unwrap_text(u, out);
}

void unwrap_end(struct unwrap *u, struct buf *out)
{
	json_t *v, *only;

	if (u->state == UNWRAP_BEFORE || u->state == UNWRAP_OTHER) {
		v = json_loadb(buf_str(&u->json), u->json.len, JSON_ALLOW_NUL, NULL);
		only = json_object_iter_value(json_object_iter(v));
		if (json_object_size(v) == 1 && json_is_string(only))
			buf_add(out, json_string_value(only), json_string_length(only));
		else
			buf_add(out, u->json.data, u->json.len);
		json_decref(v);
	}
	unwrap_fini(u);
}
