/* SPDX-License-Identifier: MIT
 * grammar_check.c - the checks of a finished grammar: it can be followed without end, and to an end.
 * Threads: who builds it. Locks: none. */
#include "engine/constrain/grammar.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#define GRAMMAR_STEPS_PER_HEIGHT 2

/* ---- heights ---- */

static uint8_t grammar_min(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static uint8_t grammar_max(uint8_t a, uint8_t b)
{
	return a > b ? a : b;
}

static uint8_t grammar_rule_height(const struct grammar *g, uint32_t rule)
{
	const struct grammar_rule *r = &g->rule[rule];
	int h = g->node[r->entry].height + r->nests;

	return h > GRAMMAR_MAX_DEPTH ? GRAMMAR_NEVER : (uint8_t)h;
}

static uint8_t grammar_height(const struct grammar *g, const struct grammar_node *n)
{
	uint8_t h = GRAMMAR_NEVER, next = n->op == GRAMMAR_BYTES ? 0 : g->node[n->next].height;
	uint32_t i;

	switch ((enum grammar_op)n->op) {
	case GRAMMAR_RETURN:
		return 0;
	case GRAMMAR_BYTES:
		for (i = 0; i < n->n; i++)
			h = grammar_min(h, g->node[g->edge[n->arg + i].next].height);
		return h;
	case GRAMMAR_EITHER:
		return grammar_min(next, g->node[n->arg].height);
	case GRAMMAR_CALL:
		return grammar_max(next, grammar_rule_height(g, n->arg));
	case GRAMMAR_JUMP:
	case GRAMMAR_COUNT:
	case GRAMMAR_BELOW:
	case GRAMMAR_FROM:
	default:
		return next;
	}
}

static bool grammar_heights_pass(struct grammar *g, bool up)
{
	bool changed = false;
	uint32_t i;

	for (i = 0; i < g->n_node; i++) {
		struct grammar_node *n = &g->node[up ? i : g->n_node - 1 - i];
		uint8_t h = grammar_height(g, n);

		changed |= h != n->height;
		n->height = h;
	}
	return changed;
}

/* The least fixed point from above: heights only sink. In both directions in turn, since nodes are made after
 * what follows them but rules in any order. */
static void grammar_heights(struct grammar *g)
{
	uint32_t i;
	bool up = true;

	for (i = 0; i < g->n_node; i++)
		g->node[i].height = GRAMMAR_NEVER;
	while (!g->full && grammar_heights_pass(g, up)) {
		grammar_work(g, (uint64_t)GRAMMAR_STEPS_PER_HEIGHT * (g->n_node + g->n_edge));
		up = !up;
	}
}

int grammar_finish(struct grammar *g, uint32_t root, struct buf *why)
{
	enum grammar_reached reached = GRAMMAR_REACHED;
	uint32_t i;

	for (i = 0; i < g->n_rule && !g->full; i++)
		must(g->rule[i].defined);
	g->root = root;
	reached = grammar_reach(g, &i);
	if (!g->full && reached == GRAMMAR_REACHED)
		grammar_heights(g);
	if (g->full)
		return buf_why(why, RC_TOO_LARGE, "needs more than %d rules or %d nodes, or too much work",
			       GRAMMAR_MAX_RULES, GRAMMAR_MAX_NODES);
	if (reached == GRAMMAR_REACHED_CIRCLE)
		return buf_why(why, RC_INVALID, "refers to itself without anything between");
	if (reached == GRAMMAR_REACHED_MANY)
		return buf_why(why, RC_TOO_LARGE, "more than %d alternatives at one place", GRAMMAR_MAX_FORK);
	if (grammar_rule_height(g, root) == GRAMMAR_NEVER)
		return buf_why(why, RC_INVALID, "nothing satisfies it, or only what is nested deeper than %d",
			       GRAMMAR_MAX_DEPTH);
	return 0;
}
