/* SPDX-License-Identifier: MIT
 * sequence.c - what the model remembers of one token sequence, in the parts that a cache can share.
 * Threads: the engine thread, except sequence_bytes. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/model/sequence_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

static int64_t sequence_page_rows(const struct sequence_layer *y)
{
	return SEQUENCE_BLOCK / y->ratio;
}

static void sequence_layer_init(struct sequence_layout *l, struct sequence_layer *y,
	const struct model_config *c)
{
	int factor = y->overlap ? 2 : 1;

	y->width[SEQUENCE_WINDOW] = c->head_dim;
	if (!y->ratio)
		return;
	must(SEQUENCE_BLOCK % y->ratio == 0);
	y->width[SEQUENCE_KV] = y->width[SEQUENCE_SCORE] = factor * c->head_dim;
	y->dim[SEQUENCE_ROWS_KV] = c->head_dim;
	if (y->overlap) {
		y->width[SEQUENCE_INDEX_KV] = y->width[SEQUENCE_INDEX_SCORE] = factor * c->index_dim;
		y->dim[SEQUENCE_ROWS_KEY] = c->index_dim;
	}
	for (int k = 0; k < SEQUENCE_N_ROWS; k++) {
		y->offset[k] = l->block_floats;
		l->block_floats += sequence_page_rows(y) * y->dim[k];
	}
}

void sequence_layout_init(struct sequence_layout *l, const struct model_config *c)
{
	must(c->n_layers <= MODEL_MAX_LAYERS);
	memset(l, 0, sizeof *l);
	l->device = device_cpu();
	l->n_layer = c->n_layers;
	l->window = c->window;
	for (int i = 0; i <= c->n_layers; i++) {
		struct sequence_layer *y = &l->layer[i];

		y->ratio = i < c->n_layers ? c->compress_ratio[i] : 0;
		y->overlap = y->ratio == 4;
		sequence_layer_init(l, y, c);
	}
}

int64_t sequence_keep_from(const struct sequence_layout *l, const struct sequence_layer *y, int t,
	int64_t pos)
{
	if (t == SEQUENCE_WINDOW)
		return pos < l->window - 1 ? 0 : pos - (l->window - 1);
	return (pos / y->ratio - y->overlap) * y->ratio;
}

int64_t sequence_tail_base(const struct sequence_layout *l, const struct sequence_layer *y, int t)
{
	return 2 * (t == SEQUENCE_WINDOW ? l->window : y->ratio * (1 + y->overlap));
}

size_t sequence_layout_bytes(const struct sequence_layout *l, int64_t n_tok)
{
	size_t block = sequence_block_bytes(l) + sizeof(struct sequence_block *) +
		SEQUENCE_N_ROWS * (size_t)l->n_layer * sizeof(float *);
	size_t n = sizeof(struct sequence);

	for (int i = 0; i <= l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++)
			if (l->layer[i].width[t])
				n += sizeof(float) * (size_t)l->layer[i].width[t] *
				     (size_t)sequence_tail_base(l, &l->layer[i], t);
	return n + (size_t)((n_tok + SEQUENCE_BLOCK - 1) / SEQUENCE_BLOCK) * block;
}

/* ---- life ---- */

int sequence_new(const struct sequence_layout *l, struct sequence **ret_s)
{
	struct sequence *s = mem_new(sizeof *s);
	size_t n_tail = (size_t)(l->n_layer + 1) * SEQUENCE_N_TAIL;

	s->layout = l;
	s->tail = mem_new(n_tail * sizeof *s->tail);
	s->bytes = sizeof *s + n_tail * sizeof *s->tail;
	if (l->n_other)
		s->other = mem_new((size_t)l->n_other * sizeof *s->other);
	for (int i = 0; i < l->n_other; i++)
		(void)sequence_new(l->other[i], &s->other[i]); /* so small that it does not fail */
	*ret_s = s;
	return 0;
}

struct sequence *sequence_rank(struct sequence *s, int rank)
{
	must(rank >= 0 && rank <= s->layout->n_other);
	return rank ? s->other[rank - 1] : s;
}

