/* SPDX-License-Identifier: MIT
 * grammar.c - builds the nodes and rules of a grammar.
 * Threads: who builds it. Locks: none. */
#include "engine/constrain/grammar.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

static void *grammar_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	return mem_grow(array, *cap, size);
}

static uint32_t grammar_node(struct grammar *g, enum grammar_op op, uint32_t next, uint32_t arg)
{
	g->full |= g->n_node >= GRAMMAR_MAX_NODES;
	if (g->full)
		return GRAMMAR_END;
	g->node = grammar_room(g->node, g->n_node, &g->cap_node, sizeof *g->node);
	g->node[g->n_node] = (struct grammar_node){ .op = (uint8_t)op, .next = next, .arg = arg };
	return g->n_node++;
}

void grammar_init(struct grammar *g)
{
	*g = (struct grammar){ 0 };
	must(grammar_node(g, GRAMMAR_RETURN, 0, 0) == GRAMMAR_END);
}

void grammar_fini(struct grammar *g)
{
	free(g->node);
	free(g->edge);
	free(g->rule);
	free(g->reach);
	*g = (struct grammar){ 0 };
}

uint32_t grammar_bytes(struct grammar *g, const struct grammar_edge *edge, size_t n)
{
	uint32_t first = g->n_edge, id;
	size_t i;

	must(n <= 256);
	g->full |= g->n_edge + n > GRAMMAR_MAX_EDGES;
	id = grammar_node(g, GRAMMAR_BYTES, 0, first);
	if (g->full)
		return id;
	for (i = 0; i < n; i++) {
		must(edge[i].lo <= edge[i].hi && (i == 0 || edge[i - 1].hi < edge[i].lo));
		g->edge = grammar_room(g->edge, g->n_edge, &g->cap_edge, sizeof *g->edge);
		g->edge[g->n_edge++] = edge[i];
	}
	g->node[id].n = (uint16_t)n;
	return id;
}

uint32_t grammar_byte(struct grammar *g, uint8_t lo, uint8_t hi, uint32_t next)
{
	const struct grammar_edge e = { lo, hi, next };

	return grammar_bytes(g, &e, 1);
}

uint32_t grammar_text(struct grammar *g, const char *text, size_t len, uint32_t next)
{
	while (len-- > 0)
		next = grammar_byte(g, (uint8_t)text[len], (uint8_t)text[len], next);
	return next;
}

uint32_t grammar_str(struct grammar *g, const char *text, uint32_t next)
{
	return grammar_text(g, text, strlen(text), next);
}

uint32_t grammar_either(struct grammar *g, uint32_t a, uint32_t b)
{
	return grammar_node(g, GRAMMAR_EITHER, a, b);
}

uint32_t grammar_call(struct grammar *g, uint32_t rule, uint32_t next)
{
	return grammar_node(g, GRAMMAR_CALL, next, rule);
}

uint32_t grammar_count(struct grammar *g, uint32_t most, uint32_t next)
{
	return grammar_node(g, GRAMMAR_COUNT, next, most);
}

uint32_t grammar_below(struct grammar *g, uint32_t limit, uint32_t next)
{
	return grammar_node(g, GRAMMAR_BELOW, next, limit);
}

uint32_t grammar_from(struct grammar *g, uint32_t limit, uint32_t next)
{
	return grammar_node(g, GRAMMAR_FROM, next, limit);
}

void grammar_plain(struct grammar *g, uint32_t node, uint32_t limit)
{
	if (g->full)
		return;
	must(g->node[node].op == GRAMMAR_BYTES);
	g->node[node].next = limit;
}

uint32_t grammar_hole(struct grammar *g)
{
	return grammar_node(g, GRAMMAR_JUMP, GRAMMAR_END, 0);
}

void grammar_fill(struct grammar *g, uint32_t hole, uint32_t next)
{
	if (g->full)
		return;
	must(g->node[hole].op == GRAMMAR_JUMP);
	g->node[hole].next = next;
}

void grammar_work(struct grammar *g, uint64_t steps)
{
	g->work += steps;
	g->full |= g->work > GRAMMAR_MAX_WORK;
}

uint32_t grammar_rule(struct grammar *g)
{
	g->full |= g->n_rule >= GRAMMAR_MAX_RULES;
	if (g->full && g->n_rule)
		return 0;
	g->rule = grammar_room(g->rule, g->n_rule, &g->cap_rule, sizeof *g->rule);
	g->rule[g->n_rule] = (struct grammar_rule){ 0 };
	return g->n_rule++;
}

void grammar_define(struct grammar *g, uint32_t rule, uint32_t entry, bool nests)
{
	if (g->full)
		return;
	must(rule < g->n_rule);
	g->rule[rule] = (struct grammar_rule){ .entry = entry, .nests = nests, .defined = true, .form = nests };
}

void grammar_form(struct grammar *g, uint32_t rule)
{
	if (g->full)
		return;
	must(g->rule[rule].defined);
	g->rule[rule].form = true;
}
