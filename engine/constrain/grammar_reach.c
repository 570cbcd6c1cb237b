/* SPDX-License-Identifier: MIT
 * grammar_reach.c - what each node of a grammar leads to before anything is consumed: whether an end, how many ways.
 * Threads: who builds it. Locks: none. */
#include "engine/constrain/grammar.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

enum grammar_reach_stage {
	GRAMMAR_REACH_NEW, GRAMMAR_REACH_FIRST, GRAMMAR_REACH_SECOND, GRAMMAR_REACH_DONE
};

struct grammar_walk {
	struct grammar *g;
	uint32_t *open;        /* nodes on the way to the current one */
	uint32_t n_open, cap_open;
	bool circle;
};

static void grammar_walk_to(struct grammar_walk *w, uint32_t node)
{
	struct grammar_reach *r = &w->g->reach[node];

	w->circle |= r->stage == GRAMMAR_REACH_FIRST || r->stage == GRAMMAR_REACH_SECOND;
	if (r->stage != GRAMMAR_REACH_NEW)
		return;
	r->stage = GRAMMAR_REACH_FIRST;
	if (w->n_open == w->cap_open) {
		w->cap_open = w->cap_open ? 2 * w->cap_open : 256;
		w->open = mem_grow(w->open, w->cap_open, sizeof *w->open);
	}
	w->open[w->n_open++] = node;
}

/* What a node leads to at once: its first and second; GRAMMAR_NO_LIMIT for none. A call's second is known when its
 * first is: what follows a rule that may be empty. */
static uint32_t grammar_reach_child(const struct grammar *g, const struct grammar_node *n, bool second)
{
	switch ((enum grammar_op)n->op) {
	case GRAMMAR_RETURN:
	case GRAMMAR_BYTES:
		return GRAMMAR_NO_LIMIT;
	case GRAMMAR_EITHER:
		return second ? n->arg : n->next;
	case GRAMMAR_CALL:
		if (!second)
			return g->rule[n->arg].entry;
		return g->reach[g->rule[n->arg].entry].ends ? n->next : GRAMMAR_NO_LIMIT;
	case GRAMMAR_JUMP:
	case GRAMMAR_COUNT:
	case GRAMMAR_BELOW:
	case GRAMMAR_FROM:
	default:
		return second ? GRAMMAR_NO_LIMIT : n->next;
	}
}

/* Each way by itself, though two may lead to the same place: never too few. */
static void grammar_reach_add(const struct grammar *g, struct grammar_reach *r, const struct grammar_node *n)
{
	for (int second = 0; second < 2; second++) {
		uint32_t child = grammar_reach_child(g, n, second);
		const struct grammar_reach *c = &g->reach[child == GRAMMAR_NO_LIMIT ? 0 : child];

		if (child == GRAMMAR_NO_LIMIT)
			continue;
		r->ways += c->ways;
		r->forms += c->forms;
		r->nodes += c->nodes;
		r->ends |= c->ends && (n->op != GRAMMAR_CALL || second);
	}
}

/* ---- places with many ways, which are counted again ---- */

struct grammar_recount {
	uint32_t node[GRAMMAR_MAX_PASS];
	uint32_t slot[4 * GRAMMAR_MAX_PASS]; /* an open hash of nodes + 1 */
	uint32_t n, ways, forms, nodes;
};

/* False: there are too many. */
static bool grammar_recount_put(struct grammar_recount *x, uint32_t node)
{
	uint32_t at = node * 0x9e3779b1u >> 8;

	for (; x->slot[at % mem_countof(x->slot)]; at++)
		if (x->slot[at % mem_countof(x->slot)] == node + 1)
			return true;
	if (x->n == GRAMMAR_MAX_PASS)
		return false;
	x->slot[at % mem_countof(x->slot)] = node + 1;
	x->node[x->n++] = node;
	return true;
}

