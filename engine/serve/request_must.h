/* SPDX-License-Identifier: MIT
 * request_must.h - what a request's answer must be: its constraint, the bound on its reasoning, or the answer itself.
 * Threads: who submits makes it, then the engine thread. Locks: none. */
#ifndef ENGINE_REQUEST_MUST_H
#define ENGINE_REQUEST_MUST_H

#include "engine/constrain/constraint.h"
#include "engine/serve/generation.h"

#include <stdbool.h>
#include <stdint.h>

struct request;

struct request_must {
	struct constraint *constraint; /* NULL: none */
	int max_reasoning;             /* 0: any */
	bool one_call;
	int32_t *answer;               /* [n_answer] NULL: none; each is the only token allowed in its turn */
	int n_answer;
	uint64_t *only;                /* a bit for each token of the vocabulary: that token's */
	bool enough;                   /* its one call is whole, and nothing will lead the answer to its end */
};

/* The spec says what can be done. With the prompt and the completion mode known: `thinking` when the answer begins
 * inside <think>. Errors as of constraint_new; why names the field. */
int request_must_init(struct request *r, const struct generation_spec *spec, bool thinking, struct buf *why);
void request_must_fini(struct request *r);

/* The tokens that may come next; NULL: any. Errors as of constraint_mask. */
int request_must_mask(struct request *r, const uint64_t **ret_mask, struct buf *why);
/* Does the mask leave no choice about the text, since each of its tokens is how the same text may go on? */
bool request_must_forced(const struct request *r, const uint64_t *mask);
void request_must_take(struct request *r, int32_t token);
/* A call is whole. */
void request_must_call_ended(struct request *r);

#endif
