/* SPDX-License-Identifier: MIT
 * bisect_priv.h - what the parts of the search share: bisect.c, bisect_ask.c, bisect_chain.c.
 * Threads: any, one at a time per search. Locks: none. */
#ifndef DAEMON_BISECT_PRIV_H
#define DAEMON_BISECT_PRIV_H

#include "daemon/probes/bisect.h"

#define BISECT_VOTES 64 /* of one candidate at most */

enum bisect_seen {
	BISECT_GOOD,
	BISECT_BAD,
	BISECT_UNSURE,
	BISECT_SPENT        /* no run is left, or the oracle failed */
};

struct bisect_known {
	uint64_t candidate;
	int level;                     /* what its verdicts come to */
	int vote[BISECT_VOTES], n_vote; /* each, rising once they were counted */
};

struct bisect {
	const struct bisect_options *o;
	struct bisect_result *r;
	struct bisect_known *known;    /* [max_runs] */
	int n_known;
	int rc;
	int order[BISECT_MAX_CHANGES]; /* the likeliest first */
};

static inline uint64_t bisect_bit(int i)
{
	return (uint64_t)1 << i;
}

double bisect_weight(const struct bisect *b, int change);

/* ---- bisect_ask.c ---- */

/* NULL: it was not run yet. */
struct bisect_known *bisect_find(const struct bisect *b, uint64_t candidate);
/* Of this search or from memory. False: it cannot be had any more. */
bool bisect_level(struct bisect *b, uint64_t candidate, int *ret_level);
/* Bad is what is as bad as the bad end. */
enum bisect_seen bisect_see(struct bisect *b, uint64_t candidate);
/* The same, of a probe that samples run on until one verdict leads far enough; UNSURE: none does. */
enum bisect_seen bisect_sure(struct bisect *b, uint64_t candidate);

/* ---- bisect_chain.c ---- */

/* Among changes that are bad together, while none of them is good. False: not settled, r->left says how far. */
bool bisect_culprit(struct bisect *b, uint64_t among, struct bisect_culprit *ret_p);

#endif
