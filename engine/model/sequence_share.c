/* SPDX-License-Identifier: MIT
 * sequence_share.c - what a cache keeps of a sequence: full blocks, and the state to continue from at their edges.
 * Threads: the engine thread shares, saves and resumes; any holds and reads. Locks: none (atomic counts). */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/model/sequence_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The rows of all tails that tokens from the edge on need, one behind the other by layer and tail. */
struct sequence_state {
	atomic_int refs;
	int64_t edge;
	float *data;
};

/* ---- blocks ---- */

int sequence_block_new(const struct sequence_layout *l, struct sequence_block **ret_b)
{
	float *data = device_alloc(l->device, (size_t)l->block_floats, sizeof *data);
	struct sequence_block *b;

	if (!data)
		return -ENOMEM;
	b = mem_new(sizeof *b);
	b->refs = 1;
	b->device = l->device;
	b->data = data;
	*ret_b = b;
	return 0;
}

struct sequence_block *sequence_block_ref(struct sequence_block *b)
{
	must(atomic_fetch_add(&b->refs, 1) > 0);
	return b;
}

void sequence_block_unref(struct sequence_block **pb)
{
	struct sequence_block *b = *pb;

	*pb = NULL;
	if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	for (int i = 0; i < b->n_other; i++)
		sequence_block_unref(&b->other[i]);
	free(b->other);
	device_free(b->device, b->data);
	free(b);
}

size_t sequence_block_bytes(const struct sequence_layout *l)
{
	return sizeof(struct sequence_block) + (size_t)l->block_floats * sizeof(float);
}

float *sequence_block_rows(const struct sequence_layout *l, struct sequence_block *b, int layer,
	enum sequence_rows k)
{
	must(layer >= 0 && layer < l->n_layer);
	return l->layer[layer].dim[k] ? b->data + l->layer[layer].offset[k] : NULL;
}

struct sequence_block *sequence_share(const struct sequence *s, int64_t i)
{
	struct sequence_block *b;

	must(i >= 0 && i < s->pos / SEQUENCE_BLOCK);
	b = s->block[i];
	if (!b->other && s->layout->n_other) {
		b->other = mem_new((size_t)s->layout->n_other * sizeof *b->other);
		for (; b->n_other < s->layout->n_other; b->n_other++)
			b->other[b->n_other] = sequence_block_ref(s->other[b->n_other]->block[i]);
	}
	return sequence_block_ref(b);
}

/* A block that came from a file gets its copies. Nothing is queued that uses them. */
static int sequence_block_spread(const struct sequence_layout *l, struct sequence_block *b)
{
	if (!b->other && l->n_other)
		b->other = mem_new((size_t)l->n_other * sizeof *b->other);
	for (; b->n_other < l->n_other; b->n_other++) {
		struct sequence_block *copy;

		if (sequence_block_new(l->other[b->n_other], &copy) < 0)
			return -ENOMEM;
		memcpy(copy->data, b->data, (size_t)l->block_floats * sizeof *b->data);
		b->other[b->n_other] = copy;
	}
	return 0;
}

/* ---- states ---- */

static int64_t sequence_state_n(const struct sequence_layout *l, int layer, int t, int64_t edge)
{
	const struct sequence_layer *y = &l->layer[layer];

	return y->width[t] ? edge - sequence_keep_from(l, y, t, edge) : 0;
}

/* Floats of all tails before this one; of all of them for layer n_layer. */
static size_t sequence_state_offset(const struct sequence_layout *l, int64_t edge, int layer, int tail)
{
	size_t n = 0;

	for (int i = 0; i <= layer; i++)
		for (int t = 0; t < (i < layer ? SEQUENCE_N_TAIL : tail); t++)
			n += (size_t)(sequence_state_n(l, i, t, edge) * l->layer[i].width[t]);
	return n;
}

size_t sequence_state_bytes(const struct sequence_layout *l, int64_t edge)
{
	return sizeof(struct sequence_state) + sequence_state_offset(l, edge, l->n_layer, 0) * sizeof(float);
}

int sequence_state_new(const struct sequence_layout *l, int64_t edge, struct sequence_state **ret_st)
{
	struct sequence_state *st;
	float *data;

	must(edge > 0 && edge % SEQUENCE_BLOCK == 0);
	data = mem_try(sequence_state_offset(l, edge, l->n_layer, 0), sizeof *data);
	if (!data)
		return -ENOMEM;
	st = mem_new(sizeof *st);
	st->refs = 1;
	st->edge = edge;
	st->data = data;
	*ret_st = st;
	return 0;
}

