/* SPDX-License-Identifier: MIT
 * added.h - finds added tokens in text: the leftmost, and of those the longest.
 * Threads: any, read-only after loading. Locks: none. */
#ifndef ENGINE_ADDED_H
#define ENGINE_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDED_MAX 65536    /* tokens */
#define ADDED_MAX_LEN 4096 /* bytes of one */

struct added_token {
	char *text;
	size_t len;
	int32_t id;
};

/* Start from {0}. */
struct added {
	struct added_token *token; /* after added_sort: by text */
	int n, cap;
	bool starts[256]; /* some token begins with this byte */
};

void added_fini(struct added *a);
void added_add(struct added *a, const char *text, size_t len, int32_t id);
/* After the last added_add, before the first search. */
void added_sort(struct added *a);
/* The id of the token that is exactly this text, or -1. */
int32_t added_id(const struct added *a, const char *text, size_t len);
/* The first token in s at or after `from`: its place and id; NULL when there is none. */
const struct added_token *added_search(const struct added *a, const char *s, size_t len, size_t from,
				       size_t *ret_at);

#endif