static void sequence_empty_one(struct sequence *s)
{
	const struct sequence_layout *l = s->layout;

	while (s->n_block > 0) {
		sequence_block_unref(&s->block[--s->n_block]);
		s->bytes -= sequence_block_bytes(l);
	}
	for (int i = 0; i < (l->n_layer + 1) * SEQUENCE_N_TAIL; i++) {
		struct sequence_rows_tail *t = &s->tail[i];

		s->bytes -= (size_t)t->cap * (size_t)l->layer[i / SEQUENCE_N_TAIL].width[i % SEQUENCE_N_TAIL] *
			    sizeof(float);
		device_free(l->device, t->data);
		*t = (struct sequence_rows_tail){ 0 };
	}
	s->pos = s->mtp_pos = 0;
}

void sequence_empty(struct sequence *s)
{
	for (int i = 0; i <= s->layout->n_other; i++)
		sequence_empty_one(sequence_rank(s, i));
}

void sequence_free(struct sequence **ps)
{
	struct sequence *s = *ps;

	*ps = NULL;
	if (!s)
		return;
	sequence_empty(s);
	for (int i = 0; i < s->layout->n_other; i++)
		sequence_free(&s->other[i]);
	free(s->other);
	free(s->tail);
	free(s->block);
	device_free(s->layout->device, s->page);
	free(s);
}

int64_t sequence_pos(const struct sequence *s)
{
	return s->pos;
}

size_t sequence_bytes(const struct sequence *s)
{
	return s->bytes;
}

/* ---- tails ---- */

int sequence_tail_resize(struct sequence *s, struct sequence_rows_tail *t, int width, int64_t from,
	int64_t pos, int64_t cap, struct queue *q)
{
	size_t row = (size_t)width * sizeof(float);
	float *data = device_alloc(s->layout->device, (size_t)cap, row);

	if (!data)
		return -ENOMEM;
	if (t->data && pos > from)
		queue_move(q, data, t->data + (from - t->pos0) * width, (size_t)(pos - from) * row);
	s->bytes += (size_t)cap * row;
	s->bytes -= (size_t)t->cap * row;
	if (t->data)
		queue_discard(q, t->data);
	*t = (struct sequence_rows_tail){ data, from, cap };
	return 0;
}

/* The rows kept move to the front; what would be moved onto itself, a GPU moves to other memory. */
static int sequence_tail_slide(struct sequence *s, struct sequence_rows_tail *t, int width, int64_t from, int64_t pos,
	struct queue *q)
{
	size_t bytes = (size_t)((pos - from) * width) * sizeof(float);
	const float *rows = t->data + (from - t->pos0) * width;

	if (!queue_is_gpu(q))
		memmove(t->data, rows, bytes);
	else if (from - t->pos0 >= pos - from)
		queue_move(q, t->data, rows, bytes);
	else
		return sequence_tail_resize(s, t, width, from, pos, t->cap, q);
	t->pos0 = from;
	return 0;
}

/* Room for positions [pos, pos + n) after the rows kept. */
static int sequence_tail_reserve(struct sequence *s, int layer, int kind, int64_t pos, int n, struct queue *q)
{
	const struct sequence_layer *y = &s->layout->layer[layer];
	struct sequence_rows_tail *t = sequence_tail_of(s, layer, kind);
	int64_t from, need, base;
	int width = y->width[kind];

	if (!width)
		return 0;
	from = sequence_keep_from(s->layout, y, kind, pos);
	need = pos + n - from;
	base = sequence_tail_base(s->layout, y, kind);
	if (need > t->cap || (t->cap > base && t->cap / 4 > need))
		return sequence_tail_resize(s, t, width, from, pos, need > base ? need : base, q);
	return pos + n - t->pos0 > t->cap ? sequence_tail_slide(s, t, width, from, pos, q) : 0;
}

float *sequence_tail(struct sequence *s, int layer, enum sequence_tail kind, int64_t pos)
{
	struct sequence_rows_tail *t = sequence_tail_of(s, layer, kind);

	must(pos >= t->pos0 && pos - t->pos0 < t->cap);
	return t->data + (pos - t->pos0) * s->layout->layer[layer].width[kind];
}

/* ---- blocks ---- */

static const float **sequence_pages(const struct sequence *s, int layer, int kind)
{
	return s->page + (layer * SEQUENCE_N_ROWS + kind) * s->cap_block;
}

