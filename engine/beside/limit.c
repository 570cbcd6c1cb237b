/* SPDX-License-Identifier: MIT
 * limit.c - when work beside the running engine is to end: at a time, or when somebody says so.
 * Threads: who works; any sets the flag. Locks: none. */
#include "engine/beside/limit.h"
#include "engine/base/clock.h"
#include "engine/base/rc.h"

void limit_begin(struct limit *l, int seconds, const atomic_bool *cancel)
{
	*l = (struct limit){ .cancel = cancel, .seconds = seconds };
	if (seconds > 0)
		l->deadline_ns = clock_ns() + seconds * 1000000000LL;
}

bool limit_reached(struct limit *l)
{
	l->late = l->deadline_ns && clock_ns() > l->deadline_ns;
	return l->late || (l->cancel && atomic_load(l->cancel));
}

int limit_why(const struct limit *l, int rc, const char *what, struct buf *why)
{
	if (rc != RC_CANCELLED)
		return rc;
	if (l->late)
		return buf_why(why, RC_TIMEOUT, "%s took more than %d s", what, l->seconds);
	return buf_why(why, rc, "%s was cancelled", what);
}
