/* SPDX-License-Identifier: MIT
 * automaton.c - follows a grammar byte by byte: all its ways at once, each set of ways a numbered state.
 * Threads: one at a time per object. Locks: none. */
#include "engine/constrain/automaton_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

#define AUTOMATON_UNKNOWN UINT16_MAX
_Static_assert(AUTOMATON_MAX_STATES < AUTOMATON_UNKNOWN, "numbers of states fit");
/* Beyond so many of these the next chance to forget is taken. */
#define AUTOMATON_CROWD_STATES 4096
#define AUTOMATON_CROWD_FRAMES 65536
#define AUTOMATON_CROWD_WAYS (1 << 18)

/* Bytes that all ways take alike. */
struct automaton_span {
	int lo, hi;
};

/* ---- states ---- */

static void automaton_reset(struct automaton *a)
{
	const struct automaton_frame root = { .depth = a->g->rule[a->g->root].nests };
	uint32_t i;

	for (i = 0; i < a->n_state; i++)
		free(a->state[i].next);
	a->n_frame = a->n_state = a->n_way = 0;
	a->most = UINT64_MAX;
	a->most_ways = AUTOMATON_MAX_WAYS;
	automaton_store_index(&a->frames, 256);
	automaton_store_index(&a->states, 256);
	must(automaton_store_frame(a, &root) == 0);
	automaton_ways_begin(a);
	must(automaton_store_made(a) == AUTOMATON_DEAD);
}

struct automaton *automaton_new(const struct grammar *g)
{
	struct automaton *a = mem_new(sizeof *a);

	a->g = g;
	automaton_ways_passed_grow(a);
	automaton_reset(a);
	return a;
}

void automaton_free(struct automaton **pa)
{
	struct automaton *a = *pa;
	uint32_t i;

	if (!a)
		return;
	*pa = NULL;
	for (i = 0; i < a->n_state; i++)
		free(a->state[i].next);
	free(a->frame);
	free(a->state);
	free(a->way);
	free(a->todo);
	free(a->passed);
	free(a->frames.slot);
	free(a->states.slot);
	free(a);
}

uint32_t automaton_start(struct automaton *a)
{
	const struct grammar_rule *r = &a->g->rule[a->g->root];

	automaton_ways_begin(a);
	automaton_ways_put(a, r->entry, 0, 0);
	automaton_ways_close(a);
	return automaton_store_made(a);
}

static void automaton_narrow(struct automaton_span *span, int lo, int hi)
{
	span->lo = lo > span->lo ? lo : span->lo;
	span->hi = hi < span->hi ? hi : span->hi;
}

/* The byte's edge; the span becomes what has the same one, or none as well. */
static const struct grammar_edge *automaton_edge(const struct grammar *g, uint32_t node, uint8_t byte,
						 struct automaton_span *span)
{
	const struct grammar_node *n = &g->node[node];
	const struct grammar_edge *e = g->edge + n->arg;
	uint32_t i = 0;

	while (i < n->n && e[i].hi < byte)
		i++;
	if (i < n->n && e[i].lo <= byte) {
		automaton_narrow(span, e[i].lo, e[i].hi);
		return &e[i];
	}
	automaton_narrow(span, i > 0 ? e[i - 1].hi + 1 : 0, i < n->n ? e[i].lo - 1 : UINT8_MAX);
	return NULL;
}

static uint32_t automaton_find(struct automaton *a, uint32_t state, uint8_t byte, struct automaton_span *span)
{
	const struct automaton_state s = a->state[state];
	uint32_t i;

	automaton_ways_begin(a);
	a->work += s.n / AUTOMATON_LOOKS_PER_STEP;
	for (i = 0; i < s.n && !a->over && a->n_made < a->most_ways; i++) {
		const struct automaton_way w = a->way[s.first + i];
		const struct grammar_edge *e = automaton_edge(a->g, w.node, byte, span);

		if (!e)
			continue;
		automaton_ways_put(a, e->next, w.frame, w.count);
		automaton_ways_close(a);
	}
	return automaton_store_made(a);
}

uint32_t automaton_step(struct automaton *a, uint32_t state, uint8_t byte)
{
	struct automaton_state *s = &a->state[state];
	struct automaton_span span = { 0, UINT8_MAX };
	uint32_t next;

	if (!s->next) {
		s->next = mem_grow(NULL, 256, sizeof *s->next);
		for (int i = 0; i < 256; i++)
			s->next[i] = AUTOMATON_UNKNOWN;
	}
	next = s->next[byte];
	if (next != AUTOMATON_UNKNOWN)
		return next;
	next = automaton_find(a, state, byte, &span);
	if (next != AUTOMATON_FULL)
		for (int i = span.lo; i <= span.hi; i++)
			a->state[state].next[i] = (uint16_t)next;
	return next;
}

