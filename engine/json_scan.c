/* SPDX-License-Identifier: MIT
 * json_scan.c - reads large JSON text in place, value by value, without building a tree.
 * Threads: any, one at a time per scan. Locks: none. */
#include "engine/json_scan.h"
#include "engine/utf8.h"

#include <string.h>

void json_scan_init(struct json_scan *j, const char *text, size_t len, struct buf *scratch)
{
	*j = (struct json_scan){ .text = text, .p = text, .end = text + len, .scratch = scratch };
}

/* The first error is kept; always false. */
static bool json_scan_fail(struct json_scan *j, const char *expected)
{
	if (!j->error) {
		j->error = expected;
		j->error_at = (size_t)(j->p - j->text);
	}
	return false;
}

static void json_scan_blanks(struct json_scan *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t'))
		j->p++;
}

/* Passes over blanks and then c. */
static bool json_scan_take(struct json_scan *j, char c, const char *expected)
{
	if (j->error)
		return false;
	json_scan_blanks(j);
	if (j->p == j->end || *j->p != c)
		return json_scan_fail(j, expected);
	j->p++;
	return true;
}

char json_scan_kind(struct json_scan *j)
{
	char c;

	if (j->error)
		return '\0';
	json_scan_blanks(j);
	c = j->p < j->end ? *j->p : '\0';
	if (c == '-' || (c >= '0' && c <= '9'))
		return '0';
	if (c == '\0' || !strchr("{[\"ntf", c)) {
		json_scan_fail(j, "a value");
		return '\0';
	}
	return c;
}

static bool json_scan_enter(struct json_scan *j, char c, const char *expected)
{
	if (!json_scan_take(j, c, expected))
		return false;
	if (j->depth == JSON_SCAN_MAX_DEPTH)
		return json_scan_fail(j, "less nesting");
	j->depth++;
	j->first = true;
	return true;
}

/* Before the next member or element: false after the closing bracket. */
static bool json_scan_more(struct json_scan *j, char close, const char *expected)
{
	bool first = j->first;

	if (j->error)
		return false;
	json_scan_blanks(j);
	j->first = false;
	if (j->p < j->end && *j->p == close) {
		j->p++;
		j->depth--;
		return false;
	}
	return first || json_scan_take(j, ',', expected);
}

bool json_scan_object(struct json_scan *j)
{
	return json_scan_enter(j, '{', "an object");
}

bool json_scan_member(struct json_scan *j, struct json_text *ret_key)
{
	return json_scan_more(j, '}', "',' or '}'") && json_scan_string(j, ret_key) && json_scan_take(j, ':', "':'");
}

bool json_scan_pick(struct json_scan *j, const struct json_member *m, size_t n)
{
	struct json_text key;

	for (size_t i = 0; i < n; i++)
		*m[i].ret_value = (struct json_scan){ 0 };
	for (json_scan_object(j); json_scan_member(j, &key); json_scan_skip(j)) {
		for (size_t i = 0; i < n; i++) {
			if (!json_text_is(&key, m[i].name))
				continue;
			if (m[i].ret_value->text)
				return json_scan_fail(j, "no second member of this name");
			*m[i].ret_value = *j;
		}
	}
	return !j->error;
}

bool json_scan_array(struct json_scan *j)
{
	return json_scan_enter(j, '[', "an array");
}

bool json_scan_element(struct json_scan *j)
{
	return json_scan_more(j, ']', "',' or ']'");
}

/* Four hexadecimal digits. */
static bool json_scan_hex(struct json_scan *j, uint32_t *ret_c)
{
	uint32_t c = 0;

	for (int i = 0; i < 4; i++, j->p++) {
		char d = j->p < j->end ? *j->p : '\0';

		if (d >= '0' && d <= '9')
			c = c << 4 | (uint32_t)(d - '0');
		else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f')
			c = c << 4 | (uint32_t)((d | 0x20) - 'a' + 10);
		else
			return json_scan_fail(j, "four hexadecimal digits");
	}
	*ret_c = c;
	return true;
}

