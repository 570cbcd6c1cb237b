/* SPDX-License-Identifier: MIT
 * bisect_chain.c - the search that takes nothing for granted: along a chain of growing candidates, with its proofs.
 * Threads: any, one at a time per search. Locks: none. */
#include "daemon/probes/bisect_priv.h"

/* ---- the chain ---- */

/* From `with`, which is good, to `with` and all of the chain, which is bad. */
struct bisect_chain {
	uint64_t with;
	int change[BISECT_MAX_CHANGES];
	int n;
	int lo, hi;         /* with the first lo it is good, with the first hi bad */
};

static uint64_t bisect_part(const struct bisect_chain *c, int from, int to)
{
	uint64_t m = 0;

	for (int i = from; i < to; i++)
		m |= bisect_bit(c->change[i]);
	return m;
}

/* Where the halves are equally likely to have it. */
static int bisect_half(const struct bisect *b, const struct bisect_chain *c)
{
	double all = 0, sum = 0;
	int at = c->lo;

	for (int i = c->lo; i < c->hi; i++)
		all += bisect_weight(b, c->change[i]);
	while (at < c->hi - 1 && sum + bisect_weight(b, c->change[at]) / 2 <= all / 2)
		sum += bisect_weight(b, c->change[at++]);
	return at > c->lo ? at : c->lo + 1;
}

/* Narrows the chain at `at`. */
static enum bisect_seen bisect_cut(struct bisect *b, struct bisect_chain *c, int at)
{
	enum bisect_seen s = bisect_see(b, c->with | bisect_part(c, 0, at));

	if (s == BISECT_BAD)
		c->hi = at;
	else if (s == BISECT_GOOD)
		c->lo = at;
	return s;
}

/* At the half, or, where that comes to no verdict, as near to it as one is to be had. */
static enum bisect_seen bisect_cut_somewhere(struct bisect *b, struct bisect_chain *c)
{
	int half = bisect_half(b, c), lo = c->lo, hi = c->hi;

	for (int far = 0; far < hi - lo; far++)
		for (int side = -1; side <= 1; side += 2) {
			int at = half + side * far;
			enum bisect_seen s;

			if (at <= lo || at >= hi || (far == 0 && side > 0))
				continue;
			s = bisect_cut(b, c, at);
			if (s != BISECT_UNSURE)
				return s;
		}
	return BISECT_UNSURE;
}

/* Of the last two, does one do it without those before them? Then it is named and proven by one and the same run. */
static enum bisect_seen bisect_last_two(struct bisect *b, struct bisect_chain *c)
{
	for (int at = c->lo; at < c->lo + 2; at++) {
		enum bisect_seen s = bisect_see(b, c->with | bisect_bit(c->change[at]));

		if (s == BISECT_SPENT)
			return s;
		if (s == BISECT_BAD) {
			c->lo = at;
			c->hi = at + 1;
			return s;
		}
	}
	return BISECT_GOOD;
}

/* Until one change is left, or several that cannot be told apart (BISECT_UNSURE). */
static enum bisect_seen bisect_narrow(struct bisect *b, struct bisect_chain *c)
{
	enum bisect_seen s = BISECT_BAD;

	while (c->hi - c->lo > 1 && s != BISECT_UNSURE && s != BISECT_SPENT) {
		s = c->hi - c->lo == 2 && c->lo > 0 ? bisect_last_two(b, c) : BISECT_GOOD;
		if (c->hi - c->lo > 1 && s != BISECT_SPENT)
			s = bisect_cut_somewhere(b, c);
	}
	return s;
}

/* ---- a culprit ---- */

/* Leaves out one change that is not needed. BAD: there was one; GOOD: each is needed; UNSURE: who knows. */
static enum bisect_seen bisect_leave_out(struct bisect *b, struct bisect_culprit *p)
{
	enum bisect_seen worst = BISECT_GOOD;

	for (int i = 0; i < b->o->n; i++) {
		uint64_t without = p->changes & ~bisect_bit(i);
		enum bisect_seen s = without == p->changes || !without ? BISECT_GOOD : bisect_see(b, without);

		if (s == BISECT_BAD) {
			p->changes = without;
			return s;
		}
		worst = s == BISECT_GOOD ? worst : BISECT_UNSURE;
	}
	return worst;
}

/* Where leaving one out comes to no verdict, one of them may still do it alone. */
static enum bisect_seen bisect_single_out(struct bisect *b, struct bisect_culprit *p)
{
	for (int i = 0; i < b->o->n; i++)
		if ((p->changes & bisect_bit(i)) && bisect_see(b, bisect_bit(i)) == BISECT_BAD) {
			p->changes = bisect_bit(i);
			return BISECT_GOOD;
		}
	return BISECT_UNSURE;
}

static void bisect_minimize(struct bisect *b, struct bisect_culprit *p)
{
	enum bisect_seen s;

	do
		s = bisect_leave_out(b, p);
	while (s == BISECT_BAD);
	if (s == BISECT_UNSURE)
		s = bisect_single_out(b, p);
	p->minimal = s == BISECT_GOOD;
}

static void bisect_chain_init(const struct bisect *b, uint64_t among, struct bisect_chain *c)
{
	*c = (struct bisect_chain){ .n = 0 };
	for (int i = 0; i < b->o->n; i++)
		if (among & bisect_bit(b->order[i]))
			c->change[c->n++] = b->order[i];
	c->hi = c->n;
}

bool bisect_culprit(struct bisect *b, uint64_t among, struct bisect_culprit *ret_p)
{
	enum bisect_seen s = BISECT_GOOD;
	struct bisect_chain c;

	bisect_chain_init(b, among, &c);
	do {
		s = bisect_narrow(b, &c);
		if (s == BISECT_SPENT) {
			b->r->left = c.with | bisect_part(&c, c.lo, c.hi);
			return false;
		}
		c.with |= bisect_part(&c, c.lo, c.hi);
		c.hi = c.n = c.lo;
		c.lo = 0;
		s = bisect_see(b, c.with);
	} while (s == BISECT_GOOD && c.hi > 0);
	*ret_p = (struct bisect_culprit){ .changes = c.with, .alone = s == BISECT_BAD };
	if (ret_p->alone)
		bisect_minimize(b, ret_p);
	return true;
}
