/* SPDX-License-Identifier: MIT
 * automaton.c - follows a grammar byte by byte: all its ways at once, each set of ways a numbered state.
 * Threads: one at a time per object. Locks: none. */
#include "engine/constrain/automaton.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

#define AUTOMATON_UNKNOWN (UINT32_MAX - 1)
/* Beyond so many states or frames the next chance to forget is taken. */
#define AUTOMATON_CROWD_STATES 4096
#define AUTOMATON_CROWD_FRAMES 65536
#define AUTOMATON_MAX_FRAMES (1 << 20)

/* Where a rule goes on when the one it called ends. Equal frames are one, so they compare by number. */
struct automaton_frame {
	uint32_t parent, node, count, depth;
};

/* One way: a BYTES node, what called its rule, the rule's counter. */
struct automaton_way {
	uint32_t node, frame, count;
};

struct automaton_state {
	uint32_t first, n;     /* ways */
	uint32_t *next;        /* [256], NULL until asked for */
	uint32_t hash;
	bool may_end;
};

/* An open hash of numbers; 0 is empty, so n stands for n - 1. */
struct automaton_index {
	uint32_t *slot;
	uint32_t mask, n;
};

struct automaton {
	const struct grammar *g;
	struct automaton_frame *frame; /* 0: the root's */
	struct automaton_state *state; /* 0: dead */
	struct automaton_way *way;
	uint32_t n_frame, n_state, n_way, cap_frame, cap_state, cap_way;
	struct automaton_index frames, states;
	/* The state being made. */
	struct automaton_way made[AUTOMATON_MAX_WAYS], *todo;
	uint32_t n_made, n_todo, cap_todo;
	bool may_end;
};

/* ---- tables ---- */

static void *automaton_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	return mem_grow(array, *cap, size);
}

static uint32_t automaton_hash(const void *data, size_t len, uint32_t h)
{
	const uint32_t *p = data;
	size_t i;

	for (i = 0; i < len / sizeof *p; i++) {
		h = (h ^ p[i]) * 0x9e3779b1u;
		h ^= h >> 15;
	}
	return h;
}

static void automaton_index_init(struct automaton_index *x, uint32_t size)
{
	x->slot = mem_grow(x->slot, size, sizeof *x->slot);
	memset(x->slot, 0, size * sizeof *x->slot);
	x->mask = size - 1;
	x->n = 0;
}

static void automaton_index_put(struct automaton_index *x, uint32_t hash, uint32_t number)
{
	while (x->slot[hash & x->mask])
		hash++;
	x->slot[hash & x->mask] = number + 1;
	x->n++;
}

/* ---- frames ---- */

static uint32_t automaton_frame_hash(const struct automaton_frame *f)
{
	return automaton_hash(f, sizeof *f, 1);
}

static void automaton_frames_grow(struct automaton *a)
{
	uint32_t i;

	if (2 * a->frames.n < a->frames.mask)
		return;
	automaton_index_init(&a->frames, 2 * (a->frames.mask + 1));
	for (i = 0; i < a->n_frame; i++)
		automaton_index_put(&a->frames, automaton_frame_hash(&a->frame[i]), i);
}

static uint32_t automaton_frame(struct automaton *a, const struct automaton_frame *f)
{
	uint32_t hash = automaton_frame_hash(f), at = hash;

	for (; a->frames.slot[at & a->frames.mask]; at++) {
		uint32_t id = a->frames.slot[at & a->frames.mask] - 1;

		if (memcmp(&a->frame[id], f, sizeof *f) == 0)
			return id;
	}
	automaton_frames_grow(a);
	a->frame = automaton_room(a->frame, a->n_frame, &a->cap_frame, sizeof *a->frame);
	a->frame[a->n_frame] = *f;
	automaton_index_put(&a->frames, hash, a->n_frame);
	return a->n_frame++;
}

/* ---- making a state ---- */

static void automaton_put(struct automaton *a, uint32_t node, uint32_t frame, uint32_t count)
{
	/* A way whose end is out of reach is none. */
	if (a->g->node[node].height + a->frame[frame].depth > GRAMMAR_MAX_DEPTH)
		return;
	a->todo = automaton_room(a->todo, a->n_todo, &a->cap_todo, sizeof *a->todo);
	a->todo[a->n_todo++] = (struct automaton_way){ node, frame, count };
}

