/* SPDX-License-Identifier: MIT
 * tokenizer_priv.h - the parts of a tokenizer: tokenizer.c uses them, two other files read them.
 * Threads: any, read-only after loading. Locks: none. */
#ifndef ENGINE_TOKENIZER_PRIV_H
#define ENGINE_TOKENIZER_PRIV_H

#include "engine/text/added.h"
#include "engine/text/bpe.h"
#include "engine/base/jscan.h"
#include "engine/text/pretok.h"
#include "engine/text/vocab.h"

/* The library looks for added tokens in two rounds: in the text as it is, then in what is left between them
 * after normalising (for us the same text). A token of the second never wins over the first. */
enum tokenizer_round { TOKENIZER_RAW, TOKENIZER_NORMALIZED, TOKENIZER_ROUNDS };

struct tokenizer {
	struct vocab vocab;
	struct bpe bpe;
	struct pretok pretok;
	struct added added[TOKENIZER_ROUNDS];
};

#define TOKENIZER_FILE_TEXT 65536

/* One reading of one file. */
struct tokenizer_file {
	struct tokenizer *t;
	const char *name;
	struct buf *why;
	char text[TOKENIZER_FILE_TEXT]; /* the last string */
	size_t text_len;
};

/* Fills a zeroed tokenizer; on failure the caller frees it. */
int tokenizer_file_parse(struct tokenizer *t, const char *json, size_t len, const char *name,
			 struct buf *why);
/* RC_MODEL, with why "NAME: ..."; and, when the scan has met an error, "NAME: FIELD: ... (byte N)". */
int tokenizer_file_bad(struct tokenizer_file *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tokenizer_file_scanned(struct tokenizer_file *f, const struct jscan *j, const char *field);
/* Not there, or null. */
bool tokenizer_file_absent(struct jscan j);
/* true or false; absent is false. */
int tokenizer_file_flag(struct tokenizer_file *f, struct jscan j, const char *field, bool *ret_value);

/* tokenizer_tables.c: model.vocab and added_tokens, then model.merges. Cursors as jscan_pick left them. */
int tokenizer_tables_tokens(struct tokenizer_file *f, const struct jscan *vocab, const struct jscan *added);
int tokenizer_tables_merges(struct tokenizer_file *f, const struct jscan *merges);

#endif
