/* SPDX-License-Identifier: MIT
 * constraint_vocab.h - what all constraints of an engine share: the vocabulary's tree, the tokens of the protocol.
 * Threads: any, read-only once made. Locks: none. */
#ifndef ENGINE_CONSTRAINT_VOCAB_H
#define ENGINE_CONSTRAINT_VOCAB_H

#include "engine/constrain/constraint.h"
#include "engine/constrain/tokentrie.h"

struct constraint_vocab {
	const struct tokenizer *tokenizer;
	struct tokentrie *trie;
	int vocab;
	int32_t eos, think, think_end, dsml; /* -1: none */
	uint64_t *thinking;    /* what reasoning may have: no end of the answer, no tag, and not <think> again */
	uint64_t *close;       /* only </think> */
};

#endif
