/* SPDX-License-Identifier: MIT
 * sequence_priv.h - the memory of a sequence, for the files that lay it out, fill it and share it.
 * Threads: as sequence.h. Locks: none. */
#ifndef ENGINE_SEQUENCE_PRIV_H
#define ENGINE_SEQUENCE_PRIV_H

#include "engine/model/sequence.h"

#include <stdatomic.h>

/* Rows of consecutive positions. Appending slides forward; when the end is reached the rows still needed move
 * to the front. A long prefill chunk makes it grow, the first short step after it shrink. */
struct sequence_rows_tail {
	float *data;
	int64_t pos0;          /* position of data[0] */
	int64_t cap;           /* rows */
};

/* Rows of 128 tokens, all layers; shared and never written again once full. */
struct sequence_block {
	atomic_int refs;
	struct device *device;
	float *data;
	/* The same rows on the other ranks, a reference each: since it was first shared or resumed with, else NULL. The
	 * engine thread alone looks. */
	struct sequence_block **other;
	int n_other;
};

struct sequence {
	const struct sequence_layout *layout;
	int64_t pos, mtp_pos;
	_Atomic size_t bytes;
	struct sequence_block **block;
	int64_t n_block, cap_block;
	const float **page;    /* [2 * n_layer][cap_block]: what struct dsv4_rows points to, where the rows lie */
	struct sequence_rows_tail *tail; /* [n_layer + 1][SEQUENCE_N_TAIL] */
	struct sequence **other; /* [layout->n_other]: of the other ranks */
};

static inline struct sequence_rows_tail *sequence_tail_of(const struct sequence *s, int layer, int t)
{
	return &s->tail[layer * SEQUENCE_N_TAIL + t];
}

/* The first position of a tail that tokens from pos on still need. Negative with overlap at the start: the
 * group before the first does not exist, but its place does. */
int64_t sequence_keep_from(const struct sequence_layout *l, const struct sequence_layer *y, int t, int64_t pos);
/* Rows a tail holds between steps: what is kept at most, and as much again to slide in. */
int64_t sequence_tail_base(const struct sequence_layout *l, const struct sequence_layer *y, int t);
/* Room for cap rows from position `from` on; those before pos are kept. q may be NULL for a tail without rows. */
int sequence_tail_resize(struct sequence *s, struct sequence_rows_tail *t, int width, int64_t from, int64_t pos,
	int64_t cap, struct queue *q);
/* Grows the arrays of pointers; both or neither. */
int sequence_grow_pages(struct sequence *s, int64_t cap);
/* Appends the block, for which there is room; takes the reference over. */
void sequence_put_block(struct sequence *s, struct sequence_block *b);
/* Back to position 0, with no block and no tail. */
void sequence_empty(struct sequence *s);

#endif
