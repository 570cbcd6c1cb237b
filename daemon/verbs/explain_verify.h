/* SPDX-License-Identifier: MIT
 * explain_verify.h - the top-k at which the indexer would take a text: tried, not concluded from its ranks.
 * Threads: ops runs it, control reads it afterwards. Locks: none.
 *
 * Ranks tell the smallest top-k of the first layer with an indexer only: later ones choose by what that one, and
 * earlier tokens, had seen, so a larger top-k changes their scores. The tokens are computed again under the top-k in
 * question until one takes the text and the next smaller one does not. That a larger one takes it, too, is not
 * assumed. */
#ifndef DAEMON_EXPLAIN_VERIFY_H
#define DAEMON_EXPLAIN_VERIFY_H

#include "daemon/verbs/explain_ask.h"

#define EXPLAIN_RERUNS 12
#define EXPLAIN_MAX_RERUNS 64
#define EXPLAIN_ALL (-1)       /* instead of a layer: each of them */

/* SOME: a row of the text; WHOLE: rows that hold all of it. */
enum explain_want { EXPLAIN_SOME, EXPLAIN_WHOLE, EXPLAIN_N_WANT };

/* Under one top-k, of one place in one layer. */
struct explain_took {
	bool took[EXPLAIN_N_WANT];
	bool exact;                    /* no other top-k changes the ranks */
	int32_t topk[EXPLAIN_N_WANT];  /* with which it would, ranks being as they are; 0: no row holds it */
};

struct explain_tried {
	int topk;
	struct explain_took *took;     /* [n_place][n_layer] */
};

/* Runs the same tokens under another top-k; *ret_r is explain_result_fini()shed by who asked. */
typedef int explain_again_f(void *arg, int topk, struct explain_result *ret_r, struct buf *why);

/* Start from zeroes; place, n_place, reruns, again and arg are filled by who wants it. */
struct explain_verify {
	const struct token_span *place;
	int n_place, n_layer;
	int reruns;                    /* at most */
	explain_again_f *again; void *arg;

	struct explain_tried tried[EXPLAIN_MAX_RERUNS + 1]; /* the first is the run that there was */
	int n_tried, most;             /* most: the rows that there are; with so many all are taken */
	int *found;                    /* [n_place][n_layer + 1][EXPLAIN_N_WANT]; 0: not verified */
	struct buf why;                /* not verified, if anything is not */
};

/* Of what the run did not take. RC_CANCELLED; whatever else goes wrong is told in `why`. */
int explain_verify(struct explain_verify *v, const struct explain_result *first);
void explain_verify_fini(struct explain_verify *v);

/* The smallest that was seen to take it while one less does not; 0: it is not known. layer: its index. */
int explain_verified(const struct explain_verify *v, int place, int layer, enum explain_want want);

#endif
