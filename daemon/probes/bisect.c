/* SPDX-License-Identifier: MIT
 * bisect.c - which of n changes makes a verdict bad: a search that asks for as few runs as it can.
 * Threads: any, one at a time per search. Locks: none. */
#include "daemon/probes/bisect_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>

/* Of so few the weights say only which come first: halves of one size take the fewest runs wherever it is. */
#define BISECT_FEW 8

double bisect_weight(const struct bisect *b, int change)
{
	return b->o->weight ? b->o->weight[change] : 1;
}

static uint64_t bisect_everything(const struct bisect *b)
{
	return b->o->n == 64 ? ~(uint64_t)0 : bisect_bit(b->o->n) - 1;
}

/* What a likely culprit may take: both ends, the halving, one run that proves it. */
static int bisect_usual(const struct bisect *b)
{
	double all = 0, reach = b->o->n <= BISECT_FEW ? 1 : bisect_weight(b, b->order[0]);
	int runs = 3;

	for (int i = 0; i < b->o->n; i++)
		all += b->o->n <= BISECT_FEW ? 1 : bisect_weight(b, i);
	for (; reach < all; reach *= 2)
		runs++;
	return runs;
}

/* ---- one change alone ---- */

/* The suspects are what all bad candidates have and no good one. What a bad candidate did without the culprit does not
 * need; what was in a good one does not do it beside the culprit. */
struct bisect_single {
	uint64_t needed;    /* in every bad candidate */
	uint64_t cleared;   /* in a good one */
};

/* The half of the suspects that is tried: equally likely to have it as the other. */
static uint64_t bisect_half_of(const struct bisect *b, uint64_t suspects)
{
	double all = 0, sum = 0, w;
	uint64_t half = 0;

	for (int i = 0; i < b->o->n; i++)
		if (suspects >> i & 1)
			all += b->o->n <= BISECT_FEW ? 1 : bisect_weight(b, i);
	for (int i = 0; i < b->o->n; i++) {
		if (!(suspects >> b->order[i] & 1))
			continue;
		w = b->o->n <= BISECT_FEW ? 1 : bisect_weight(b, b->order[i]);
		if (half && sum + w / 2 > all / 2)
			break;
		if ((half | bisect_bit(b->order[i])) == suspects)
			break;
		half |= bisect_bit(b->order[i]);
		sum += w;
	}
	return half;
}

/* Down to one suspect. With the half goes all that a bad candidate did without, so that a good one clears as much as it
 * can, and nothing that was cleared but is still needed, so that a bad one leaves as little as it can. */
static enum bisect_seen bisect_single_narrow(struct bisect *b, struct bisect_single *g)
{
	for (;;) {
		uint64_t suspects = g->needed & ~g->cleared;
		uint64_t half = bisect_half_of(b, suspects), with = half | (bisect_everything(b) & ~g->needed);
		enum bisect_seen s;

		if (!(suspects & (suspects - 1)))
			return BISECT_BAD;
		s = bisect_see(b, with);
		if (s == BISECT_SPENT)
			b->r->left = suspects;
		if (s != BISECT_BAD && s != BISECT_GOOD)
			return s;
		if (s == BISECT_BAD)
			g->needed &= with;
		else
			g->cleared |= with;
	}
}

static bool bisect_known_as(const struct bisect *b, uint64_t candidate, enum bisect_seen s)
{
	const struct bisect_known *k = bisect_find(b, candidate);

	return k && k->level != BISECT_NO_LEVEL && (k->level >= b->r->bad_level) == (s == BISECT_BAD);
}

/* Is it the one, and alone? First the run that the halving did not make up for, then the other if that is no run too
 * many. GOOD: it is not. */
static enum bisect_seen bisect_single_prove(struct bisect *b, const struct bisect_single *g, uint64_t one)
{
	uint64_t rest = bisect_everything(b) & ~one;
	bool absence = g->needed == one && b->o->confirm;
	enum bisect_seen s = bisect_see(b, absence ? rest : one), want = absence ? BISECT_GOOD : BISECT_BAD;

	if (s != want)
		return s == BISECT_SPENT ? s : BISECT_GOOD;
	if (b->r->runs < bisect_usual(b) && b->r->runs < b->o->max_runs) {
		s = bisect_see(b, absence ? one : rest);
		if (s == BISECT_SPENT)
			return s;
		return s == (absence ? BISECT_BAD : BISECT_GOOD) ? BISECT_BAD : BISECT_GOOD;
	}
	return BISECT_BAD;
}

static enum bisect_fix bisect_single_fix(const struct bisect *b, const struct bisect_single *g, uint64_t one)
{
	uint64_t rest = bisect_everything(b) & ~one;

	if (bisect_known_as(b, rest, BISECT_GOOD))
		return BISECT_FIX_GOOD;
	return (g->cleared | one) == bisect_everything(b) ? BISECT_FIX_IMPLIED : BISECT_FIX_UNTRIED;
}

/* As if it were one change that needs no other. BAD: it is, and named; SPENT; else it is not that easy. */
static enum bisect_seen bisect_single(struct bisect *b)
{
	struct bisect_single g = { .needed = bisect_everything(b) };
	struct bisect_result *r = b->r;
	enum bisect_seen s = bisect_single_narrow(b, &g);
	uint64_t one = g.needed & ~g.cleared;

