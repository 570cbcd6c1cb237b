/* SPDX-License-Identifier: MIT
 * cycle.c - does a growing list of tokens go in circles: the same few, or the same thousand, again and again.
 * Threads: any, one at a time per object. Locks: none. */
#include "engine/base/cycle.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

struct cycle {
	int at;                         /* where the latest token stands; those before it follow */
	int32_t token[2 * CYCLE_MAX];   /* -1: nothing yet */
	int32_t run[CYCLE_MAX];         /* [p]: the latest tokens that equal the one p + 1 before */
};

struct cycle *cycle_new(void)
{
	struct cycle *c = mem_new(sizeof *c);

	c->at = CYCLE_MAX;
	memset(c->token, -1, sizeof c->token);
	return c;
}

void cycle_free(struct cycle **c)
{
	free(*c);
	*c = NULL;
}

/* A fixed number of like steps without a branch, so that compilers make vectors of it. */
static int32_t cycle_extend(int32_t *restrict run, const int32_t *restrict before, int32_t token, int32_t least)
{
	int32_t any = 0;

	for (int32_t p = 0; p < CYCLE_MAX; p++) {
		int32_t need = CYCLE_TIMES * (p + 1), n = before[p] == token ? run[p] + 1 : 0;

		need = need < least ? least : need;
		run[p] = n;
		any |= n >= need;
	}
	return any;
}

int cycle_put(struct cycle *c, int32_t token, int least)
{
	int p = 0;

	must(token >= 0);
	if (c->at == 0) {
		memcpy(c->token + CYCLE_MAX, c->token, CYCLE_MAX * sizeof *c->token);
		c->at = CYCLE_MAX;
	}
	if (!cycle_extend(c->run, c->token + c->at, token, least))
		p = -1;
	c->token[--c->at] = token;
	if (p < 0)
		return 0;
	while (c->run[p] < least || c->run[p] < CYCLE_TIMES * (p + 1))
		p++;
	return p + 1;
}
