/* SPDX-License-Identifier: MIT
 * loopguard.c - watches an answer for loops while it is made: words, lines and tokens, each part of it by itself.
 * Threads: who submits makes it, then the engine thread. Locks: none. */
#include "engine/serve/loopguard.h"
#include "engine/base/cycle.h"
#include "engine/base/mem.h"
#include "engine/base/repetition.h"

#include <limits.h>
#include <stdlib.h>

/* Lines of a part that are told apart; a loop's own lines are never among those forgotten. */
#define LOOPGUARD_LINES 1024

struct loopguard {
	struct gen_guard limit;
	struct gen_loop loop;
	enum gen_part part;                  /* that the latest text belongs to */
	bool forced;                         /* the token that comes is not the model's choice */
	struct repetition said[GEN_N_PART];
	struct cycle *cycle;
};

struct loopguard *loopguard_new(const struct gen_guard *want, enum gen_part first)
{
	struct loopguard *g = mem_new(sizeof *g);

	g->limit = *want;
	if (want->say != GEN_GUARD_ON) {
		g->limit.maxrun = GEN_GUARD_MAXRUN;
		g->limit.maxline = GEN_GUARD_MAXLINE;
		g->limit.period = GEN_GUARD_PERIOD;
	}
	g->part = first;
	for (int p = 0; p < GEN_N_PART; p++)
		repetition_init(&g->said[p], LOOPGUARD_LINES);
	g->cycle = cycle_new();
	return g;
}

void loopguard_free(struct loopguard **pg)
{
	struct loopguard *g = *pg;

	if (!g)
		return;
	*pg = NULL;
	for (int p = 0; p < GEN_N_PART; p++)
		repetition_fini(&g->said[p]);
	cycle_free(&g->cycle);
	free(g);
}

void loopguard_forced(struct loopguard *g, bool forced)
{
	g->forced = forced;
}

void loopguard_text(struct loopguard *g, enum gen_part part, const char *text, size_t len)
{
	g->part = part;
	if (!g->loop.kind && !g->forced)
		repetition_put(&g->said[part], text, len);
}

static bool loopguard_over(uint64_t figure, int limit)
{
	return limit && figure >= (uint64_t)limit;
}

bool loopguard_token(struct loopguard *g, int32_t token, int n)
{
	const struct repetition_figures *f = repetition_settled(&g->said[g->part]);
	int circle;

	if (g->loop.kind || g->forced)
		return false;
	circle = cycle_put(g->cycle, token, g->limit.period ? g->limit.period : INT_MAX);
	if (loopguard_over(f->maxrun, g->limit.maxrun))
		g->loop = (struct gen_loop){ .kind = GEN_LOOP_WORD, .count = (int)f->maxrun };
	else if (loopguard_over(f->maxchain, g->limit.maxline))
		g->loop = (struct gen_loop){ .kind = GEN_LOOP_LINE, .count = (int)f->maxchain };
	else if (circle)
		g->loop = (struct gen_loop){ .kind = GEN_LOOP_PERIOD, .count = circle };
	if (!g->loop.kind)
		return false;
	g->loop.part = g->part;
	g->loop.token = n;
	g->loop.ended = g->limit.say == GEN_GUARD_ON;
	return true;
}

const struct gen_loop *loopguard_loop(const struct loopguard *g)
{
	return &g->loop;
}

const char *loopguard_part_name(enum gen_part p)
{
	static const char *const names[] = { "reasoning", "content", "arguments" };

	return names[p];
}

void loopguard_describe(const struct gen_loop *l, struct buf *out)
{
	if (l->kind == GEN_LOOP_WORD)
		buf_printf(out, "one word %d times in a row", l->count);
	else if (l->kind == GEN_LOOP_LINE)
		buf_printf(out, "one line %d times", l->count);
	else if (l->kind == GEN_LOOP_PERIOD)
		buf_printf(out, "the same %d tokens again and again", l->count);
}
