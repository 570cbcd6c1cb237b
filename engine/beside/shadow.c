/* SPDX-License-Identifier: MIT
 * shadow.c - a second kernel set beside a share of the engine's steps, its output thrown away, its distance kept.
 * Threads: control starts, stops and reports; the engine thread steps. Lock: beside's; counters are atomics. */
#include "engine/beside/shadow.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdatomic.h>
#include <stdlib.h>

struct shadow {
	atomic_int refs;
	struct kset *kset;
	char *against;                 /* the name of the set it is held against, and its generation */
	uint64_t against_generation;
	double share;
	struct beside *beside;
	bool take;                     /* the engine thread's: this step is one of the share */
	atomic_ullong steps, taken, batches, other_batches;
};

int shadow_new(struct kset **ks, const struct kset *against, double share, int n_layers, struct shadow **ret_s,
	struct buf *why)
{
	struct shadow *s;

	if (!(share > 0 && share <= 1))
		return buf_why(why, RC_INVALID, "share: %g is not above 0 and up to 1", share);
	s = mem_new(sizeof *s);
	atomic_init(&s->refs, 1);
	s->kset = *ks;
	*ks = NULL;
	s->against = mem_strdup(kset_name(against));
	s->against_generation = kset_generation(against);
	s->share = share;
	s->beside = beside_new(s->kset, NULL, n_layers);
	*ret_s = s;
	return 0;
}

struct shadow *shadow_ref(struct shadow *s)
{
	must(atomic_fetch_add(&s->refs, 1) > 0);
	return s;
}

void shadow_unref(struct shadow **ps)
{
	struct shadow *s = *ps;

	*ps = NULL;
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	beside_free(&s->beside);
	kset_unpin(&s->kset);
	free(s->against);
	free(s);
}

/* Multiples of the golden ratio lie evenly in [0, 1) and repeat in no rhythm, so that a share of one half does not
 * come to see every prefill and no decode. */
void shadow_step(struct shadow *s)
{
	uint64_t n = atomic_fetch_add(&s->steps, 1);

	s->take = s->share >= 1 || (double)(n * 0x9e3779b97f4a7c15u) * 0x1p-64 < s->share;
	atomic_fetch_add(&s->taken, s->take);
}

const struct forward_watch *shadow_watch(struct shadow *s, const struct kset *ks)
{
	bool ours = kset_generation(ks) == s->against_generation;

	if (!s->take)
		return NULL;
	atomic_fetch_add(ours ? &s->batches : &s->other_batches, 1);
	return ours ? beside_watch(s->beside) : NULL;
}

void shadow_report(struct shadow *s, struct shadow_report *ret_r)
{
	*ret_r = (struct shadow_report){
		.set = mem_strdup(kset_name(s->kset)),
		.against = mem_strdup(s->against),
		.generation = kset_generation(s->kset),
		.against_generation = s->against_generation,
		.share = s->share,
		.steps = atomic_load(&s->steps),
		.taken = atomic_load(&s->taken),
		.batches = atomic_load(&s->batches),
		.other_batches = atomic_load(&s->other_batches),
	};
	ret_r->failures = beside_failures(s->beside, &ret_r->why);
	ret_r->n_row = beside_rows(s->beside, &ret_r->row);
}

void shadow_report_fini(struct shadow_report *r)
{
	free(r->set);
	free(r->against);
	free(r->row);
	buf_fini(&r->why);
	*r = (struct shadow_report){ 0 };
}
