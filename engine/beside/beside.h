/* SPDX-License-Identifier: MIT
 * beside.h - a second kernel set run beside a forward pass: each op on the same inputs, the results held side by side.
 * Threads: who runs the pass, with several GPUs each one's; any reads the figures. Lock: beside (own, short).
 *
 * In-place inputs are copied before the first set's op overwrites them, outputs go to memory of their own, and the
 * second op runs after the first: the pass's own bits are never touched. An op that fails here is counted.
 * With several GPUs all of them do so, each with its own heads, experts and rows of the head; figures are of all.
 * Where both ops are marked EXACT, have the same arguments and give other bits, their providers but ref are disproved
 * (provider_disprove()): at least one of them lies, and which of two plugins it is cannot be told. */
#ifndef ENGINE_BESIDE_H
#define ENGINE_BESIDE_H

#include "engine/model/forward.h"
#include "plugins/op/op_diff.h"

#define BESIDE_NAME_MAX 64

struct beside;

/* What one output of an op came to in one layer and phase. */
struct beside_row {
	enum dsv4_op op;
	enum dsv4_phase phase;
	int layer;                     /* -1: the head */
	const char *output;            /* its name in the argument struct */
	uint64_t calls;                /* compared */
	uint64_t same;                 /* not run: the same function with the same arguments in both sets */
	uint64_t failures;             /* runs that failed and could not be compared */
	struct op_diff diff;           /* of what was compared; the pass's own result is the reference */
	char worst_name[BESIDE_NAME_MAX]; /* whose row was the worst (diff.worst_row), and at which position */
	int64_t worst_pos;             /* -1: no row differs */
	int worst_rank;                /* on which of the model's GPUs; -1: there is one */
};

/* Both sets' ops run as the pass's do; ks is not pinned here. num: the second set's numerics, where other than the
 * pass's; NULL: the same. */
struct beside *beside_new(const struct kset *ks, const struct numerics *num, int n_layers);
/* NULL is fine. */
void beside_free(struct beside **b);
/* Asked before every op; true ends the pass with RC_CANCELLED. */
void beside_set_stop(struct beside *b, bool (*stop)(void *arg), void *arg);
/* What to give to forward_run(). */
const struct forward_watch *beside_watch(struct beside *b);
/* Every output that was met, in the order of ops, phases, layers; malloc'd, caller frees. Returns how many. */
int beside_rows(struct beside *b, struct beside_row **ret_rows);
/* Runs that failed; the first failure's text goes to why (NULL: not wanted). */
uint64_t beside_failures(struct beside *b, struct buf *why);

#endif
