/* SPDX-License-Identifier: MIT
 * tokentrie.h - the vocabulary as a tree of bytes, and which of its tokens an automaton accepts.
 * Threads: any, read-only once made. Locks: none. */
#ifndef ENGINE_TOKENTRIE_H
#define ENGINE_TOKENTRIE_H

#include "engine/constrain/automaton.h"
#include "engine/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/* A mask has one bit for each token: bit t % 64 of word t / 64. */
static inline size_t tokentrie_mask_words(int vocab)
{
	return ((size_t)vocab + 63) / 64;
}

static inline void tokentrie_allow(uint64_t *mask, int32_t token)
{
	mask[token / 64] |= (uint64_t)1 << (token % 64);
}

static inline bool tokentrie_allows(const uint64_t *mask, int32_t token)
{
	return mask[token / 64] >> (token % 64) & 1;
}

/* Of added tokens it has only the one of DSML tags, as GRAMMAR_DSML. Tokens that can be no part of UTF-8 text, and
 * those longer than TOKENTRIE_MAX_LEN bytes, are left out. */
struct tokentrie;

#define TOKENTRIE_MAX_LEN 254
#define TOKENTRIE_DSML_TEXT "｜DSML｜"

/* For masks of `vocab` tokens, at least the tokenizer's. -ENOMEM. */
int tokentrie_new(const struct tokenizer *t, int vocab, struct tokentrie **ret_t);
void tokentrie_free(struct tokentrie **t);
size_t tokentrie_bytes(const struct tokentrie *t);
/* The token of DSML tags, -1 if there is none. */
int32_t tokentrie_dsml(const struct tokentrie *t);

/* Adds the tokens that may come at `state` to the mask. False when the automaton was full. */
bool tokentrie_mask(const struct tokentrie *t, struct automaton *a, uint32_t state, uint64_t *mask);

#endif
