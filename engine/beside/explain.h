/* SPDX-License-Identifier: MIT
 * explain.h - what the indexer made of every compressed row at one position: its score, its rank, whether it was taken.
 * Threads: one, with a pool of its own. Locks: none.
 *
 * The tokens are computed again from the first, into a sequence of its own: what a prefix cache had is not asked.
 * Scores and choices are those of the set's own kernels, right or wrong; ranks are what the rule of the selection makes
 * of the scores (the higher score, then the lower row; NaN last), so a selection that is wrong shows as well.
 *
 * Where a token sees no more rows than top-k, all are taken and a kernel may leave without scoring; then its scores are
 * asked for once more, for the asking token alone. */
#ifndef ENGINE_EXPLAIN_H
#define ENGINE_EXPLAIN_H

#include "engine/beside/compare.h"

/* Tokens [begin, end). */
struct explain_span {
	int64_t begin, end;
};

struct explain_options {
	const struct model *model;
	struct pool *pool;
	struct compare_side side;
	const int32_t *tokens;         /* [n_tokens]; the last one asks */
	int n_tokens, n_prompt;        /* those from n_prompt on are decoded, one by one */
	int chunk;                     /* tokens of a prefill step; 0: default 512 */
	/* With these, not the last token asks, but of those from `first` (n_prompt - 1 or later) on the one for which
	 * most layers take a row of a span; of these the one with the best rank, then the first. */
	int first, n_span;
	const struct explain_span *span; /* [n_span]; before `first` */
	/* On the caller's thread; NULL: none. Tokens run so far; an end before its time. */
	void (*progress)(void *arg, int64_t done, int64_t total);
	bool (*stop)(void *arg);
	void *arg;
};

/* One layer with an indexer, at the asking position. */
struct explain_layer {
	int layer, ratio;
	int64_t n_row;                 /* rows that the token sees */
	int top_k;                     /* in force */
	float *score;                  /* [n_row]; NaN where there is but one row, which is not scored */
	int32_t *rank;                 /* [n_row], from 1 */
	bool *selected;                /* [n_row] */
	int64_t n_selected;
	int64_t n_misselected;         /* rows whose rank says otherwise than the selection */
	double last_score;             /* the worst among those selected; NaN: there is none */
};

struct explain_result {
	int64_t position;              /* that asks */
	struct explain_layer *layer;   /* [n_layer], rising */
	int n_layer;
};

/* RC_CONTEXT, RC_INVALID, RC_KERNEL, RC_CANCELLED (stop), -ENOMEM. */
int explain_run(const struct explain_options *o, struct explain_result *ret_r, struct buf *why);
void explain_result_fini(struct explain_result *r);
/* Bytes of the result for so many tokens. */
size_t explain_bytes(const struct model *m, int64_t n_tokens);

/* ---- the rows of a text ----
 *
 * Row n of ratio r pools two groups of r tokens: its own, [n r, n r + r), and the one before. So a token is held by two
 * rows: its group's, and the next one once that group is complete. Tokens of a group that is not complete yet are held
 * by none, and can be seen in the window only. */

/* How a layer took the rows that hold tokens [begin, end). */
struct explain_text {
	int64_t first, end;            /* those rows */
	int64_t n_selected;
	int64_t n_held, n_seen;        /* of the tokens: in a row, in a row that was taken */
	/* The smallest top-k with which, all else being as it is, this layer takes one of the rows; rows that hold
	 * every token that a row holds; every row. 0: there are none. */
	int32_t topk_any, topk_text, topk_all;
	double margin;                 /* the best row's score less that of the last row taken; NaN: not scored */
};
void explain_text(const struct explain_layer *l, int64_t begin, int64_t end, struct explain_text *ret_t);
/* Tokens [*ret_begin, *ret_end) that a row is pooled from. */
void explain_row_tokens(const struct explain_layer *l, int64_t row, int64_t *ret_begin, int64_t *ret_end);

#endif
