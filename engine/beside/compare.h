/* SPDX-License-Identifier: MIT
 * compare.h - one prompt through two kernel sets with their numerics: where they part, by how much, and whether it
 * shows in the answer.
 * Threads: one, with a pool of its own. Locks: none.
 *
 * Op by op on A's inputs, which says what each op adds; stream by stream as each set runs on its own, which says what
 * it adds up to; then logits, and the greedy answers. */
#ifndef ENGINE_COMPARE_H
#define ENGINE_COMPARE_H

#include "engine/beside/beside.h"

struct compare_side {
	const struct kset *kset;
	struct numerics numerics;
};

struct compare_options {
	const struct model *model;
	struct pool *pool;
	struct compare_side a, b;      /* a is the reference */
	const int32_t *tokens;         /* the prompt, [n_tokens], at least 1 */
	int n_tokens;
	int max_tokens;                /* of each greedy answer; 0: none */
	size_t max_bytes;              /* of A's results kept for B; 0: default 64 MiB. A token's always fit */
	/* All on the caller's thread; NULL: none. Tokens run so far, of both sides; an end before its time. */
	void (*progress)(void *arg, int64_t done, int64_t total);
	bool (*stop)(void *arg);
	void *arg;
};

/* Both sides' own streams after a layer, and what was chosen in it. */
struct compare_layer {
	struct op_diff streams;        /* worst_at: the position */
	struct op_diff experts, rows;  /* sets; rows only where the layer has an indexer */
};

#define COMPARE_TOP 10

/* Over all positions that both sides computed from the same tokens. */
struct compare_logits {
	struct op_diff diff;
	uint64_t n, same_top;          /* positions; of them where the best token is the same */
	double kl, worst_kl;           /* sum and worst of KL(a || b), nats */
	int64_t worst_pos;             /* -1: none */
	struct op_diff top;            /* the COMPARE_TOP best, as sets */
};

struct compare_result {
	int n_prompt;
	struct beside_row *op;         /* [n_op]: B's op on A's inputs, with B's numerics in its arguments */
	int n_op;
	uint64_t failures;             /* B's ops that could not be run so; why has the first */
	struct buf why;
	struct compare_layer *layer;   /* [n_layer] */
	int n_layer;
	struct compare_logits logits;
	int32_t *out[2];               /* greedy answers of a and b, [n_out]; an end-of-sentence token is the last */
	int n_out[2];
	int first_diff;                /* index of the first token that differs, or that one has and the other not;
					* -1: none */
	bool broken[2];                /* the answer ended because the logits were no numbers */
};

/* RC_CONTEXT, RC_INVALID, RC_KERNEL (a set's own run failed), RC_CANCELLED (stop), -ENOMEM. */
int compare_run(const struct compare_options *o, struct compare_result *ret_r, struct buf *why);
void compare_result_fini(struct compare_result *r);

#endif
