/* SPDX-License-Identifier: MIT
 * automaton_ways.c - an automaton's next state in the making: passes what consumes nothing,
 * until each way waits for a byte.
 * Threads: one at a time per object. Locks: none. */
#include "engine/constrain/automaton_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

void automaton_ways_put(struct automaton *a, uint32_t node, uint32_t frame, uint32_t count)
{
	/* A way whose end is out of reach is none. */
	if (a->g->node[node].height + a->frame[frame].depth > GRAMMAR_MAX_DEPTH)
		return;
	a->todo = automaton_store_room(a->todo, a->n_todo, &a->cap_todo, sizeof *a->todo);
	a->todo[a->n_todo++] = (struct automaton_way){ node, frame, count };
}

void automaton_ways_passed_grow(struct automaton *a)
{
	struct automaton_passed *old = a->passed;
	uint32_t n = old ? a->mask_passed + 1 : 0, i, at;

	a->mask_passed = n ? 2 * n - 1 : 255;
	a->passed = mem_new((a->mask_passed + 1) * sizeof *a->passed);
	for (i = 0; i < n; i++) {
		if (old[i].round != a->round)
			continue;
		at = automaton_store_hash(&old[i].way, sizeof old[i].way, 1);
		while (a->passed[at & a->mask_passed].round == a->round)
			at++;
		a->passed[at & a->mask_passed] = old[i];
	}
	free(old);
}

/* Was it passed before, for this state? It is from now on. */
static bool automaton_ways_passed(struct automaton *a, const struct automaton_way *w)
{
	uint32_t at = automaton_store_hash(w, sizeof *w, 1);

	for (; a->passed[at & a->mask_passed].round == a->round; at++)
		if (memcmp(&a->passed[at & a->mask_passed].way, w, sizeof *w) == 0)
			return true;
	a->passed[at & a->mask_passed] = (struct automaton_passed){ *w, a->round };
	if (2 * ++a->n_passed > a->mask_passed)
		automaton_ways_passed_grow(a);
	return false;
}

static void automaton_ways_keep(struct automaton *a, const struct automaton_way *w)
{
	a->made[a->n_made++] = *w;
	/* What is kept leads to an end: others need not be looked for. */
	if (a->n_made == a->most_ways)
		a->n_todo = 0;
}

static void automaton_ways_call(struct automaton *a, const struct automaton_way *w)
{
	const struct grammar_node *n = &a->g->node[w->node];
	const struct grammar_rule *r = &a->g->rule[n->arg];
	struct automaton_frame f = { w->frame, n->next, w->count, a->frame[w->frame].depth + r->nests };

	/* A call that is a rule's last act needs no way back, and then chains of them need no memory. */
	if (n->next == GRAMMAR_END && !r->nests)
		automaton_ways_put(a, r->entry, w->frame, 0);
	else
		automaton_ways_put(a, r->entry, automaton_store_frame(a, &f), 0);
}

static void automaton_ways_return(struct automaton *a, const struct automaton_way *w)
{
	const struct automaton_frame f = a->frame[w->frame];

	if (w->frame == 0)
		a->may_end = true;
	else
		automaton_ways_put(a, f.node, f.parent, f.count);
}

/* Passes what consumes nothing. */
static void automaton_ways_pass(struct automaton *a, const struct automaton_way *w)
{
	const struct grammar_node *n = &a->g->node[w->node];

	switch ((enum grammar_op)n->op) {
	case GRAMMAR_BYTES:
		automaton_ways_keep(a, w);
		break;
	case GRAMMAR_RETURN:
		automaton_ways_return(a, w);
		break;
	case GRAMMAR_CALL:
		automaton_ways_call(a, w);
		break;
	case GRAMMAR_EITHER:
		automaton_ways_put(a, n->arg, w->frame, w->count);
		automaton_ways_put(a, n->next, w->frame, w->count);
		break;
	case GRAMMAR_COUNT:
		automaton_ways_put(a, n->next, w->frame, w->count < n->arg ? w->count + 1 : n->arg);
		break;
	case GRAMMAR_BELOW:
	case GRAMMAR_FROM:
		if ((w->count < n->arg) == (n->op == GRAMMAR_BELOW))
			automaton_ways_put(a, n->next, w->frame, w->count);
		break;
	case GRAMMAR_JUMP:
	default:
		automaton_ways_put(a, n->next, w->frame, w->count);
		break;
	}
}

void automaton_ways_close(struct automaton *a)
{
	while (a->n_todo) {
		struct automaton_way w = a->todo[--a->n_todo];

		if (a->work++ >= a->most) {
			a->over = true;
			a->n_todo = 0;
		} else if (!automaton_ways_passed(a, &w)) {
			automaton_ways_pass(a, &w);
		}
	}
}

void automaton_ways_begin(struct automaton *a)
{
	a->n_made = a->n_passed = 0;
	a->round++;
	a->may_end = a->over = false;
	must(a->n_todo == 0);
}