/* After "\u": one UTF-16 unit, or two that make a pair. */
static bool json_scan_unicode(struct json_scan *j)
{
	uint32_t c, low;
	char out[4];

	if (!json_scan_hex(j, &c))
		return false;
	if (c >= 0xD800 && c <= 0xDBFF) {
		if (j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
			return json_scan_fail(j, "the second half of a surrogate pair");
		j->p += 2;
		if (!json_scan_hex(j, &low))
			return false;
		if (low < 0xDC00 || low > 0xDFFF)
			return json_scan_fail(j, "the second half of a surrogate pair");
		c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
	} else if (c >= 0xDC00 && c <= 0xDFFF) {
		return json_scan_fail(j, "a character, not half a surrogate pair");
	}
	if (c == 0)
		return json_scan_fail(j, "a character other than NUL");
	buf_add(j->scratch, out, (size_t)utf8_put(c, out));
	return true;
}

/* After a backslash. */
static bool json_scan_escape(struct json_scan *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = j->p < j->end ? *j->p++ : '\0';
	const char *at = c ? strchr(from, c) : NULL;

	if (c == 'u')
		return json_scan_unicode(j);
	if (!at)
		return json_scan_fail(j, "an escape");
	buf_addc(j->scratch, to[at - from]);
	return true;
}

bool json_scan_string(struct json_scan *j, struct json_text *ret_text)
{
	const char *start;
	bool escaped = false;

	if (!json_scan_take(j, '"', "a string"))
		return false;
	buf_clear(j->scratch);
	for (start = j->p;; start = j->p) {
		while (j->p < j->end && *j->p != '"' && *j->p != '\\' && (unsigned char)*j->p >= 0x20)
			j->p++;
		if (j->p == j->end || (unsigned char)*j->p < 0x20)
			return json_scan_fail(j, "the end of a string");
		if (utf8_valid(start, (size_t)(j->p - start)) != (size_t)(j->p - start))
			return json_scan_fail(j, "UTF-8");
		if (*j->p == '"' && !escaped)
			break;
		buf_add(j->scratch, start, (size_t)(j->p - start));
		if (*j->p == '"')
			break;
		escaped = true;
		j->p++;
		if (!json_scan_escape(j))
			return false;
	}
	*ret_text = escaped ? (struct json_text){ buf_str(j->scratch), j->scratch->len } :
			      (struct json_text){ start, (size_t)(j->p - start) };
	j->p++;
	return true;
}

/* At least one digit. */
static bool json_scan_digits(struct json_scan *j)
{
	const char *start = j->p;

	while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
		j->p++;
	return j->p > start || json_scan_fail(j, "a digit");
}

/* Passes over a number of any kind. */
static bool json_scan_number(struct json_scan *j)
{
	if (j->p < j->end && *j->p == '-')
		j->p++;
	if (j->p < j->end && *j->p == '0')
		j->p++;
	else if (!json_scan_digits(j))
		return false;
	if (j->p < j->end && *j->p == '.') {
		j->p++;
		if (!json_scan_digits(j))
			return false;
	}
	if (j->p == j->end || (*j->p | 0x20) != 'e')
		return true;
	j->p++;
	if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
		j->p++;
	return json_scan_digits(j);
}

bool json_scan_int(struct json_scan *j, int64_t *ret_value)
{
	const char *start;
	bool minus;
	int64_t v = 0;

	json_scan_blanks(j);
	start = j->p;
	if (json_scan_kind(j) != '0')
		return json_scan_fail(j, "an integer");
	if (!json_scan_number(j))
		return false;
	minus = *start == '-';
	for (const char *d = start + minus; d < j->p; d++)
		if (*d < '0' || *d > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *d - '0', &v)) {
			j->p = start;
			return json_scan_fail(j, "an integer");
		}
	*ret_value = minus ? -v : v;
	return true;
}

static bool json_scan_word(struct json_scan *j, const char *word, const char *expected)
{
	size_t n = strlen(word);

	if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0)
		return json_scan_fail(j, expected);
	j->p += n;
	return true;
}

bool json_scan_bool(struct json_scan *j, bool *ret_value)
{
	char kind = json_scan_kind(j);

	if (kind != 't' && kind != 'f')
		return json_scan_fail(j, "true or false");
	*ret_value = kind == 't';
	return json_scan_word(j, kind == 't' ? "true" : "false", "true or false");
}

bool json_scan_skip(struct json_scan *j)
{
	struct json_text t;

	switch (json_scan_kind(j)) {
	case '{': /* depth is bounded by json_scan_enter */
		for (json_scan_object(j); json_scan_member(j, &t);)
			json_scan_skip(j);
		return !j->error;
	case '[':
		for (json_scan_array(j); json_scan_element(j);)
			json_scan_skip(j);
		return !j->error;
	case '"': return json_scan_string(j, &t);
	case '0': return json_scan_number(j);
	case 'n': return json_scan_word(j, "null", "null");
	case 't': return json_scan_word(j, "true", "true");
	case 'f': return json_scan_word(j, "false", "false");
	default: return false;
	}
}

bool json_scan_end(struct json_scan *j)
{
	if (j->error)
		return false;
	json_scan_blanks(j);
	return j->p == j->end || json_scan_fail(j, "the end of the text");
}

bool json_text_is(const struct json_text *t, const char *s)
{
	return t->len == strlen(s) && memcmp(t->s, s, t->len) == 0;
}
