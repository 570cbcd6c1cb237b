/* SPDX-License-Identifier: MIT
 * pyjson.c - JSON text exactly as Python's json.dumps(ensure_ascii=False) writes it.
 * Threads: any. Locks: none. */
#include "engine/text/pyjson.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number that no json_t can hold travels as a string: a zero byte, '#', then its text. */
#define PYJSON_TAG "\\u0000#"
#define PYJSON_TAG_LEN 2
/* Any integer of so many digits fits 64 bits. */
#define PYJSON_SAFE_DIGITS 18
#define PYJSON_NUMBER "+-.0123456789eE"

void pyjson_escape(const char *text, size_t len, struct buf *out)
{
	static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	size_t i, from = 0;

	for (i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		const char *s;

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_add(out, text + from, i - from);
		from = i + 1;
		for (s = short_form; *s && (unsigned char)*s != c; s += 2)
			;
		if (*s)
			buf_add(out, (const char[]){ '\\', s[1] }, 2);
		else
			buf_printf(out, "\\u%04x", c);
	}
	buf_add(out, text + from, len - from);
}

/* The shortest digits that read back as v, as "d.ddde+xx". */
static void pyjson_shortest(double v, char *ret_text, size_t size)
{
	int digits;

	for (digits = 0; digits < 17; digits++) {
		snprintf(ret_text, size, "%.*e", digits, v);
		if (strtod(ret_text, NULL) == v)
			return;
	}
}

void pyjson_float(double v, struct buf *out)
{
	char text[40], digits[24];
	int n = 0, exponent, i;

	if (!isfinite(v)) {
		buf_adds(out, isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
		return;
	}
	pyjson_shortest(v, text, sizeof text);
	exponent = atoi(strchr(text, 'e') + 1);
	for (i = 0; text[i] != 'e'; i++)
		if (text[i] >= '0' && text[i] <= '9')
			digits[n++] = text[i];
	if (text[0] == '-')
		buf_addc(out, '-');
	if (exponent < -4 || exponent >= 16) {
		buf_addc(out, digits[0]);
		if (n > 1)
			buf_addc(out, '.');
		buf_add(out, digits + 1, (size_t)n - 1);
		buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
		return;
	}
	if (exponent < 0) {
		buf_printf(out, "0.%.*s", -exponent - 1, "000");
		buf_add(out, digits, (size_t)n);
		return;
	}
	for (i = 0; i <= exponent || i < n; i++) {
		if (i == exponent + 1)
			buf_addc(out, '.');
		buf_addc(out, i < n ? digits[i] : '0');
	}
	if (n <= exponent + 1)
		buf_adds(out, ".0");
}

static int pyjson_is_tagged(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && json_string_length(v) > PYJSON_TAG_LEN && s[0] == '\0' && s[1] == '#';
}

int pyjson_is_string(const json_t *v)
{
	return json_is_string(v) && !pyjson_is_tagged(v);
}

static void pyjson_string(const char *text, size_t len, struct buf *out)
{
	buf_addc(out, '"');
	pyjson_escape(text, len, out);
	buf_addc(out, '"');
}

static int pyjson_value(const json_t *v, int depth, struct buf *out);

static int pyjson_object(const json_t *v, int depth, struct buf *out)
{
	json_t *o = (json_t *)(uintptr_t)v; /* iteration of a constant object is missing from the library */
	const char *sep = "";
	void *it;
	int rc = 0;

	buf_addc(out, '{');
	for (it = json_object_iter(o); it && rc == 0; it = json_object_iter_next(o, it)) {
		buf_adds(out, sep);
		pyjson_string(json_object_iter_key(it), strlen(json_object_iter_key(it)), out);
		buf_adds(out, ": ");
		rc = pyjson_value(json_object_iter_value(it), depth, out);
		sep = ", ";
	}
	buf_addc(out, '}');
	return rc;
}

static int pyjson_array(const json_t *v, int depth, struct buf *out)
{
	size_t i;
	int rc = 0;

	buf_addc(out, '[');
	for (i = 0; i < json_array_size(v) && rc == 0; i++) {
		if (i)
			buf_adds(out, ", ");
		rc = pyjson_value(json_array_get(v, i), depth, out);
	}
	buf_addc(out, ']');
	return rc;
}

static int pyjson_value(const json_t *v, int depth, struct buf *out)
{
	if (depth > PYJSON_MAX_DEPTH)
		return RC_TOO_LARGE;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return pyjson_object(v, depth + 1, out);
	case JSON_ARRAY:
		return pyjson_array(v, depth + 1, out);
	case JSON_STRING:
		if (pyjson_is_tagged(v))
			buf_add(out, json_string_value(v) + PYJSON_TAG_LEN,
				json_string_length(v) - PYJSON_TAG_LEN);
		else
			pyjson_string(json_string_value(v), json_string_length(v), out);
		return 0;
	case JSON_INTEGER:
		buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		return 0;
	case JSON_REAL:
		pyjson_float(json_real_value(v), out);
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		buf_adds(out, json_is_true(v) ? "true" : "false");
		return 0;
	case JSON_NULL:
	default:
		buf_adds(out, "null");
		return 0;
	}
}

