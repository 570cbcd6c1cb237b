/* SPDX-License-Identifier: MIT
 * limit.h - when work beside the running engine is to end: at a time, or when somebody says so.
 * Threads: who works; any sets the flag. Locks: none. */
#ifndef ENGINE_LIMIT_H
#define ENGINE_LIMIT_H

#include "engine/base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>

struct limit {
	const atomic_bool *cancel;     /* NULL: nobody says so */
	long long deadline_ns;         /* 0: none */
	int seconds;
	bool late;
};

/* seconds 0: no time. */
void limit_begin(struct limit *l, int seconds, const atomic_bool *cancel);
/* Is it to end now? */
bool limit_reached(struct limit *l);
/* What the work ended with: RC_CANCELLED is RC_TIMEOUT if that was the time. what: "the comparison". */
int limit_why(const struct limit *l, int rc, const char *what, struct buf *why);

#endif
