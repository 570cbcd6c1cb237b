/* SPDX-License-Identifier: MIT
 * pace.h - how much of a prompt a step computes beside decoding, so that no stream waits long for its next token.
 * Threads: engine. Locks: none. */
#ifndef ENGINE_PACE_H
#define ENGINE_PACE_H

#define PACE_FLOOR 16 /* prompt tokens in a step at least, however slow they are: prefill never starves */

/* Seconds. The estimates are of what was seen last, 0 before anything was. Time decides the lengths of chunks alone, on
 * which no bit of any answer depends. */
struct pace {
	double gap;    /* that a step is to take at most beside decoding; 0: as long as it takes */
	double decode; /* estimate: of a step's decoding */
	double token;  /* estimate: of a prompt token, computed beside decoding in chunks like the last */
};

/* A step took so long for its decoding, and for `tokens` of prompts beside it; tokens 0: there were none. What is
 * computed beside nothing is not told: larger chunks cost less per token; nor what was waited for
 * (forward_waited()). */
void pace_ran(struct pace *p, double decode, double prefill, int tokens);

/* Prompt tokens that the next step may compute beside decoding: as many as fill up the gap, or take as long as the
 * decoding does if that is more; PACE_FLOOR at least, and until a token's cost is known. INT_MAX where gap is 0. */
int pace_tokens(const struct pace *p);

#endif
