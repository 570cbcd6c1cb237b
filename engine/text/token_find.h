/* SPDX-License-Identifier: MIT
 * token_find.h - where a text stands in a row of tokens, by the bytes that the tokens stand for.
 * Threads: any. Locks: none. */
#ifndef ENGINE_TOKEN_FIND_H
#define ENGINE_TOKEN_FIND_H

#include "engine/text/tokenizer.h"

/* Tokens [begin, end): all that have a byte of the text. */
struct token_span {
	int begin, end;
};

enum token_find_how {
	TOKEN_FIND_BYTES,      /* byte for byte */
	TOKEN_FIND_LIKE        /* ASCII letters of either case, any white space like any other amount of it */
};

/* Every place of the text (len > 0 bytes) in tokens id[0..n), in order, none inside the one before; the first `most` of
 * them into ret_span. *ret_found: how many there are. -ENOMEM. */
int token_find(const struct tokenizer *t, const int32_t *id, int n, const char *text, size_t len,
	enum token_find_how how, struct token_span *ret_span, int most, int *ret_found);

#endif
