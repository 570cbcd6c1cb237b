/* SPDX-License-Identifier: MIT
 * bisect.h - which of n changes makes a verdict bad: a search that asks for as few runs as it can.
 * Threads: any, one at a time per search. Locks: none.
 *
 * It knows nothing of kernels: a candidate is a set of changes, bit i for change i, and the oracle runs it once.
 * Nothing bad (0) is the good end, all of them the bad end; both are run first.
 *
 * First as if one change did it and needed no other: halving takes 2 + log2(n) runs, both ends with them, and chooses
 * the candidates so that one run more tells it from two that are needed together and from two that do it each. Where
 * that does not hold, the culprit is looked for on a chain of growing candidates that begins good and ends bad: halving
 * it ends at a change that flips the verdict, however the others act together. If that change does not do it alone, the
 * others it needs are looked for in the same way among those before it; needed together, k take about k log2(n). That
 * fewer changes are never worse is not assumed there: what is told is what was run.
 *
 * Of a probe that samples, what is to be named is run until its verdicts are sure, alone and as what is left out. */
#ifndef DAEMON_BISECT_H
#define DAEMON_BISECT_H

#include <stdbool.h>
#include <stdint.h>

#define BISECT_MAX_CHANGES 64
#define BISECT_MAX_CULPRITS 8
#define BISECT_MAX_RUNS 1000
#define BISECT_NO_LEVEL (-1)    /* a run without a verdict */

/* Runs the candidate once. *ret_level: how bad it is, from 0, or BISECT_NO_LEVEL. A negative code ends the search. */
typedef int bisect_oracle_f(void *arg, uint64_t candidate, int *ret_level);

struct bisect_options {
	int n;                      /* changes: 1 to BISECT_MAX_CHANGES */
	const double *weight;       /* [n] how likely each is the culprit, > 0; NULL: all the same;
				     * of 8 they only order */
	int repeat;                 /* runs of one candidate at most */
	bool sampled;               /* verdicts differ from run to run: the middle one of `repeat` counts */
	bool confirm;               /* found is only what mends the bad end, and if it does not it is searched on */
	int max_runs;               /* 2 to BISECT_MAX_RUNS */
	bisect_oracle_f *oracle; void *arg;
};

enum bisect_outcome {
	BISECT_FOUND,
	BISECT_AGREE,       /* the bad end is no worse than the good one */
	BISECT_NO_VERDICT,  /* an end came to none */
	BISECT_UNSETTLED    /* the runs were used up, or the candidates in question came to no verdict */
};

/* Changes that make the verdict bad together. */
struct bisect_culprit {
	uint64_t changes;
	bool alone;         /* proven: with these alone it is bad */
	bool minimal;       /* and without any one of them it is not */
};

enum bisect_fix {
	BISECT_FIX_UNTRIED, /* no run was left for it, or it was not to be confirmed */
	BISECT_FIX_GOOD,    /* the bad end without the culprits is not bad */
	BISECT_FIX_IMPLIED, /* not run itself, but every other change was in a candidate that is not bad */
	BISECT_FIX_BAD,     /* it still is */
	BISECT_FIX_UNSURE
};

struct bisect_result {
	enum bisect_outcome outcome;
	int good_level, bad_level; /* of the ends */
	int runs;
	struct bisect_culprit culprit[BISECT_MAX_CULPRITS]; /* each does it without the others */
	int n_culprit;
	uint64_t left;      /* of an unsettled search: what is still suspected */
	enum bisect_fix fix;
};

/* 0, or the oracle's code; *ret_r is filled as far as it came in any case. */
int bisect_run(const struct bisect_options *o, struct bisect_result *ret_r);

#endif
