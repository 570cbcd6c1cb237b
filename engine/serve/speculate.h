/* SPDX-License-Identifier: MIT
 * speculate.h - drafts of the tokens that come next, for the next step to verify along with the one it must compute.
 * Threads: the engine thread. Locks: none.
 *
 * The model's draft block (mtp.h) reads the streams of the tokens just computed and says what may follow the token just
 * sampled; run again on what it has made of that, what may follow the draft. The next step feeds all of them. Then each
 * token of the answer is sampled from its own logits by the request's own rules and random numbers, as ever, and as
 * long as it is the one that had been drafted, the logits after it are there already. So neither the tokens nor the
 * bits of their logits depend on drafts, only the number of steps does.
 *
 * Of a prompt the block sees the last window's tokens, as far as they are computed: what the prefix cache had is
 * absent, and the first drafts are made with what there is. */
#ifndef ENGINE_SPECULATE_H
#define ENGINE_SPECULATE_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#define SPECULATE_MAX 4 /* drafts of a request in one step */

struct forward;
struct forward_tap;
struct model;
struct sampler_work;
struct sched_item;

/* What the drafts of a batch are made from. */
struct speculate;
/* For batches of so many requests. The model has a draft block, and outlives it. */
struct speculate *speculate_new(const struct model *m, int max_running);
void speculate_free(struct speculate **s);

/* Before a forward pass of the items: what is to look on at it; NULL when none of them will have drafts. */
const struct forward_tap *speculate_begin(struct speculate *s, const struct sched_item *item, int n);
/* After it: so many of item i's tokens stand, and the request has its next; 0: it has ended. */
void speculate_stand(struct speculate *s, int i, int n);
/* Then: gives those that decode their drafts. An error is nobody's but the drafts': whom it befell has none any more.
 * As of mtp_run(). */
int speculate_draft(struct speculate *s, struct forward *f, struct sampler_work *w, enum dsv4_phase phase,
	struct buf *why);

#endif
