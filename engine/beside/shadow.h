/* SPDX-License-Identifier: MIT
 * shadow.h - a second kernel set beside a share of the engine's steps, its output thrown away, its distance kept.
 * Threads: control starts, stops and reports; the engine thread steps. Lock: beside's.
 *
 * Held against one set: the one that was active when it started. What other sets compute is left alone and
 * counted, since figures of several sets in one table would be those of none. */
#ifndef ENGINE_SHADOW_H
#define ENGINE_SHADOW_H

#include "engine/beside/beside.h"

struct shadow;

/* One reference, the caller's. Takes over the pin of *ks and nulls it. 0 < share <= 1, else RC_INVALID (the pin
 * stays the caller's). */
int shadow_new(struct kset **ks, const struct kset *against, double share, int n_layers, struct shadow **ret_s,
	struct buf *why);
struct shadow *shadow_ref(struct shadow *s);
/* The last one frees, and unpins the set; it may be the engine thread's. NULL is fine. */
void shadow_unref(struct shadow **s);

/* A step begins: is it one of the share? The steps taken are spread evenly, in no rhythm. */
void shadow_step(struct shadow *s);
/* What a batch of the step, run by ks, is to be watched by; NULL: not at all. */
const struct forward_watch *shadow_watch(struct shadow *s, const struct kset *ks);

struct shadow_report {
	char *set, *against;                /* names */
	uint64_t generation, against_generation;
	double share;
	uint64_t steps, taken;              /* since the start; of them in the share */
	uint64_t batches, other_batches;    /* of steps taken: run beside; run by other sets and left alone */
	uint64_t failures;
	struct buf why;                     /* the first failure */
	struct beside_row *row;             /* [n_row] */
	int n_row;
};
/* A copy of the figures, while steps go on; the caller's, to be given to shadow_report_fini(). */
void shadow_report(struct shadow *s, struct shadow_report *ret_r);
void shadow_report_fini(struct shadow_report *r);

#endif