struct sequence_state *sequence_state_ref(struct sequence_state *st)
{
	must(atomic_fetch_add(&st->refs, 1) > 0);
	return st;
}

void sequence_state_unref(struct sequence_state **pst)
{
	struct sequence_state *st = *pst;

	*pst = NULL;
	if (!st || atomic_fetch_sub(&st->refs, 1) > 1)
		return;
	free(st->data);
	free(st);
}

int64_t sequence_state_edge(const struct sequence_state *st)
{
	return st->edge;
}

float *sequence_state_rows(const struct sequence_layout *l, struct sequence_state *st, int layer,
	enum sequence_tail t, int64_t *ret_n)
{
	must(layer >= 0 && layer < l->n_layer);
	*ret_n = sequence_state_n(l, layer, t, st->edge);
	return *ret_n ? st->data + sequence_state_offset(l, st->edge, layer, t) : NULL;
}

/* ---- saving ---- */

bool sequence_can_save(const struct sequence *s, int64_t edge)
{
	const struct sequence_layout *l = s->layout;

	must(edge % SEQUENCE_BLOCK == 0);
	if (edge <= 0 || edge > s->pos)
		return false;
	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++)
			if (sequence_state_n(l, i, t, edge) &&
			    sequence_tail_of(s, i, t)->pos0 > sequence_keep_from(l, &l->layer[i], t, edge))
				return false;
	return true;
}

/* Copies the rows of every tail out of a sequence, or into the room that one made for them. */
static void sequence_state_copy(const struct sequence *s, const struct sequence_state *st, bool out)
{
	const struct sequence_layout *l = s->layout;
	float *rows = st->data;

	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			const struct sequence_rows_tail *tail = sequence_tail_of(s, i, t);
			int64_t n = sequence_state_n(l, i, t, st->edge), width = l->layer[i].width[t];
			float *own;

			if (!n)
				continue;
			own = tail->data + (st->edge - n - tail->pos0) * width;
			memcpy(out ? rows : own, out ? own : rows, (size_t)(n * width) * sizeof *rows);
			rows += n * width;
		}
}

int sequence_save(const struct sequence *s, int64_t edge, struct sequence_state **ret_st)
{
	int rc;

	must(sequence_can_save(s, edge));
	rc = sequence_state_new(s->layout, edge, ret_st);
	if (rc == 0)
		sequence_state_copy(s, *ret_st, true);
	return rc;
}

/* ---- resuming ---- */

/* Room for the tails' rows before the edge, and for the blocks' pointers. */
static int sequence_resume_room(struct sequence *s, int64_t edge)
{
	const struct sequence_layout *l = s->layout;
	int64_t n = edge / SEQUENCE_BLOCK;

	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			const struct sequence_layer *y = &l->layer[i];
			int64_t k = sequence_state_n(l, i, t, edge);

			if (k && sequence_tail_resize(s, sequence_tail_of(s, i, t), y->width[t], edge - k, edge - k,
					 sequence_tail_base(l, y, t), NULL) < 0)
				return -ENOMEM;
		}
	/* one more: the next step opens a block */
	return n + 1 > s->cap_block ? sequence_grow_pages(s, n + n / 4 + 8) : 0;
}

static int sequence_resume_rank(struct sequence *s, int rank, struct sequence_block *const *block,
	const struct sequence_state *st)
{
	struct sequence *r = sequence_rank(s, rank);

	if (sequence_resume_room(r, st->edge) < 0)
		return -ENOMEM;
	sequence_state_copy(r, st, false);
	for (int64_t i = 0; i < st->edge / SEQUENCE_BLOCK; i++)
		sequence_put_block(r, sequence_block_ref(rank ? block[i]->other[rank - 1] : block[i]));
	r->pos = st->edge;
	return 0;
}

int sequence_resume(struct sequence *s, struct sequence_block *const *block, const struct sequence_state *st)
{
	int rc = 0;

	must(s->pos == 0 && s->mtp_pos == 0);
	sequence_empty(s); /* of what a step that failed had reserved */
	for (int64_t i = 0; i < st->edge / SEQUENCE_BLOCK && rc == 0; i++)
		rc = sequence_block_spread(s->layout, block[i]);
	for (int rank = 0; rank <= s->layout->n_other && rc == 0; rank++)
		rc = sequence_resume_rank(s, rank, block, st);
	if (rc < 0)
		sequence_empty(s);
	return rc;
}
