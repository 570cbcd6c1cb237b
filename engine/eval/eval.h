/* SPDX-License-Identifier: MIT
 * eval.h - runs cases of a vector file through a model, keeps every layer's numbers; compares two such files.
 * Threads: one. Locks: none. */
#ifndef ENGINE_EVAL_H
#define ENGINE_EVAL_H

#include "engine/model/forward.h"
#include "engine/model/model.h"
#include "engine/checkpoint/tensorfile.h"

struct eval_options {
	const struct model *model;
	struct pool *pool;
	const struct kset *kset;
	struct numerics numerics;
	int chunk;           /* tokens per step; 1: every step is a decode step */
	bool top_only;       /* only the logits, no layers, no MTP */
};

/* For every NAME with NAME.tokens [T] and NAME.positions [P] in `in`, adds to `out`: both, NAME.logits, and
 * unless top_only NAME.streams.L, .experts.L, .rows.L, .margin.L and .mtp. L counts layers from 0.
 * RC_INVALID: a tensor of the input is missing or wrong; why names it. Else as forward_run. */
int eval_run(const struct eval_options *o, const struct tensorfile *in, struct tensorfile *out,
	struct buf *why);

/* What two files may differ by. Floats are judged by their relative RMS per position, rms(a - b) / rms(b). */
struct eval_limits {
	double worst, median;  /* over the positions of one tensor; < 0: not judged */
	double gap;            /* top-1 must agree where b's two highest logits are further apart than this */
	double sets;           /* share of all positions whose experts, and whose rows, agree as sets */
	double margin;         /* rows count where NAME.margin.L in b is above this */
	const char *only;      /* "logits,rows": compare these parts only; NULL: all */
};

/* Compares what a and b have in common and appends a table. Returns the number of tensors beyond the limits, those of
 * different shapes included, those with a NaN in both (but for NAME.mtp at the last token), and sets over all tensors
 * as one; -1 when nothing is common. */
int eval_diff(const struct tensorfile *a, const struct tensorfile *b, const struct eval_limits *l,
	struct buf *out);

#endif