static void automaton_keep(struct automaton *a, const struct automaton_way *w)
{
	uint32_t i;

	for (i = 0; i < a->n_made; i++)
		if (memcmp(&a->made[i], w, sizeof *w) == 0)
			return;
	if (a->n_made < AUTOMATON_MAX_WAYS)
		a->made[a->n_made++] = *w;
}

static void automaton_call(struct automaton *a, const struct automaton_way *w)
{
	const struct grammar_node *n = &a->g->node[w->node];
	const struct grammar_rule *r = &a->g->rule[n->arg];
	struct automaton_frame f = { w->frame, n->next, w->count, a->frame[w->frame].depth + r->nests };

	/* A call that is a rule's last act needs no way back, and then chains of them need no memory. */
	if (n->next == GRAMMAR_END && !r->nests)
		automaton_put(a, r->entry, w->frame, 0);
	else
		automaton_put(a, r->entry, automaton_frame(a, &f), 0);
}

static void automaton_return(struct automaton *a, const struct automaton_way *w)
{
	const struct automaton_frame f = a->frame[w->frame];

	if (w->frame == 0)
		a->may_end = true;
	else
		automaton_put(a, f.node, f.parent, f.count);
}

/* Passes what consumes nothing. */
static void automaton_pass(struct automaton *a, const struct automaton_way *w)
{
	const struct grammar_node *n = &a->g->node[w->node];

	switch ((enum grammar_op)n->op) {
	case GRAMMAR_BYTES:
		automaton_keep(a, w);
		break;
	case GRAMMAR_RETURN:
		automaton_return(a, w);
		break;
	case GRAMMAR_CALL:
		automaton_call(a, w);
		break;
	case GRAMMAR_EITHER:
		automaton_put(a, n->arg, w->frame, w->count);
		automaton_put(a, n->next, w->frame, w->count);
		break;
	case GRAMMAR_COUNT:
		automaton_put(a, n->next, w->frame, w->count < n->arg ? w->count + 1 : n->arg);
		break;
	case GRAMMAR_BELOW:
	case GRAMMAR_FROM:
		if ((w->count < n->arg) == (n->op == GRAMMAR_BELOW))
			automaton_put(a, n->next, w->frame, w->count);
		break;
	case GRAMMAR_JUMP:
	default:
		automaton_put(a, n->next, w->frame, w->count);
		break;
	}
}

static void automaton_close(struct automaton *a)
{
	while (a->n_todo) {
		struct automaton_way w = a->todo[--a->n_todo];

		automaton_pass(a, &w);
	}
}

static void automaton_states_grow(struct automaton *a)
{
	uint32_t i;

	if (2 * a->states.n < a->states.mask)
		return;
	automaton_index_init(&a->states, 2 * (a->states.mask + 1));
	for (i = 0; i < a->n_state; i++)
		automaton_index_put(&a->states, a->state[i].hash, i);
}

/* The number of the state that was made: a known one's, or a new one. */
static uint32_t automaton_made(struct automaton *a)
{
	size_t size = a->n_made * sizeof *a->made;
	uint32_t hash = automaton_hash(a->made, size, a->may_end), at = hash;

	for (; a->states.slot[at & a->states.mask]; at++) {
		uint32_t id = a->states.slot[at & a->states.mask] - 1;
		const struct automaton_state *s = &a->state[id];

		if (s->hash == hash && s->n == a->n_made && s->may_end == a->may_end &&
		    (size == 0 || memcmp(&a->way[s->first], a->made, size) == 0))
			return id;
	}
	if (a->n_state >= AUTOMATON_MAX_STATES || a->n_frame >= AUTOMATON_MAX_FRAMES)
		return AUTOMATON_FULL;
	automaton_states_grow(a);
	a->state = automaton_room(a->state, a->n_state, &a->cap_state, sizeof *a->state);
	a->state[a->n_state] = (struct automaton_state){ .first = a->n_way, .n = a->n_made, .hash = hash,
							 .may_end = a->may_end };
	for (at = 0; at < a->n_made; at++) {
		a->way = automaton_room(a->way, a->n_way, &a->cap_way, sizeof *a->way);
		a->way[a->n_way++] = a->made[at];
	}
	automaton_index_put(&a->states, hash, a->n_state);
	return a->n_state++;
}

static void automaton_make(struct automaton *a)
{
	a->n_made = 0;
	a->may_end = false;
	must(a->n_todo == 0);
}

/* ---- states ---- */

