/* SPDX-License-Identifier: MIT
 * constraint.h - what the rest of an answer must be, as the tokens that may come next.
 * Threads: constraint_new by who submits, then the engine thread. Locks: none. */
#ifndef ENGINE_CONSTRAINT_H
#define ENGINE_CONSTRAINT_H

#include "engine/base/buf.h"
#include "engine/gen.h"
#include "engine/text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What all constraints of an engine share, read-only: the vocabulary as a tree, the tokens of the protocol. A mask
 * has a bit for each of the model's tokens: bit t % 64 of word t / 64. */
struct constraint_vocab;

/* vocab: the model's, at least the tokenizer's; eos: its end-of-sentence token. The tokenizer is borrowed. -ENOMEM. */
int constraint_vocab_new(const struct tokenizer *t, int vocab, int32_t eos, struct constraint_vocab **ret_v);
void constraint_vocab_free(struct constraint_vocab **v);
/* Bytes it holds. */
size_t constraint_vocab_bytes(const struct constraint_vocab *v);
/* The mask that has only </think>; NULL when the tokenizer has no such token. */
const uint64_t *constraint_vocab_close(const struct constraint_vocab *v);

/* What is asked for. With calls REQUIRED or NAMED the answer is calls and nothing else, whatever the format. With
 * AUTO and a format it is either calls or what the format says; with AUTO and text nothing is constrained, unless a
 * tool is `strict`: then its calls are. */
struct constraint_options {
	bool thinking;             /* the answer begins inside <think>: all this holds from </think> on */
	enum gen_calls calls;
	const char *function;      /* of NAMED */
	bool one_call;
	enum gen_format format;
	json_t *schema;            /* of JSON_SCHEMA; borrowed for the call */
	const char *schema_name;   /* what messages call it; NULL: "schema" */
	json_t *tools;             /* OpenAI tools or NULL; borrowed for the call */
};

struct constraint;

/* *ret_c is NULL when nothing is constrained. RC_INVALID, RC_UNSUPPORTED, RC_TOO_LARGE: why begins with the field,
 * for a schema with its path, like "schema.properties.a.items: ...". */
int constraint_new(const struct constraint_vocab *v, const struct constraint_options *o, struct constraint **ret_c,
		   struct buf *why);
void constraint_free(struct constraint **c);

/* What a mask may cost, in nodes passed: about two milliseconds, and three quarters of that where it has to be made
 * again. Where more alternatives overlap than that does for, some of them are followed and the others given up: fewer
 * texts are possible then, never wrong ones. */
#define CONSTRAINT_MAX_WORK 130000
/* The tokens that may come next, never none; *ret_mask is NULL when any may, and valid until the next call. -ENOMEM;
 * RC_TOO_LARGE when the schema would need too much to follow; RC_MODEL when no token of the vocabulary fits. */
int constraint_mask(struct constraint *c, const uint64_t **ret_mask, struct buf *why);
/* The token came. It was allowed. */
void constraint_take(struct constraint *c, int32_t token);
/* Is the answer whole, so that nothing but its end may come? */
bool constraint_complete(const struct constraint *c);
/* Is the text held to the form now: after the reasoning, and when it was watched for calls, in a block of them? */
bool constraint_holds(const struct constraint *c);
/* Is only a block of calls held to its form, and none has begun? */
bool constraint_watches(const struct constraint *c);

/* Nodes passed so far to make masks, for tests and measurements: the same on every machine. */
uint64_t constraint_work(const struct constraint *c);

#endif
