/* SPDX-License-Identifier: MIT
 * bisect_changes.h - what lies between two kernel sets with their numerics, change by change, and any mixture of both.
 * Threads: control makes it, ops mixes. Locks: none.
 *
 * A change is one op in one phase, for all weight formats, or one parameter. A parameter that chooses kernels
 * (choices.def) is one change with the slots that round as it says: one without the other is nobody's set. */
#ifndef DAEMON_BISECT_CHANGES_H
#define DAEMON_BISECT_CHANGES_H

#include "daemon/probes/bisect.h"
#include "engine/engine.h"

/* Borrowed: the sets' owner has them pinned. */
struct bisect_end {
	struct kset *kset;
	const struct kset_overlay *ov; int n_ov; /* what it was built from */
	struct numerics numerics;
};

struct bisect_change {
	uint64_t slots;            /* bits op * DSV4_N_PHASE + phase */
	uint64_t parameters;       /* bits of numerics_table */
	struct buf text;           /* "index_topk.decode: avx2 -> forgets" */
	struct buf why;            /* why it is not taken apart; empty: it is one thing */
};

struct bisect_changes {
	struct bisect_end good, bad;
	struct bisect_change change[BISECT_MAX_CHANGES];
	double weight[BISECT_MAX_CHANGES];  /* how likely: little where both sides' kernels are believed to be exact */
	int n;
};

/* Takes over neither set. */
void bisect_changes_find(const struct bisect_end *good, const struct bisect_end *bad, struct bisect_changes *ret_c);
void bisect_changes_fini(struct bisect_changes *c);
/* The good end with these changes (bit i: change i); *ret_ks is a pin. RC_TOO_LARGE when no
 * list of overlays says it. */
int bisect_changes_mix(const struct bisect_changes *c, uint64_t which, struct kset **ret_ks, struct numerics *ret_n,
		       struct buf *why);
/* The commands that take these changes back, one per line: from the bad end, when that is `active` with `now` in force,
 * else whatever is. */
int bisect_changes_undo(const struct bisect_changes *c, uint64_t which, const struct kset *active,
			const struct numerics *now, struct buf *out, struct buf *why);

#endif
