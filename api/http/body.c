/* SPDX-License-Identifier: MIT
 * body.c - the JSON in bodies: a request's parsed within limits, a reply's printed.
 * Threads: any. Locks: none. */
#include "api/http/body.h"
#include "api/http/mend.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BODY_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

/* Counts brackets and commas outside strings. Wrong JSON may be miscounted, but never allocates. */
static int body_scan(const char *s, size_t len, struct error *err)
{
	size_t values = 1;
	int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
			continue;
		}
		if (c == '"')
			in_string = true;
		else if (c == '[' || c == '{')
			depth++;
		else if (c == ']' || c == '}')
			depth--;
		values += c == '[' || c == '{' || c == ',';
		if (depth > BODY_MAX_DEPTH)
			return error_set(err, RC_JSON, NULL, "JSON nested deeper than %d levels at byte %zu",
					 BODY_MAX_DEPTH, i);
		if (values > BODY_MAX_VALUES)
			return error_set(err, RC_JSON, NULL, "more than %d JSON values at byte %zu",
					 BODY_MAX_VALUES, i);
	}
	return 0;
}

/* The field of the body that the byte before `end` belongs to, for a message; "" for one with an unusual
 * name. What stands before has been read as JSON. */
static void body_field_at(const char *s, size_t end, char *ret_name, size_t cap)
{
	size_t from = 0, n = 0;
	int depth = 0;

	ret_name[0] = '\0';
	for (size_t i = 0; i < end; i++) {
		if (s[i] == '"') {
			from = ++i;
			while (i < end && s[i] != '"')
				i += s[i] == '\\' ? 2 : 1;
			n = i - from;
		} else if (s[i] == '{' || s[i] == '[') {
			depth++;
		} else if (s[i] == '}' || s[i] == ']') {
			depth--;
		} else if (s[i] == ':' && depth == 1) {
			bool plain = n < cap && strspn(s + from, BODY_NAME_CHARACTERS) >= n;

			snprintf(ret_name, cap, "%.*s", plain ? (int)n : 0, s + from);
		}
	}
}

static int body_number_error(const char *s, size_t len, const json_error_t *e, struct error *err)
{
	size_t at = e->position > 0 && (size_t)e->position < len ? (size_t)e->position : len;
	char name[64];

	body_field_at(s, at, name, sizeof name);
	return error_set(err, RC_JSON, name, "%s%sa number out of range (line %d, column %d): they go to "
			 "1.8e308", name, *name ? ": " : "", e->line, e->column);
}

int body_parse(const char *s, size_t len, json_t **ret_body, struct error *err)
{
	struct buf mended = { 0 };
	json_error_t e;
	json_t *v;
	int rc;

	if (len == 0)
		return error_set(err, RC_JSON, NULL, "the body is empty, expected a JSON object");
	rc = body_scan(s, len, err);
	if (rc)
		return rc;
	if (mend_json(s, len, &mended)) {
		s = mended.data;
		len = mended.len;
	}
	v = json_loadb(s, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	rc = !v && json_error_code(&e) == json_error_numeric_overflow ? body_number_error(s, len, &e, err) : 0;
	buf_fini(&mended);
	if (rc)
		return rc;
	if (!v)
		return error_set(err, RC_JSON, NULL, "malformed JSON: %s (line %d, column %d)", e.text,
				 e.line, e.column);
	if (!json_is_object(v)) {
		json_decref(v);
		return error_set(err, RC_JSON, NULL, "the body must be a JSON object");
	}
	*ret_body = v;
	return 0;
}

/* ---- printing ---- */

static int body_put(const char *data, size_t len, void *arg)
{
	buf_add(arg, data, len);
	return 0;
}

void body_print(struct buf *out, json_t *v)
{
	must(v);
	must_zero(json_dump_callback(v, body_put, out, JSON_COMPACT));
	json_decref(v);
}
