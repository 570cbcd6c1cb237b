/* SPDX-License-Identifier: MIT
 * engine_limit.h - when work beside the running engine is to end: at a time, or when somebody says so.
 * Threads: who works; any sets the flag. Locks: none. */
#ifndef ENGINE_LIMIT_H
#define ENGINE_LIMIT_H

#include "engine/base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>

struct engine_limit {
	const atomic_bool *cancel;     /* NULL: nobody says so */
	long long deadline_ns;         /* 0: none */
	int seconds;
	bool late;
};

/* seconds 0: no time. */
void engine_limit_begin(struct engine_limit *l, int seconds, const atomic_bool *cancel);
/* Is it to end now? */
bool engine_limit_reached(struct engine_limit *l);
/* What the work ended with: RC_CANCELLED is RC_TIMEOUT if that was the time. what: "the comparison". */
int engine_limit_why(const struct engine_limit *l, int rc, const char *what, struct buf *why);

#endif
