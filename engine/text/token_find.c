/* SPDX-License-Identifier: MIT
 * token_find.c - where a text stands in a row of tokens, by the bytes that the tokens stand for.
 * Threads: any. Locks: none. */
#include "engine/text/token_find.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes to search, and of which token each is. */
struct token_bytes {
	char *byte;
	int32_t *token;
	size_t n;
};

static bool token_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Adds a byte as it is compared; white space after white space is left out. */
static void token_byte(struct token_bytes *b, char c, int token, enum token_find_how how)
{
	if (how == TOKEN_FIND_LIKE) {
		c = token_space(c) ? ' ' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
		if (c == ' ' && b->n && b->byte[b->n - 1] == ' ')
			return;
	}
	b->byte[b->n] = c;
	b->token[b->n++] = token;
}

static int token_room(struct token_bytes *b, size_t n)
{
	b->byte = mem_try(n + 1, sizeof *b->byte);
	b->token = mem_try(n + 1, sizeof *b->token);
	return b->byte && b->token ? 0 : -ENOMEM;
}

static int token_all(const struct tokenizer *t, const int32_t *id, int n, enum token_find_how how,
	struct token_bytes *b)
{
	size_t total = 0, len;
	int rc;

	for (int i = 0; i < n; i++) {
		tokenizer_bytes(t, id[i], &len);
		total += len;
	}
	rc = token_room(b, total);
	for (int i = 0; i < n && rc == 0; i++) {
		const char *bytes = tokenizer_bytes(t, id[i], &len);

		for (size_t k = 0; k < len; k++)
			token_byte(b, bytes[k], i, how);
	}
	return rc;
}

static void token_free(struct token_bytes *b)
{
	free(b->byte);
	free(b->token);
}

int token_find(const struct tokenizer *t, const int32_t *id, int n, const char *text, size_t len,
	enum token_find_how how, struct token_span *ret_span, int most, int *ret_found)
{
	struct token_bytes all = { 0 }, what = { 0 };
	int found = 0, rc = token_all(t, id, n, how, &all);

	if (rc == 0)
		rc = token_room(&what, len);
	for (size_t k = 0; k < len && rc == 0; k++)
		token_byte(&what, text[k], 0, how);
	for (size_t at = 0; rc == 0 && what.n;) {
		const char *p = memmem(all.byte + at, all.n - at, what.byte, what.n);

		if (!p)
			break;
		at = (size_t)(p - all.byte) + what.n;
		if (found < most)
			ret_span[found] = (struct token_span){ all.token[at - what.n], all.token[at - 1] + 1 };
		found++;
	}
	if (rc == 0)
		*ret_found = found;
	token_free(&all);
	token_free(&what);
	return rc;
}
