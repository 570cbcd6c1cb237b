/* SPDX-License-Identifier: MIT
 * fake_recall.c - the fake engine's memory of earlier answers.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recall {
	char own[64]; /* the call that is known to who asks alone */
};

/* Knows the calls named call_known, whose answer had reasoning, and call_plain, whose had none: everyone's. And those
 * named "call of LABEL", whose answer had reasoning: that label's. */
struct recall *engine_recall(const struct engine *e, const char *label)
{
	struct recall *r = mem_new(sizeof *r);

	(void)e;
	snprintf(r->own, sizeof r->own, "call of %s", label);
	return r;
}

bool recall_reasoning(struct recall *r, const char *call_id, struct buf *out)
{
	bool known = !strcmp(call_id, "call_known") || !strcmp(call_id, r->own);

	if (known)
		buf_adds(out, "as I thought");
	return known || !strcmp(call_id, "call_plain");
}

void recall_free(struct recall **r)
{
	free(*r);
	*r = NULL;
}
