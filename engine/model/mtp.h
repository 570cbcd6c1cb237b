/* SPDX-License-Identifier: MIT
 * mtp.h - the draft block of V4-Flash: logits of the token after next (doc/format.md 5.1).
 * Threads: as forward.h. Locks: none. */
#ifndef ENGINE_MTP_H
#define ENGINE_MTP_H

#include "engine/model/forward.h"

/* The next n positions of a sequence's draft block, from sequence_mtp_pos() on. */
struct mtp_item {
	struct sequence *seq;
	const float *streams;      /* [n][hc][hidden]: after the last layer, as a tap gets them */
	const int32_t *next;       /* [n]: the token after each position */
	int n, n_logits;           /* as in struct forward_item */
};

struct mtp_batch {
	const struct kset *kset;
	const struct numerics *numerics;
	enum dsv4_phase phase;
	const struct mtp_item *item;
	int n_item;
	const struct forward_tap *tap;
	float *logits;             /* [sum of n_logits][vocab_size]: of the token after `next` */
	/* 0: the positions are committed. Else each item is one position, the so many-th after those, of a draft that
	 * is made from a draft, and is not: it will be written again. */
	int ahead;
};

/* Errors and their effect as forward_run; RC_UNSUPPORTED for a model without the block. */
int mtp_run(struct forward *f, const struct mtp_batch *b, struct buf *why);

#endif
