/* SPDX-License-Identifier: MIT
 * expert_slots.c - slots of device memory for routed experts that lie with the host.
 * Threads: as expert_slots.h. Locks: none.
 *
 * Only decode steps say what is used: a long prompt uses every expert once, and would throw out those that matter. */
#include "engine/model/expert_slots.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/device/queue.h"
#include "engine/model/placement_split.h"
#include "plugins/op/op_cost.h"

#include <stdlib.h>
#include <string.h>

/* Copies before one step. A decode step of Flash that has none of its 43 x 6 experts reads 3.4 GB through the bus;
 * eight more, 0.1 GB, make it 3 % longer at most, and a step that has them all pays nothing. */
#define SLOTS_COPIES 8
/* Ids of a layer that are looked at: 64 tokens of eight. */
#define SLOTS_IDS 512

struct slots_slot {
	int expert;                 /* layer * n_expert + its number; -1: none */
	uint64_t used;              /* tick */
};

struct slots_noted {
	int at, n;                  /* in ids */
};

struct expert_slots {
	const struct model *m;
	struct device *device;
	int n_layer, n_expert;      /* the draft block is a layer */
	size_t size;                /* of a slot: what experts of the first layer take, by placement_slot() */
	bool *fits;                 /* [n_layer]: a layer's do; a draft block of another format may not */
	char *memory;               /* [n][size] on the device, which the host cannot look into */
	int n;
	struct slots_slot *slot;    /* [n] */
	struct dsv4_expert *table;  /* [n_layer][n_expert] on the device */
	int32_t *ids;               /* on the device, layer after layer as they come */
	const int32_t *back;        /* the same for the host, after the step */
	int n_ids;
	struct slots_noted *noted;  /* [n_layer] */
	int *at;                    /* [n_layer][n_expert]: the slot, or -1 */
	uint64_t *seen;             /* the same: tick of the last use */
	int *missed;                /* of the last decode step, to be copied */
	int n_missed, first;        /* the layer that comes first among them: in turn, so that each has its share */
	uint64_t tick;              /* decode steps */
	bool stale;                 /* the table is to be written anew, without slots */
};

/* ---- one expert ---- */

static const void *slots_move(struct queue *q, char *to, const void *from, size_t bytes)
{
	queue_move(q, to, from, bytes);
	return to;
}

/* Copies it to `to` and describes the copy; returns the bytes of the slot that it takes. */
static size_t slots_weight(struct queue *q, char *to, struct dsv4_weight *w)
{
	size_t size = placement_slot(w), scales = placement_slot_scales(w);

	w->data = slots_move(q, to, w->data, op_cost_data((enum dsv4_wfmt)w->fmt, w->rows, w->cols));
	if (w->scale)
		w->scale = slots_move(q, to + scales, w->scale,
				      op_cost_scale((enum dsv4_sfmt)w->sfmt, (enum dsv4_wfmt)w->fmt, w->rows, w->cols));
	return size;
}

static void slots_expert(struct queue *q, char *to, struct dsv4_expert *e)
{
	to += slots_weight(q, to, &e->w1);
	to += slots_weight(q, to, &e->w2);
	(void)slots_weight(q, to, &e->w3);
}

/* As the GPU reads it where model_place() has put it; NULL: the layer is not there. */
static const struct dsv4_expert *slots_home(const struct expert_slots *s, int expert)
{
	const struct dsv4_expert *layer = s->m->experts[expert / s->n_expert].expert;

	return layer ? &layer[expert % s->n_expert] : NULL;
}

static bool slots_outside(const struct expert_slots *s, int expert)
{
	const bool *layer = s->m->experts[expert / s->n_expert].outside;

	return layer && layer[expert % s->n_expert];
}

/* ---- life ---- */

static bool slots_fit(const struct expert_slots *s, int layer)
{
	bool fit = true;

	for (int i = 0; i < s->n_expert && slots_home(s, layer * s->n_expert); i++) {
		const struct dsv4_expert *e = slots_home(s, layer * s->n_expert + i);

		fit = fit && placement_slot(&e->w1) + placement_slot(&e->w2) + placement_slot(&e->w3) <= s->size;
	}
	return fit;
}

static bool slots_alloc(struct expert_slots *s)
{
	size_t all = (size_t)s->n_layer * (size_t)s->n_expert;

	s->slot = mem_try((size_t)s->n, sizeof *s->slot);
	s->fits = mem_try((size_t)s->n_layer, sizeof *s->fits);
	s->noted = mem_try((size_t)s->n_layer, sizeof *s->noted);
	s->at = mem_try(all, sizeof *s->at);
	s->seen = mem_try(all, sizeof *s->seen);
	s->missed = mem_try(all, sizeof *s->missed);
	s->table = device_alloc(s->device, all, sizeof *s->table);
	s->ids = device_alloc(s->device, (size_t)s->n_layer * SLOTS_IDS, sizeof *s->ids);
	s->memory = device_plain_new(s->device, (size_t)s->n * s->size);
	return s->slot && s->fits && s->noted && s->at && s->seen && s->missed && s->table && s->ids && s->memory;
}

struct expert_slots *expert_slots_new(const struct model *m, int most)
{
	struct expert_slots *s;

	most = most < m->expert_slots ? most : m->expert_slots;
	if (most <= 0)
		return NULL;
	s = mem_new(sizeof *s);
	*s = (struct expert_slots){ .m = m, .device = m->layout.device, .n_layer = m->config->n_layers + 1,
				    .n_expert = m->config->n_experts, .n = most, .size = m->expert_slot_bytes,
				    .stale = true };
	device_count_experts(s->device, s->n, 0, 0);
	if (!slots_alloc(s)) {
		expert_slots_free(&s);
		return NULL;
	}
	for (int i = 0; i < s->n_layer; i++)
		s->fits[i] = slots_fit(s, i);
	return s;
}

