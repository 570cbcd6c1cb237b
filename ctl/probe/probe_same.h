/* SPDX-License-Identifier: MIT
 * probe_same.h - are two answers the same: reasoning, content, calls, and log-probabilities where both have them.
 * Private to ctl/probe. Threads: one at a time. Locks: none. */
#ifndef CTL_PROBE_SAME_H
#define CTL_PROBE_SAME_H

#include "ctl/probe/probe_run.h"

struct probe_same {
	double tolerance;   /* log-probabilities so far apart count as equal */
	double apart;       /* the largest distance met so far */
	int compared;       /* log-probabilities held against each other so far */
};

/* False: `what` says what differs first, and where. */
bool probe_same(struct probe_same *s, const struct probe_answer *a, const struct probe_answer *b, struct buf *what);

#endif
