/* SPDX-License-Identifier: MIT
 * pace.c - how much of a prompt a step computes beside decoding, so that no stream waits long for its next token.
 * Threads: engine. Locks: none. */
#include "engine/serve/pace.h"
#include "engine/base/must.h"

#include <limits.h>

/* Half way to what was seen, and at most to twice the estimate: one step that waited for a disk or for another program
 * is soon forgotten. */
static double pace_toward(double estimate, double seen)
{
	double next = (estimate + seen) / 2;

	if (estimate == 0)
		return seen;
	return next < 2 * estimate ? next : 2 * estimate;
}

/* A chunk costs something however short it is (weights are read once for all of it), so that a token of a longer one
 * costs less than the estimate, of a shorter one more. Following the last chunk's cost still ends at the length that
 * fits, from below without ever passing it. */
void pace_ran(struct pace *p, double decode, double prefill, int tokens)
{
	must(decode >= 0 && prefill >= 0 && tokens >= 0);
	p->decode = pace_toward(p->decode, decode);
	if (tokens > 0)
		p->token = pace_toward(p->token, prefill / tokens);
}

int pace_tokens(const struct pace *p)
{
	double room = p->gap - p->decode > p->decode ? p->gap - p->decode : p->decode;

	if (p->gap == 0)
		return INT_MAX;
	if (room < PACE_FLOOR * p->token || p->token == 0)
		return PACE_FLOOR;
	return room < INT_MAX * p->token ? (int)(room / p->token) : INT_MAX;
}