int sequence_grow_pages(struct sequence *s, int64_t cap)
{
	int n_set = s->layout->n_layer * SEQUENCE_N_ROWS;
	size_t entry = sizeof *s->block + (size_t)n_set * sizeof *s->page;
	struct sequence_block **block = mem_try((size_t)cap, sizeof *block);
	const float **page = device_alloc(s->layout->device, (size_t)cap * (size_t)n_set, sizeof *page);

	if (!block || !page) {
		free(block);
		device_free(s->layout->device, page);
		return -ENOMEM;
	}
	for (int64_t i = 0; i < s->n_block; i++)
		block[i] = s->block[i];
	for (int i = 0; i < n_set && s->n_block; i++)
		memcpy(page + i * cap, s->page + i * s->cap_block, (size_t)s->n_block * sizeof *page);
	free(s->block);
	device_free(s->layout->device, s->page);
	s->bytes += (size_t)(cap - s->cap_block) * entry;
	s->block = block;
	s->page = page;
	s->cap_block = cap;
	return 0;
}

void sequence_put_block(struct sequence *s, struct sequence_block *b)
{
	const struct sequence_layout *l = s->layout;

	must(s->n_block < s->cap_block);
	for (int i = 0; i < l->n_layer; i++)
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			sequence_pages(s, i, k)[s->n_block] = b->data + l->layer[i].offset[k];
	s->block[s->n_block++] = b;
	s->bytes += sequence_block_bytes(l);
}

static int sequence_add_block(struct sequence *s)
{
	struct sequence_block *b;

	if (s->n_block == s->cap_block && sequence_grow_pages(s, s->cap_block ? 2 * s->cap_block : 8) < 0)
		return -ENOMEM;
	if (sequence_block_new(s->layout, &b) < 0)
		return -ENOMEM;
	sequence_put_block(s, b);
	return 0;
}

float *sequence_row(struct sequence *s, int layer, enum sequence_rows kind, int64_t row)
{
	const struct sequence_layer *y = &s->layout->layer[layer];
	int64_t rows = sequence_page_rows(y), block = row / rows;

	must(row >= s->pos / y->ratio && block < s->n_block);
	return s->block[block]->data + y->offset[kind] + row % rows * y->dim[kind];
}

struct dsv4_rows sequence_rows(const struct sequence *s, int layer, enum sequence_rows kind, int64_t n)
{
	const struct sequence_layer *y = &s->layout->layer[layer];
	struct dsv4_rows r = { .size = sizeof r, .page_rows = 1 };

	if (!y->ratio || !y->dim[kind])
		return r;
	r.dim = (uint32_t)y->dim[kind];
	r.n = n;
	r.page_rows = sequence_page_rows(y);
	r.page = sequence_pages(s, layer, kind);
	return r;
}

/* ---- steps ---- */

int sequence_reserve(struct sequence *s, int n, struct queue *q)
{
	int64_t blocks = (s->pos + n + SEQUENCE_BLOCK - 1) / SEQUENCE_BLOCK;

	must(n > 0);
	while (s->n_block < blocks)
		if (sequence_add_block(s) < 0)
			return -ENOMEM;
	for (int i = 0; i < s->layout->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++)
			if (sequence_tail_reserve(s, i, t, s->pos, n, q) < 0)
				return -ENOMEM;
	return 0;
}

void sequence_commit(struct sequence *s, int n)
{
	for (int i = 0; i <= s->layout->n_other; i++) {
		struct sequence *r = sequence_rank(s, i);

		must(r->n_block * SEQUENCE_BLOCK >= r->pos + n);
		r->pos += n;
	}
}

int64_t sequence_mtp_pos(const struct sequence *s)
{
	return s->mtp_pos;
}

int sequence_mtp_reserve(struct sequence *s, int n, struct queue *q)
{
	return sequence_tail_reserve(s, s->layout->n_layer, SEQUENCE_WINDOW, s->mtp_pos, n, q);
}

void sequence_mtp_commit(struct sequence *s, int n)
{
	for (int i = 0; i <= s->layout->n_other; i++)
		sequence_rank(s, i)->mtp_pos += n;
}
