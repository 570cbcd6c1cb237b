/* SPDX-License-Identifier: MIT
 * record_put.h - the engine's side of record.h: filling in records while requests run.
 * Threads: who submits makes, the engine thread fills in. Lock: record. */
#ifndef ENGINE_RECORD_PUT_H
#define ENGINE_RECORD_PUT_H

#include "engine/base/buf.h"
#include "engine/serve/record.h"
#include "engine/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

struct record_setup {
	/* id, label, thinking, numerics, sampling, max_tokens, kset_generation, epoch; the rest is set
	 * here */
	struct record_view view;
	const char *kset;                  /* its name */
	/* Moved from: left empty. */
	struct buf *messages, *prompt;
	struct token_ids *tokens;
};

/* One reference, the caller's. */
struct record *record_new(struct record_setup *s);
struct record *record_ref(struct record *r);
void record_admitted(struct record *r);
/* What the prefix cache had: tokens, were they computed under other numbers and kept, why not more, and the byte of the
 * prompt from which on it had another; -1. */
void record_cached(struct record *r, int reused, bool kept, const char *miss, int64_t first_diff_byte);
/* From the next step on the request runs under another set; `prompt` tokens of the prompt are computed. */
void record_repinned(struct record *r, const char *kset, uint64_t generation, uint64_t epoch, int prompt);
/* One generated token. */
struct record_token {
	int32_t id;
	const char *bytes; size_t len;
	uint64_t digest;                   /* of the logits that it was taken from */
};
void record_token(struct record *r, const struct record_token *t, const struct gen_usage *u);
/* It makes a tool call of that id. */
void record_call(struct record *r, const char *id);
/* It loops. */
void record_loop(struct record *r, const struct gen_loop *l);
void record_finished(struct record *r, enum gen_finish finish, int rc, const char *detail);
/* Replaces the text kept with it; takes over what is in it. */
void record_keep(struct record *r, struct buf *text);
/* Bytes held. */
size_t record_bytes(const struct record *r);
const char *record_id(const struct record *r);

#endif
