/* SPDX-License-Identifier: MIT
 * json_scan.h - reads large JSON text in place, value by value, without building a tree.
 * For tokenizer.json: a quarter of a million strings, of which no tree is ever needed. Memory stays at one string.
 * Threads: any, one at a time per scan. Locks: none. */
#ifndef ENGINE_JSON_SCAN_H
#define ENGINE_JSON_SCAN_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define JSON_SCAN_MAX_DEPTH 64

/* A cursor before a value. Copy it to read that value later or twice. The first error sticks: every later call
 * returns false, and `error` and `error_at` say what was expected where. */
struct json_scan {
	const char *text, *p, *end;
	const char *error;
	size_t error_at;
	int depth;
	bool first;           /* directly after [ or {: no comma is due */
	struct buf *scratch;  /* holds the last string that had escapes; shared by all copies */
};

/* A string's bytes: valid UTF-8 without NUL, not terminated; good until the next string of any copy of the scan. */
struct json_text {
	const char *s;
	size_t len;
};

/* text and scratch must outlive the cursor and its copies. */
void json_scan_init(struct json_scan *j, const char *text, size_t len, struct buf *scratch);

/* The kind of the value ahead by its first letter: one of { [ " n t f 0 (any number), or NUL at an error. */
char json_scan_kind(struct json_scan *j);

/* Enter with object or array, then call member or element before each value until it returns false: at the end of
 * the object or array, or at an error. */
bool json_scan_object(struct json_scan *j);
bool json_scan_member(struct json_scan *j, struct json_text *ret_key);
/* Reads a whole object and leaves a cursor before the value of each member that is asked for (absent: its text is
 * NULL); the others are passed over. A member that comes twice is an error. */
struct json_member {
	const char *name;
	struct json_scan *ret_value;
};
bool json_scan_pick(struct json_scan *j, const struct json_member *m, size_t n);
bool json_scan_array(struct json_scan *j);
bool json_scan_element(struct json_scan *j);

bool json_scan_string(struct json_scan *j, struct json_text *ret_text);
bool json_scan_int(struct json_scan *j, int64_t *ret_value);
bool json_scan_bool(struct json_scan *j, bool *ret_value);
/* Any value, checked and passed over. */
bool json_scan_skip(struct json_scan *j);
/* Nothing but blanks may be left. */
bool json_scan_end(struct json_scan *j);

bool json_text_is(const struct json_text *t, const char *s);

#endif