void expert_slots_free(struct expert_slots **ps)
{
	struct expert_slots *s = *ps;

	*ps = NULL;
	if (!s)
		return;
	device_count_experts(s->device, -s->n, 0, 0);
	device_free(s->device, s->table);
	device_free(s->device, s->ids);
	device_plain_free(s->device, s->memory, (size_t)s->n * s->size);
	free(s->slot);
	free(s->fits);
	free(s->noted);
	free(s->at);
	free(s->seen);
	free(s->missed);
	free(s);
}

const struct dsv4_expert *expert_slots_table(const struct expert_slots *s, int layer)
{
	return s->table + (size_t)layer * (size_t)s->n_expert;
}

/* ---- before a step ---- */

static void slots_put(struct expert_slots *s, struct queue *q, int expert, const struct dsv4_expert *e, int n)
{
	struct dsv4_expert *row = queue_stage(q, NULL, (size_t)n * sizeof *row);

	if (row)
		memcpy(row, e, (size_t)n * sizeof *row);
	queue_put(q, s->table + expert, row, (size_t)n * sizeof *row); /* of NULL it is nothing, and the step fails */
}

static void slots_reset(struct expert_slots *s, struct queue *q)
{
	for (int i = 0; i < s->n_layer; i++)
		if (slots_home(s, i * s->n_expert))
			slots_put(s, q, i * s->n_expert, slots_home(s, i * s->n_expert), s->n_expert);
	for (int i = 0; i < s->n_layer * s->n_expert; i++)
		s->at[i] = -1;
	for (int i = 0; i < s->n; i++)
		s->slot[i] = (struct slots_slot){ .expert = -1 };
	s->stale = false;
}

/* NULL: the last step used all of them. */
static struct slots_slot *slots_oldest(struct expert_slots *s)
{
	struct slots_slot *oldest = &s->slot[0];

	for (int i = 0; i < s->n && oldest->expert >= 0; i++)
		if (s->slot[i].expert < 0 || s->slot[i].used < oldest->used)
			oldest = &s->slot[i];
	return oldest->expert >= 0 && oldest->used == s->tick ? NULL : oldest;
}

static void slots_load(struct expert_slots *s, struct queue *q, struct slots_slot *slot, int expert)
{
	struct dsv4_expert e = *slots_home(s, expert);

	if (slot->expert >= 0) {
		slots_put(s, q, slot->expert, slots_home(s, slot->expert), 1);
		s->at[slot->expert] = -1;
	}
	slots_expert(q, s->memory + (size_t)(slot - s->slot) * s->size, &e);
	slots_put(s, q, expert, &e, 1);
	s->at[expert] = (int)(slot - s->slot);
	*slot = (struct slots_slot){ expert, s->tick };
	s->first = (expert / s->n_expert + 1) % s->n_layer;
}

void expert_slots_fill(struct expert_slots *s, struct queue *q)
{
	if (s->stale)
		slots_reset(s, q);
	for (int i = 0; i < s->n_missed && i < SLOTS_COPIES; i++) {
		struct slots_slot *slot = slots_oldest(s);

		if (!slot)
			break;
		slots_load(s, q, slot, s->missed[i]);
	}
	s->n_missed = 0;
	s->n_ids = 0;
	s->back = NULL;
	memset(s->noted, 0, (size_t)s->n_layer * sizeof *s->noted);
}

/* ---- in a step, and after it ---- */

void expert_slots_note(struct expert_slots *s, struct queue *q, int layer, const int32_t *ids, int n)
{
	n = n < SLOTS_IDS ? n : SLOTS_IDS;
	if (s->noted[layer].n > 0)
		return;
	queue_move(q, s->ids + s->n_ids, ids, (size_t)n * sizeof *ids);
	s->noted[layer] = (struct slots_noted){ s->n_ids, n };
	s->n_ids += n;
}

void expert_slots_fetch(struct expert_slots *s, struct queue *q)
{
	if (s->n_ids > 0)
		s->back = queue_fetch(q, s->ids, (size_t)s->n_ids * sizeof *s->ids);
}

void expert_slots_drop(struct expert_slots *s)
{
	s->back = NULL;
}

/* Of one that lies outside, once a step, however many tokens chose it. Was it there? */
static bool slots_use(struct expert_slots *s, int expert)
{
	s->seen[expert] = s->tick;
	if (s->at[expert] >= 0) {
		s->slot[s->at[expert]].used = s->tick;
		return true;
	}
	if (s->fits[expert / s->n_expert])
		s->missed[s->n_missed++] = expert;
	return false;
}

void expert_slots_end(struct expert_slots *s, bool failed)
{
	uint64_t count[2] = { 0, 0 };

	s->stale = s->stale || failed;
	if (failed || !s->back)
		return;
	s->tick++;
	for (int i = 0; i < s->n_layer; i++) {
		int layer = (s->first + i) % s->n_layer;
		const struct slots_noted *l = &s->noted[layer];

		for (int j = 0; j < l->n; j++) {
			int id = s->back[l->at + j], expert = layer * s->n_expert + id;

			if (id >= 0 && id < s->n_expert && slots_outside(s, expert) && s->seen[expert] != s->tick)
				count[slots_use(s, expert)]++;
		}
	}
	s->back = NULL;
	device_count_experts(s->device, 0, count[true], count[false]);
}