bool automaton_may_end(const struct automaton *a, uint32_t state)
{
	return a->state[state].may_end;
}

bool automaton_must_end(const struct automaton *a, uint32_t state)
{
	return a->state[state].may_end && a->state[state].n == 0;
}

int automaton_only(const struct automaton *a, uint32_t state)
{
	const struct automaton_state *s = &a->state[state];
	int only = -1;
	uint32_t i;

	if (s->may_end)
		return -1;
	for (i = 0; i < s->n; i++) {
		const struct grammar_node *n = &a->g->node[a->way[s->first + i].node];
		const struct grammar_edge *e = a->g->edge + n->arg;

		if (n->n == 0)
			continue;
		if (n->n > 1 || e->lo != e->hi || (only >= 0 && only != e->lo))
			return -1;
		only = e->lo;
	}
	return only;
}

static bool automaton_takes_plain(const struct grammar *g, const struct grammar_node *n)
{
	uint32_t i;
	int byte;

	for (i = 0; i < n->n; i++)
		for (byte = g->edge[n->arg + i].lo; byte <= g->edge[n->arg + i].hi; byte++)
			if (grammar_is_plain((uint8_t)byte) && byte != GRAMMAR_DSML)
				return true;
	return false;
}

bool automaton_plain(const struct automaton *a, uint32_t state, uint32_t *ret_room)
{
	const struct automaton_state *s = &a->state[state];
	uint32_t i, room = 0;

	for (i = 0; i < s->n; i++) {
		const struct automaton_way *w = &a->way[s->first + i];
		const struct grammar_node *n = &a->g->node[w->node];
		uint32_t one = n->next == GRAMMAR_NO_LIMIT ? n->next : n->next - w->count;

		if (n->next)
			room = one > room ? one : room; /* what the roomiest takes; it takes all that others do */
		else if (automaton_takes_plain(a->g, n))
			return false;
	}
	*ret_room = room;
	return room > 0;
}

/* ---- limits ---- */

void automaton_budget(struct automaton *a, uint64_t steps)
{
	a->most = steps == UINT64_MAX ? steps : a->work + steps;
}

void automaton_one_way(struct automaton *a)
{
	a->most_ways = 1;
}

uint64_t automaton_work(const struct automaton *a)
{
	return a->work;
}

/* ---- forgetting ---- */

bool automaton_crowded(const struct automaton *a)
{
	return a->n_state > AUTOMATON_CROWD_STATES || a->n_frame > AUTOMATON_CROWD_FRAMES ||
	       a->n_way > AUTOMATON_CROWD_WAYS;
}

/* The frame with its parents, made anew from the old ones, the outermost first. Frames nest as deep as values
 * may, so recursion is bounded. */
static uint32_t automaton_refile(struct automaton *a, const struct automaton_frame *old, uint32_t frame)
{
	struct automaton_frame f = old[frame];

	if (frame == 0)
		return 0;
	f.parent = automaton_refile(a, old, f.parent);
	return automaton_store_frame(a, &f);
}

uint32_t automaton_trim(struct automaton *a, uint32_t state, uint32_t ways)
{
	const struct automaton_state s = a->state[state];
	struct automaton_frame *old = a->frame;
	struct automaton_way way[AUTOMATON_MAX_WAYS];
	uint32_t keep = s.n < ways ? s.n : ways, i;

	must(state != AUTOMATON_FULL && s.n <= AUTOMATON_MAX_WAYS && ways > 0);
	if (s.n)
		memcpy(way, a->way + s.first, s.n * sizeof *way);
	a->frame = NULL;
	a->cap_frame = 0;
	automaton_reset(a);
	automaton_ways_begin(a);
	for (i = 0; i < keep; i++) {
		struct automaton_way *w = &way[(size_t)i * s.n / keep]; /* from all over */

		w->frame = automaton_refile(a, old, w->frame);
		a->made[a->n_made++] = *w;
	}
	a->may_end = s.may_end;
	free(old);
	return automaton_store_made(a);
}

uint32_t automaton_states(const struct automaton *a)
{
	return a->n_state;
}
