/* SPDX-License-Identifier: MIT
 * explain_ask.h - what io.dsv4.Kernels.Explain is asked: which tokens, where the text is in them, which of them asks.
 * Threads: control. Locks: none. */
#ifndef DAEMON_EXPLAIN_ASK_H
#define DAEMON_EXPLAIN_ASK_H

#include "daemon/control/call.h"
#include "engine/engine.h"

#define EXPLAIN_MAX_TEXT 4096 /* bytes */
#define EXPLAIN_MAX_PLACES 16
#define EXPLAIN_MAX_BEST 512 /* positions that are tried for the best */

/* Start from zeroes. */
struct explain_ask {
	int32_t *id;                   /* [n], the prompt and what was generated */
	int n, n_prompt;
	int position;                  /* that asks; with `best` the last that may */
	bool best;                     /* of the positions from the prompt's last on, the one that
					* suits the text best */
	int n_found;                   /* places of the text in the prompt */
	int n_place;                   /* of which these are asked about */
	struct token_span place[EXPLAIN_MAX_PLACES];
	int number[EXPLAIN_MAX_PLACES]; /* the how manieth each is, from 1 */
	struct numerics numerics;      /* the request's */
	uint64_t generation;           /* of the set that computed that position for it */
};

/* By the call's parameters request, text, occurrence, at, asking. RC_NOT_FOUND, RC_INVALID; why names the parameter and
 * has nothing of the prompt in it, as it may be logged. */
int explain_ask_fill(struct explain_ask *a, const struct call *c, struct buf *why);
void explain_ask_fini(struct explain_ask *a);

#endif