	if (s == BISECT_BAD)
		s = bisect_single_prove(b, &g, one);
	if (s == BISECT_SPENT && !(one & (one - 1)))
		r->left = one;
	if (s != BISECT_BAD)
		return s;
	r->culprit[r->n_culprit++] = (struct bisect_culprit){ .changes = one, .minimal = true,
							      .alone = bisect_known_as(b, one, BISECT_BAD) };
	r->fix = bisect_single_fix(b, &g, one);
	r->outcome = BISECT_FOUND;
	return s;
}

/* ---- whatever it is ---- */

/* The bad end without the culprits, if that is known, wanted, or within what is usual. */
static enum bisect_seen bisect_try_fix(struct bisect *b, uint64_t rest)
{
	struct bisect_result *r = b->r;
	enum bisect_seen s;

	if (!bisect_find(b, rest) && !b->o->confirm && r->n_culprit == 1 && b->n_known >= bisect_usual(b))
		return BISECT_GOOD;
	s = bisect_see(b, rest);
	r->fix = s == BISECT_GOOD ? BISECT_FIX_GOOD : s == BISECT_BAD ? BISECT_FIX_BAD :
		 s == BISECT_UNSURE ? BISECT_FIX_UNSURE : BISECT_FIX_UNTRIED;
	return s;
}

static void bisect_any(struct bisect *b)
{
	uint64_t rest = bisect_everything(b);
	struct bisect_result *r = b->r;
	enum bisect_seen s = BISECT_BAD;

	while (s == BISECT_BAD && r->n_culprit < BISECT_MAX_CULPRITS) {
		if (!bisect_culprit(b, rest, &r->culprit[r->n_culprit])) {
			r->outcome = BISECT_UNSETTLED;
			return;
		}
		rest &= ~r->culprit[r->n_culprit++].changes;
		s = bisect_try_fix(b, rest);
	}
	/* A fix that was wanted and could not be tried settles nothing. */
	r->outcome = s == BISECT_BAD || (b->o->confirm && s != BISECT_GOOD) ? BISECT_UNSETTLED : BISECT_FOUND;
	r->left = s == BISECT_BAD ? rest : 0;
}

/* ---- of samples ---- */

/* Each that is named does it alone and needs all of itself; without them it is gone. */
static bool bisect_holds(struct bisect *b)
{
	struct bisect_result *r = b->r;
	uint64_t rest = bisect_everything(b);

	for (int i = 0; i < r->n_culprit; i++) {
		uint64_t c = r->culprit[i].changes;

		rest &= ~c;
		if (bisect_sure(b, c) != BISECT_BAD)
			return false;
		for (int k = 0; k < b->o->n && c & (c - 1); k++)
			if ((c >> k & 1) && bisect_sure(b, c & ~bisect_bit(k)) != BISECT_GOOD)
				return false;
		r->culprit[i].alone = r->culprit[i].minimal = true;
	}
	if (bisect_sure(b, rest) != BISECT_GOOD)
		return false;
	r->fix = BISECT_FIX_GOOD;
	return true;
}

/* Votes that were wrong on the way name who is innocent: what is named is run again until it is sure. */
static void bisect_settle(struct bisect *b)
{
	struct bisect_result *r = b->r;

	if (!b->o->sampled || r->outcome != BISECT_FOUND || bisect_holds(b))
		return;
	r->outcome = BISECT_UNSETTLED;
	r->n_culprit = 0;
	r->fix = BISECT_FIX_UNTRIED;
	r->left = bisect_everything(b);
}

/* ---- all of it ---- */

static void bisect_search(struct bisect *b)
{
	enum bisect_seen s = bisect_single(b);

	if (s == BISECT_SPENT)
		b->r->outcome = BISECT_UNSETTLED;
	else if (s != BISECT_BAD)
		bisect_any(b);
	bisect_settle(b);
}

static void bisect_sort(struct bisect *b)
{
	for (int i = 0; i < b->o->n; i++) {
		int k = i;

		for (; k > 0 && bisect_weight(b, b->order[k - 1]) < bisect_weight(b, i); k--)
			b->order[k] = b->order[k - 1];
		b->order[k] = i;
	}
}

static void bisect_ends(struct bisect *b)
{
	struct bisect_result *r = b->r;

	if (!bisect_level(b, 0, &r->good_level) || !bisect_level(b, bisect_everything(b), &r->bad_level) ||
	    r->good_level == BISECT_NO_LEVEL || r->bad_level == BISECT_NO_LEVEL)
		return;
	if (r->bad_level <= r->good_level)
		r->outcome = BISECT_AGREE;
	else
		bisect_search(b);
}

int bisect_run(const struct bisect_options *o, struct bisect_result *ret_r)
{
	struct bisect b = { .o = o, .r = ret_r };

	must(o->n > 0 && o->n <= BISECT_MAX_CHANGES && o->repeat > 0 && o->max_runs > 1 &&
	     o->max_runs <= BISECT_MAX_RUNS && o->repeat <= BISECT_VOTES);
	*ret_r = (struct bisect_result){ .outcome = BISECT_NO_VERDICT, .good_level = BISECT_NO_LEVEL,
					 .bad_level = BISECT_NO_LEVEL };
	b.known = mem_new((size_t)o->max_runs * sizeof *b.known);
	bisect_sort(&b);
	bisect_ends(&b);
	free(b.known);
	return b.rc;
}