static bool grammar_recount_node(const struct grammar *g, struct grammar_recount *x, const struct grammar_node *n)
{
	uint32_t child[2] = { grammar_reach_child(g, n, false), grammar_reach_child(g, n, true) };

	x->ways += n->op == GRAMMAR_BYTES && n->n > 0;
	x->forms += n->op == GRAMMAR_CALL && g->rule[n->arg].form;
	x->nodes++;
	/* A rule that is come back from is followed once for each call, as automaton_ways_call() does. */
	if (n->op == GRAMMAR_CALL && (n->next != GRAMMAR_END || g->rule[n->arg].nests)) {
		x->ways += g->reach[child[0]].ways;
		x->forms += g->reach[child[0]].forms;
		x->nodes += g->reach[child[0]].nodes;
		child[0] = GRAMMAR_NO_LIMIT;
	}
	for (int i = 0; i < 2; i++)
		if (child[i] != GRAMMAR_NO_LIMIT && !grammar_recount_put(x, child[i]))
			return false;
	return x->ways <= GRAMMAR_MAX_FORK && x->forms <= GRAMMAR_MAX_FORMS && x->nodes <= GRAMMAR_MAX_PASS;
}

/* The same node once, however many ways lead to it. False: still too many. */
static bool grammar_reach_recount(struct grammar *g, uint32_t node)
{
	struct grammar_recount *x = mem_new(sizeof *x);
	bool fits = grammar_recount_put(x, node);

	for (uint32_t i = 0; i < x->n && fits; i++)
		fits = grammar_recount_node(g, x, &g->node[x->node[i]]);
	grammar_work(g, (uint64_t)8 * x->n + mem_countof(x->slot) / 8);
	g->reach[node].ways = x->ways;
	g->reach[node].forms = x->forms;
	g->reach[node].nodes = x->nodes;
	free(x);
	return fits;
}

/* ---- all nodes ---- */

/* False: the node leads to too much. */
static bool grammar_reach_done(struct grammar *g, uint32_t node)
{
	struct grammar_reach *r = &g->reach[node];
	const struct grammar_node *n = &g->node[node];

	r->stage = GRAMMAR_REACH_DONE;
	r->ways = n->op == GRAMMAR_BYTES && n->n > 0;
	r->forms = n->op == GRAMMAR_CALL && g->rule[n->arg].form;
	r->nodes = 1;
	r->ends = n->op == GRAMMAR_RETURN;
	grammar_reach_add(g, r, n);
	if (r->ways <= GRAMMAR_MAX_FORK && r->forms <= GRAMMAR_MAX_FORMS && r->nodes <= GRAMMAR_MAX_PASS)
		return true;
	return grammar_reach_recount(g, node);
}

/* From one node on, what it leads to first. */
static bool grammar_reach_from(struct grammar_walk *w, uint32_t node)
{
	grammar_walk_to(w, node);
	while (w->n_open && !w->circle && !w->g->full) {
		uint32_t at = w->open[w->n_open - 1], child;
		struct grammar_reach *r = &w->g->reach[at];

		if (r->stage == GRAMMAR_REACH_DONE || r->stage == GRAMMAR_REACH_SECOND) {
			w->n_open--;
			if (!grammar_reach_done(w->g, at)) {
				w->open[0] = at;
				return false;
			}
			continue;
		}
		child = grammar_reach_child(w->g, &w->g->node[at], r->seconds);
		if (r->seconds)
			r->stage = GRAMMAR_REACH_SECOND;
		r->seconds = true;
		if (child != GRAMMAR_NO_LIMIT)
			grammar_walk_to(w, child);
	}
	return true;
}

enum grammar_reached grammar_reach(struct grammar *g, uint32_t *ret_node)
{
	struct grammar_walk w = { .g = g };
	enum grammar_reached found = GRAMMAR_REACHED;
	uint32_t i;

	if (g->full)
		return GRAMMAR_REACHED;
	g->reach = mem_grow(g->reach, g->n_node, sizeof *g->reach);
	memset(g->reach + g->n_reach, 0, (g->n_node - g->n_reach) * sizeof *g->reach);
	for (i = g->n_reach; i < g->n_node && found == GRAMMAR_REACHED && !g->full; i++) {
		if (!grammar_reach_from(&w, i)) {
			*ret_node = w.open[0];
			found = GRAMMAR_REACHED_MANY;
		} else if (w.circle) {
			found = GRAMMAR_REACHED_CIRCLE;
		}
	}
	grammar_work(g, g->n_node - g->n_reach);
	g->n_reach = g->n_node;
	free(w.open);
	return found;
}
