/* SPDX-License-Identifier: MIT
 * automaton_store.c - an automaton's frames and states by what is in them: equal ones have one number.
 * Threads: one at a time per object. Locks: none. */
#include "engine/constrain/automaton_priv.h"
#include "engine/base/mem.h"

#include <string.h>

#define AUTOMATON_MAX_FRAMES (1 << 20)
#define AUTOMATON_MAX_KEPT (1 << 20) /* ways of all states */
#define AUTOMATON_STEPS_PER_FRAME 2

void *automaton_store_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	return mem_grow(array, *cap, size);
}

uint32_t automaton_store_hash(const void *data, size_t len, uint32_t h)
{
	const uint32_t *p = data;
	size_t i;

	for (i = 0; i < len / sizeof *p; i++) {
		h = (h ^ p[i]) * 0x9e3779b1u;
		h ^= h >> 15;
	}
	return h;
}

void automaton_store_index(struct automaton_index *x, uint32_t size)
{
	x->slot = mem_grow(x->slot, size, sizeof *x->slot);
	memset(x->slot, 0, size * sizeof *x->slot);
	x->mask = size - 1;
	x->n = 0;
}

static void automaton_store_index_put(struct automaton_index *x, uint32_t hash, uint32_t number)
{
	while (x->slot[hash & x->mask])
		hash++;
	x->slot[hash & x->mask] = number + 1;
	x->n++;
}

static uint32_t automaton_store_frame_hash(const struct automaton_frame *f)
{
	return automaton_store_hash(f, sizeof *f, 1);
}

static void automaton_store_frames_grow(struct automaton *a)
{
	uint32_t i;

	if (2 * a->frames.n < a->frames.mask)
		return;
	automaton_store_index(&a->frames, 2 * (a->frames.mask + 1));
	for (i = 0; i < a->n_frame; i++)
		automaton_store_index_put(&a->frames, automaton_store_frame_hash(&a->frame[i]), i);
}

uint32_t automaton_store_frame(struct automaton *a, const struct automaton_frame *f)
{
	uint32_t hash = automaton_store_frame_hash(f), at = hash;

	for (; a->frames.slot[at & a->frames.mask]; at++) {
		uint32_t id = a->frames.slot[at & a->frames.mask] - 1;

		if (memcmp(&a->frame[id], f, sizeof *f) == 0)
			return id;
	}
	a->work += AUTOMATON_STEPS_PER_FRAME;
	automaton_store_frames_grow(a);
	a->frame = automaton_store_room(a->frame, a->n_frame, &a->cap_frame, sizeof *a->frame);
	a->frame[a->n_frame] = *f;
	automaton_store_index_put(&a->frames, hash, a->n_frame);
	return a->n_frame++;
}

static void automaton_store_states_grow(struct automaton *a)
{
	uint32_t i;

	if (2 * a->states.n < a->states.mask)
		return;
	automaton_store_index(&a->states, 2 * (a->states.mask + 1));
	for (i = 0; i < a->n_state; i++)
		automaton_store_index_put(&a->states, a->state[i].hash, i);
}

/* The number of the state that was made: a known one's, or a new one. */
uint32_t automaton_store_made(struct automaton *a)
{
	size_t size = a->n_made * sizeof *a->made;
	uint32_t hash = automaton_store_hash(a->made, size, a->may_end), at = hash;

	if (a->over)
		return AUTOMATON_FULL;
	a->work += a->n_made / AUTOMATON_LOOKS_PER_STEP;
	for (; a->states.slot[at & a->states.mask]; at++) {
		uint32_t id = a->states.slot[at & a->states.mask] - 1;
		const struct automaton_state *s = &a->state[id];

		if (s->hash == hash && s->n == a->n_made && s->may_end == a->may_end &&
		    (size == 0 || memcmp(&a->way[s->first], a->made, size) == 0))
			return id;
	}
	if (a->n_state >= AUTOMATON_MAX_STATES || a->n_frame >= AUTOMATON_MAX_FRAMES || a->n_way >= AUTOMATON_MAX_KEPT)
		return AUTOMATON_FULL;
	automaton_store_states_grow(a);
	a->state = automaton_store_room(a->state, a->n_state, &a->cap_state, sizeof *a->state);
	a->state[a->n_state] = (struct automaton_state){ .first = a->n_way, .n = a->n_made, .hash = hash,
							 .may_end = a->may_end };
	for (at = 0; at < a->n_made; at++) {
		a->way = automaton_store_room(a->way, a->n_way, &a->cap_way, sizeof *a->way);
		a->way[a->n_way++] = a->made[at];
	}
	automaton_store_index_put(&a->states, hash, a->n_state);
	return a->n_state++;
}