static void automaton_reset(struct automaton *a)
{
	const struct automaton_frame root = { .depth = a->g->rule[a->g->root].nests };
	uint32_t i;

	for (i = 0; i < a->n_state; i++)
		free(a->state[i].next);
	a->n_frame = a->n_state = a->n_way = 0;
	automaton_index_init(&a->frames, 256);
	automaton_index_init(&a->states, 256);
	must(automaton_frame(a, &root) == 0);
	automaton_make(a);
	must(automaton_made(a) == AUTOMATON_DEAD);
}

struct automaton *automaton_new(const struct grammar *g)
{
	struct automaton *a = mem_new(sizeof *a);

	a->g = g;
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
	free(a->frames.slot);
	free(a->states.slot);
	free(a);
}

uint32_t automaton_start(struct automaton *a)
{
	const struct grammar_rule *r = &a->g->rule[a->g->root];

	automaton_make(a);
	automaton_put(a, r->entry, 0, 0);
	automaton_close(a);
	return automaton_made(a);
}

static const struct grammar_edge *automaton_edge(const struct grammar *g, uint32_t node, uint8_t byte)
{
	const struct grammar_node *n = &g->node[node];
	const struct grammar_edge *e = g->edge + n->arg;
	uint32_t i = 0;

	while (i < n->n && e[i].hi < byte)
		i++;
	return i < n->n && e[i].lo <= byte ? &e[i] : NULL;
}

static uint32_t automaton_find(struct automaton *a, uint32_t state, uint8_t byte)
{
	const struct automaton_state s = a->state[state];
	uint32_t i;

	automaton_make(a);
	for (i = 0; i < s.n; i++) {
		const struct automaton_way w = a->way[s.first + i];
		const struct grammar_edge *e = automaton_edge(a->g, w.node, byte);

		if (!e)
			continue;
		automaton_put(a, e->next, w.frame, w.count);
		automaton_close(a);
	}
	return automaton_made(a);
}

uint32_t automaton_step(struct automaton *a, uint32_t state, uint8_t byte)
{
	struct automaton_state *s = &a->state[state];
	uint32_t next;

	if (!s->next) {
		s->next = mem_grow(NULL, 256, sizeof *s->next);
		for (int i = 0; i < 256; i++)
			s->next[i] = AUTOMATON_UNKNOWN;
	}
	next = s->next[byte];
	if (next != AUTOMATON_UNKNOWN)
		return next;
	next = automaton_find(a, state, byte);
	if (next != AUTOMATON_FULL)
		a->state[state].next[byte] = next;
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
	const struct automaton_way *in = NULL;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		const struct automaton_way *w = &a->way[s->first + i];
		const struct grammar_node *n = &a->g->node[w->node];

		if (n->next && !in)
			in = w;
		else if (automaton_takes_plain(a->g, n))
			return false;
	}
	if (!in)
		return false;
	i = a->g->node[in->node].next;
	*ret_room = i == GRAMMAR_NO_LIMIT ? i : i - in->count;
	return true;
}

/* ---- forgetting ---- */

bool automaton_crowded(const struct automaton *a)
{
	return a->n_state > AUTOMATON_CROWD_STATES || a->n_frame > AUTOMATON_CROWD_FRAMES;
}

/* The frame with its parents, made anew from the old ones, the outermost first. Frames nest as deep as values
 * may, so recursion is bounded. */
static uint32_t automaton_refile(struct automaton *a, const struct automaton_frame *old, uint32_t frame)
{
	struct automaton_frame f = old[frame];

	if (frame == 0)
		return 0;
	f.parent = automaton_refile(a, old, f.parent);
	return automaton_frame(a, &f);
}

uint32_t automaton_trim(struct automaton *a, uint32_t state)
{
	const struct automaton_state s = a->state[state];
	struct automaton_frame *old = a->frame;
	struct automaton_way way[AUTOMATON_MAX_WAYS];
	uint32_t i;

	must(state != AUTOMATON_FULL && s.n <= AUTOMATON_MAX_WAYS);
	if (s.n)
		memcpy(way, a->way + s.first, s.n * sizeof *way);
	a->frame = NULL;
	a->cap_frame = 0;
	automaton_reset(a);
	automaton_make(a);
	for (i = 0; i < s.n; i++) {
		way[i].frame = automaton_refile(a, old, way[i].frame);
		a->made[a->n_made++] = way[i];
	}
	a->may_end = s.may_end;
	free(old);
	return automaton_made(a);
}

uint32_t automaton_states(const struct automaton *a)
{
	return a->n_state;
}
