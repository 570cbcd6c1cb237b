/* SPDX-License-Identifier: MIT
 * fake_recall.c - the fake engine's memory of earlier answers.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

/* Knows the calls named call_known, whose answer had reasoning, and call_plain, whose had none: everyone's. */
struct recall *engine_recall(const struct engine *e, const char *label)
{
	(void)e;
	(void)label;
	return mem_new(1);
}

bool recall_reasoning(struct recall *r, const char *call_id, struct buf *out)
{
	(void)r;
	if (!strcmp(call_id, "call_known"))
		buf_adds(out, "as I thought");
	return !strcmp(call_id, "call_known") || !strcmp(call_id, "call_plain");
}

void recall_free(struct recall **r)
{
	free(*r);
	*r = NULL;
}
