/* SPDX-License-Identifier: MIT
 * tokenizer.h - byte-level BPE from tokenizer.json, with streaming decode (doc/format.md 4).
 * Threads: any, read-only after loading. Locks: none. */
#ifndef ENGINE_TOKENIZER_H
#define ENGINE_TOKENIZER_H

#include "engine/base/buf.h"
#include "engine/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>

#define TOKENIZER_MAX_FILE ((size_t)64 << 20)
#define TOKENIZER_MAX_TEXT ((size_t)256 << 20)

struct tokenizer;

/* A growable array of token ids; start from {0}. */
struct token_ids {
	int32_t *id;
	int n, cap;
};
void token_ids_add(struct token_ids *t, int32_t id);
/* The same for counts that a client decides: -ENOMEM when memory is short. */
int token_ids_try(struct token_ids *t, int32_t id);
void token_ids_fini(struct token_ids *t);

/* RC_MODEL; why names the file and field. `name` is for messages. */
int tokenizer_parse(const char *json, size_t len, const char *name, struct tokenizer **ret_t,
		    struct buf *why);
int tokenizer_open(const char *path, struct tokenizer **ret_t, struct buf *why);
void tokenizer_free(struct tokenizer **t);
int tokenizer_vocab(const struct tokenizer *t);

/* Appends the ids of text. With `added`, added tokens are recognised in it; without, it is plain text and can
 * never become a control token. Bytes that are not UTF-8 are treated as the Hugging Face library would after
 * replacement by U+FFFD. n log n time in len at worst. -ENOMEM, or RC_TOO_LARGE above TOKENIZER_MAX_TEXT
 * bytes and for text on which the file's patterns backtrack without end; out keeps what it had before. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool added,
		     struct token_ids *out);
/* The id of an added token by its exact text, or -1. */
int32_t tokenizer_added(const struct tokenizer *t, const char *text);
/* Is the id an added token; is it marked special. */
bool tokenizer_is_added(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* The raw bytes of one token (not necessarily whole characters); "" for ids out of range. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *ret_len);
/* As the library's decode(): invalid UTF-8 becomes U+FFFD. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *id, int n, bool skip_special,
		      struct buf *out);

#endif
