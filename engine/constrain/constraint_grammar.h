/* SPDX-License-Identifier: MIT
 * constraint_grammar.h - from what a request asks for to the grammar of its answer.
 * Threads: any. Locks: none. */
#ifndef ENGINE_CONSTRAINT_GRAMMAR_H
#define ENGINE_CONSTRAINT_GRAMMAR_H

#include "engine/constrain/constraint_vocab.h"
#include "engine/constrain/grammar.h"

/* Is anything constrained? */
bool constraint_grammar_wanted(const struct constraint_options *o);
/* Is it the calls only, once the model begins some? */
bool constraint_grammar_watches(const struct constraint_options *o);
/* Builds and finishes g. Errors as of constraint_new. */
int constraint_grammar(const struct constraint_vocab *v, const struct constraint_options *o, struct grammar *g,
		       struct buf *why);

#endif
