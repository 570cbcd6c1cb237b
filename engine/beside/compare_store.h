/* SPDX-License-Identifier: MIT
 * compare_store.h - A's streams, experts and rows of one step, kept for B to be held against.
 * Threads: as compare.h. Locks: none. */
#ifndef ENGINE_COMPARE_STORE_H
#define ENGINE_COMPARE_STORE_H

#include "engine/beside/compare.h"
#include "engine/model/model.h"

struct compare_store {
	const struct model *model;
	struct compare_layer *layer;   /* [n_layers], the figures */
	int64_t pos0;                  /* of the step's first token */
	int n_tok, n_cap;              /* in the step; room for so many */
	int64_t ldr;                   /* room for so many rows per token */
	float *streams;                /* [n_layers][n_cap][hc][hidden] */
	int32_t *expert;               /* [n_layers][n_cap][k] */
	int32_t *row, *count;          /* [n_layers][n_cap][ldr], [n_layers][n_cap] */
	struct forward_tap keep, hold; /* for A's run, then for B's */
};

/* Bytes that a token needs, when the longest choice has ldr rows. */
size_t compare_store_bytes(const struct model *m, int64_t ldr);
/* Room for steps of n_tok tokens; -ENOMEM. */
int compare_store_init(struct compare_store *s, const struct model *m, struct compare_layer *layer, int n_tok,
	int64_t ldr);
void compare_store_fini(struct compare_store *s);
/* The next step's tokens, before A runs them. */
void compare_store_begin(struct compare_store *s, int64_t pos0, int n_tok);

#endif
