/* SPDX-License-Identifier: MIT
 * bisect_ask.c - one candidate of the search: run as often as it takes, and remembered.
 * Threads: any, one at a time per search. Locks: none. */
#include "daemon/probes/bisect_priv.h"
#include "engine/base/must.h"

#include <stddef.h>

/* By so many must one verdict of a probe that samples lead where a culprit is named. Where one of ten is wrong, a lead
 * of three is wrong once in 700 times. */
#define BISECT_LEAD 3

/* The middle one of the verdicts; none when there are none, or two that differ are in the middle. */
static int bisect_middle(int *level, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && level[k - 1] > level[k]; k--) {
			int t = level[k];

			level[k] = level[k - 1];
			level[k - 1] = t;
		}
	if (n == 0 || level[(n - 1) / 2] != level[n / 2])
		return BISECT_NO_LEVEL;
	return level[n / 2];
}

/* Is the middle of `repeat` verdicts known before all are there? */
static bool bisect_decided(const struct bisect *b, const struct bisect_known *k)
{
	int same = 0;

	if (!b->o->sampled)
		return k->n_vote > 0;
	for (int i = 0; i < k->n_vote; i++)
		same += k->vote[i] == k->vote[k->n_vote - 1];
	return same > b->o->repeat / 2;
}

/* One run. False: there is none left for it, or it failed. */
static bool bisect_vote(struct bisect *b, struct bisect_known *k)
{
	int one;

	if (b->rc || b->r->runs == b->o->max_runs)
		return false;
	b->r->runs++;
	b->rc = b->o->oracle(b->o->arg, k->candidate, &one);
	if (b->rc == 0 && one != BISECT_NO_LEVEL && k->n_vote < BISECT_VOTES)
		k->vote[k->n_vote++] = one;
	return b->rc == 0;
}

/* Runs it as often as it takes. */
static bool bisect_try(struct bisect *b, struct bisect_known *k)
{
	for (int i = 0; i < b->o->repeat && !bisect_decided(b, k); i++)
		if (!bisect_vote(b, k))
			return false;
	k->level = bisect_middle(k->vote, k->n_vote);
	return true;
}

struct bisect_known *bisect_find(const struct bisect *b, uint64_t candidate)
{
	for (int i = 0; i < b->n_known; i++)
		if (b->known[i].candidate == candidate)
			return &b->known[i];
	return NULL;
}

bool bisect_level(struct bisect *b, uint64_t candidate, int *ret_level)
{
	struct bisect_known *k = bisect_find(b, candidate);

	if (!k) {
		if (b->rc || b->r->runs == b->o->max_runs)
			return false;
		must(b->n_known < b->o->max_runs);
		k = &b->known[b->n_known];
		*k = (struct bisect_known){ .candidate = candidate };
		if (!bisect_try(b, k))
			return false;
		b->n_known++;
	}
	*ret_level = k->level;
	return true;
}

enum bisect_seen bisect_see(struct bisect *b, uint64_t candidate)
{
	int level;

	if (!bisect_level(b, candidate, &level))
		return BISECT_SPENT;
	if (level == BISECT_NO_LEVEL)
		return BISECT_UNSURE;
	return level >= b->r->bad_level ? BISECT_BAD : BISECT_GOOD;
}

/* How many more of its verdicts are bad than good. */
static int bisect_lead(const struct bisect *b, const struct bisect_known *k)
{
	int lead = 0;

	for (int i = 0; i < k->n_vote; i++)
		lead += k->vote[i] >= b->r->bad_level ? 1 : -1;
	return lead;
}

enum bisect_seen bisect_sure(struct bisect *b, uint64_t candidate)
{
	enum bisect_seen s = bisect_see(b, candidate);
	int want = b->o->repeat < BISECT_LEAD ? b->o->repeat : BISECT_LEAD, lead;
	struct bisect_known *k = bisect_find(b, candidate);

	if (!b->o->sampled || !k)
		return s;
	for (int i = k->n_vote; i < BISECT_VOTES && (lead = bisect_lead(b, k)) < want && lead > -want; i++)
		if (!bisect_vote(b, k))
			return BISECT_SPENT;
	lead = bisect_lead(b, k);
	return lead >= want ? BISECT_BAD : lead <= -want ? BISECT_GOOD : BISECT_UNSURE;
}
