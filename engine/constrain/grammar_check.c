/* SPDX-License-Identifier: MIT
 * grammar_check.c - the checks of a finished grammar: it can be followed without end, and to an end.
 * Threads: who builds it. Locks: none. */
#include "engine/constrain/grammar.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

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
	while (grammar_heights_pass(g, up))
		up = !up;
}

/* ---- calls without progress ---- */

/* What is known of a rule while rules are walked through what they can do before they consume. */
struct grammar_reach {
	bool *seen;            /* [n_node] */
	uint32_t *todo;        /* [n_node] */
	uint32_t *to;          /* [n_call] rules called before anything was consumed */
	uint32_t n_to, cap_to;
	bool *nullable;        /* [n_rule] may end without consuming */
};

static void grammar_reach_put(struct grammar_reach *r, uint32_t *n, uint32_t node)
{
	if (r->seen[node])
		return;
	r->seen[node] = true;
	r->todo[(*n)++] = node;
}

static void grammar_reach_call(struct grammar_reach *r, uint32_t rule)
{
	if (r->n_to == r->cap_to) {
		r->cap_to = r->cap_to ? 2 * r->cap_to : 64;
		r->to = mem_grow(r->to, r->cap_to, sizeof *r->to);
	}
	r->to[r->n_to++] = rule;
}

/* Appends the calls that the rule may make first to r->to; may it end first? */
static bool grammar_reach_rule(const struct grammar *g, struct grammar_reach *r, uint32_t rule)
{
	uint32_t n = 0, i = 0;
	bool ends = false;

	grammar_reach_put(r, &n, g->rule[rule].entry);
	for (; i < n; i++) {
		const struct grammar_node *x = &g->node[r->todo[i]];

		if (x->op == GRAMMAR_RETURN) {
			ends = true;
		} else if (x->op == GRAMMAR_CALL) {
			grammar_reach_call(r, x->arg);
			if (r->nullable[x->arg])
				grammar_reach_put(r, &n, x->next);
		} else if (x->op != GRAMMAR_BYTES) {
			grammar_reach_put(r, &n, x->next);
			if (x->op == GRAMMAR_EITHER)
				grammar_reach_put(r, &n, x->arg);
		}
	}
	for (i = 0; i < n; i++)
		r->seen[r->todo[i]] = false;
	return ends;
}

static void grammar_nullable(const struct grammar *g, struct grammar_reach *r)
{
	bool changed = true;
	uint32_t i;

	while (changed) {
		changed = false;
		for (i = 0; i < g->n_rule; i++) {
			r->n_to = 0;
			if (r->nullable[i] || !grammar_reach_rule(g, r, i))
				continue;
			changed = r->nullable[i] = true;
		}
	}
}

/* Takes away rules that nothing calls first any more; what is left calls in a circle. */
static bool grammar_circles(const struct grammar *g, struct grammar_reach *r)
{
	uint32_t *from = mem_grow(NULL, g->n_rule + 1, sizeof *from);
	uint32_t *callers = mem_grow(NULL, g->n_rule, sizeof *callers);
	uint32_t *free_rule = mem_grow(NULL, g->n_rule, sizeof *free_rule), n = 0, i, k;

	r->n_to = 0;
	for (i = 0; i < g->n_rule; i++) {
		callers[i] = 0;
		from[i] = r->n_to;
		grammar_reach_rule(g, r, i);
	}
	from[g->n_rule] = r->n_to;
	for (k = 0; k < r->n_to; k++)
		callers[r->to[k]]++;
	for (i = 0; i < g->n_rule; i++)
		if (callers[i] == 0)
			free_rule[n++] = i;
	for (i = 0; i < n; i++)
		for (k = from[free_rule[i]]; k < from[free_rule[i] + 1]; k++)
			if (--callers[r->to[k]] == 0)
				free_rule[n++] = r->to[k];
	free(from);
	free(callers);
	free(free_rule);
	return n < g->n_rule;
}

int grammar_finish(struct grammar *g, uint32_t root, struct buf *why)
{
	struct grammar_reach r = { 0 };
	uint32_t i;
	bool circles;

	if (g->full)
		return buf_why(why, RC_TOO_LARGE, "needs more than %d rules or %d nodes, or too much work",
			       GRAMMAR_MAX_RULES, GRAMMAR_MAX_NODES);
	for (i = 0; i < g->n_rule; i++)
		must(g->rule[i].defined);
	g->root = root;
	r.seen = mem_grow(NULL, g->n_node, sizeof *r.seen);
	r.todo = mem_grow(NULL, g->n_node, sizeof *r.todo);
	r.nullable = mem_grow(NULL, g->n_rule, sizeof *r.nullable);
	for (i = 0; i < g->n_node; i++)
		r.seen[i] = false;
	for (i = 0; i < g->n_rule; i++)
		r.nullable[i] = false;
	grammar_nullable(g, &r);
	circles = grammar_circles(g, &r);
	free(r.seen);
	free(r.todo);
	free(r.nullable);
	free(r.to);
	if (circles)
		return buf_why(why, RC_INVALID, "refers to itself without anything between");
	grammar_heights(g);
	if (grammar_rule_height(g, root) == GRAMMAR_NEVER)
		return buf_why(why, RC_INVALID, "nothing satisfies it, or only what is nested deeper than %d",
			       GRAMMAR_MAX_DEPTH);
	return 0;
}
