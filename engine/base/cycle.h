/* SPDX-License-Identifier: MIT
 * cycle.h - does a growing list of tokens go in circles: the same few, or the same thousand, again and again.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef BASE_CYCLE_H
#define BASE_CYCLE_H

#include <stdint.h>

#define CYCLE_MAX 1024 /* tokens of the longest circle that is seen */
#define CYCLE_TIMES 4  /* a circle has to be repeated so often at least, after its first time */

struct cycle;

struct cycle *cycle_new(void);
void cycle_free(struct cycle **c);
/* The next token (not negative). Returns the length of the shortest circle in which the list now ends, such that its
 * last `least` tokens, and those of CYCLE_TIMES rounds, are each the one that stands a circle before; 0: none. It
 * takes the time to look at CYCLE_MAX tokens, which are all that is kept. */
int cycle_put(struct cycle *c, int32_t token, int least);

#endif