int pyjson_dump(const json_t *v, struct buf *out)
{
	return pyjson_value(v, 0, out);
}

/* ---- loading ---- */

/* Length of the string literal at s, its quotes included; what is left when it does not end. */
static size_t pyjson_skip_string(const char *s, size_t len)
{
	size_t i;

	for (i = 1; i < len && s[i] != '"'; i++)
		if (s[i] == '\\')
			i++;
	return i < len ? i + 1 : len;
}

/* Is the number token well-formed JSON that a json_t cannot hold? */
static int pyjson_is_huge(const char *s, size_t len)
{
	const char *digits = s + (*s == '-'), *point = strchr(s, '.');
	size_t n = strspn(digits, "0123456789");
	char *end;
	double v;

	if (n == 0 || (digits[0] == '0' && n > 1))
		return 0;
	if (digits + n == s + len)
		return n > PYJSON_SAFE_DIGITS;
	if (point && (point[1] < '0' || point[1] > '9'))
		return 0;
	v = strtod(s, &end);
	return end == s + len && isinf(v);
}

/* Copies one word (number, constant) or tags it; returns its length. */
static size_t pyjson_word(const char *s, size_t len, struct buf *out)
{
	static const char *const constants[] = { "NaN", "Infinity", "-Infinity" };
	char number[400];
	size_t i, n = 0;

	for (i = 0; i < mem_countof(constants); i++) {
		n = strlen(constants[i]);
		if (len >= n && memcmp(s, constants[i], n) == 0) {
			buf_printf(out, "\"" PYJSON_TAG "%s\"", constants[i]);
			return n;
		}
	}
	for (n = 0; n < len && strchr(PYJSON_NUMBER, s[n]) && s[n]; n++)
		;
	if (n == 0) {
		buf_addc(out, *s);
		return 1;
	}
	if (n < sizeof number) {
		memcpy(number, s, n);
		number[n] = '\0';
		if (pyjson_is_huge(number, n)) {
			int real = strpbrk(number, ".eE") != NULL;

			if (real)
				strcpy(number, *s == '-' ? "-Infinity" : "Infinity");
			buf_printf(out, "\"" PYJSON_TAG "%s\"", number);
			return n;
		}
	}
	buf_add(out, s, n);
	return n;
}

/* Nothing but strings and words is touched, so what is malformed stays so. */
static void pyjson_tag_numbers(const char *text, size_t len, struct buf *out)
{
	size_t i, n;

	for (i = 0; i < len; i += n) {
		if (text[i] == '"') {
			n = pyjson_skip_string(text + i, len - i);
			buf_add(out, text + i, n);
		} else {
			n = pyjson_word(text + i, len - i, out);
		}
	}
}

/* The parser's own limit is too deep for callers that recurse, and it has none on how many values there are. */
static int pyjson_limits(const char *text, size_t len, struct buf *why)
{
	int depth = 0, deepest = 0;
	size_t i, values = 1;

	for (i = 0; i < len; i++) {
		if (text[i] == '"')
			i += pyjson_skip_string(text + i, len - i) - 1;
		else if (text[i] == '{' || text[i] == '[')
			deepest = ++depth > deepest ? depth : deepest;
		else if (text[i] == '}' || text[i] == ']')
			depth--;
		values += text[i] == ',' || text[i] == '{' || text[i] == '[';
	}
	if (deepest > PYJSON_MAX_DEPTH)
		return buf_why(why, RC_TOO_LARGE, "JSON nested deeper than %d", PYJSON_MAX_DEPTH);
	if (values > PYJSON_MAX_VALUES)
		return buf_why(why, RC_TOO_LARGE, "more than %d JSON values", PYJSON_MAX_VALUES);
	return 0;
}

int pyjson_load(const char *text, size_t len, json_t **ret_v, struct buf *why)
{
	struct buf tagged = { 0 };
	json_error_t err;
	json_t *v;
	int rc = pyjson_limits(text, len, why);

	if (rc)
		return rc;
	pyjson_tag_numbers(text, len, &tagged);
	v = json_loadb(buf_str(&tagged), tagged.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
	buf_fini(&tagged);
	if (!v)
		return buf_why(why, RC_JSON, "line %d column %d: %s", err.line, err.column, err.text);
	*ret_v = v;
	return 0;
}
