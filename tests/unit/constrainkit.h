/* SPDX-License-Identifier: MIT
 * constrainkit.h - what the tests of constraints share: vocabularies, texts against a grammar, random answers.
 * Threads: main. Locks: none. */
#ifndef TESTS_CONSTRAINKIT_H
#define TESTS_CONSTRAINKIT_H

#include "engine/constrain/automaton.h"
#include "engine/constrain/constraint.h"

/* The tiny model's, and that of Flash with its 129,280 tokens; read once. */
struct constrainkit {
	struct tokenizer *tokenizer;
	struct constraint_vocab *vocab;
	int n;
};
const struct constrainkit *constrainkit_tiny(void);
const struct constrainkit *constrainkit_flash(void);
void constrainkit_done(void);

/* Options for a schema given as text, in which ' stands for ". The value is the caller's. */
json_t *constrainkit_json(const char *text);
struct constraint_options constrainkit_schema(json_t *schema);

/* Follows text, in which the DSML token is spelled out. How many bytes of it were taken; *ret_end says whether the
 * answer may end there. */
size_t constrainkit_follow(const struct constraint_options *o, const char *text, size_t len, bool *ret_end);

/* A random answer: draws tokens from the masks until the end. After about n tokens it makes for the end. Appends the
 * text; its tokens, without the last, go to ids unless that is NULL. */
void constrainkit_random(const struct constrainkit *k, const struct constraint_options *o, unsigned *seed, int n,
	struct buf *out, struct token_ids *ids);
unsigned constrainkit_rand(unsigned *seed, unsigned below);

#endif
