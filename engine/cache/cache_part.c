/* SPDX-License-Identifier: MIT
 * cache_part.c - what is cached of a prompt as named tensors, one per layer and kind: for dumps and comparisons.
 * Threads: any. Locks: none. */
#include "engine/cache/cache_part.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const cache_part_row_names[SEQUENCE_N_ROWS] = {
	[SEQUENCE_ROWS_KV] = "rows_kv",
	[SEQUENCE_ROWS_KEY] = "rows_key",
};
static const char *const cache_part_tail_names[SEQUENCE_N_TAIL] = {
	[SEQUENCE_WINDOW] = "window",
	[SEQUENCE_KV] = "overlap_kv",
	[SEQUENCE_SCORE] = "overlap_score",
	[SEQUENCE_INDEX_KV] = "overlap_index_kv",
	[SEQUENCE_INDEX_SCORE] = "overlap_index_score",
};

/* ---- which there are ---- */

static bool cache_part_of_blocks(const struct cache_view *v, int layer, int k, struct cache_part *ret_p)
{
	const struct sequence_layer *y = &v->layout->layer[layer];

	*ret_p = (struct cache_part){ .layer = layer, .kind = k, .width = y->dim[k] };
	if (!y->dim[k] || !y->ratio || !v->n_block)
		return false;
	ret_p->n_row = v->n_block * (SEQUENCE_BLOCK / y->ratio);
	snprintf(ret_p->name, sizeof ret_p->name, "layers.%d.%s", layer, cache_part_row_names[k]);
	return true;
}

static bool cache_part_of_state(const struct cache_view *v, int layer, int t, struct cache_part *ret_p)
{
	*ret_p = (struct cache_part){ .layer = layer, .tail = true, .kind = t,
				      .width = v->layout->layer[layer].width[t] };
	if (!v->state || !sequence_state_rows(v->layout, v->state, layer, (enum sequence_tail)t, &ret_p->n_row))
		return false;
	snprintf(ret_p->name, sizeof ret_p->name, "layers.%d.%s", layer, cache_part_tail_names[t]);
	return true;
}

/* Kind i of a layer: rows first, then tails. */
static bool cache_part_kind(const struct cache_view *v, int layer, int i, struct cache_part *ret_p)
{
	return i < SEQUENCE_N_ROWS ? cache_part_of_blocks(v, layer, i, ret_p)
				   : cache_part_of_state(v, layer, i - SEQUENCE_N_ROWS, ret_p);
}

int cache_parts(const struct cache_view *v, struct cache_part **ret_p)
{
	size_t most = (size_t)v->layout->n_layer * (SEQUENCE_N_ROWS + SEQUENCE_N_TAIL);
	struct cache_part *p = mem_grow(NULL, most, sizeof *p);
	int n = 0;

	for (int layer = 0; layer < v->layout->n_layer; layer++)
		for (int i = 0; i < SEQUENCE_N_ROWS + SEQUENCE_N_TAIL; i++)
			n += cache_part_kind(v, layer, i, &p[n]);
	*ret_p = p;
	return n;
}

const float *cache_part_rows(const struct cache_view *v, const struct cache_part *p, int64_t row, int64_t *ret_n)
{
	const float *rows;
	int64_t per, at;

	must(row >= 0 && row < p->n_row);
	if (p->tail) {
		rows = sequence_state_rows(v->layout, v->state, p->layer, (enum sequence_tail)p->kind, &per);
		at = row;
	} else {
		per = SEQUENCE_BLOCK / v->layout->layer[p->layer].ratio;
		rows = sequence_block_rows(v->layout, v->block[row / per], p->layer, (enum sequence_rows)p->kind);
		at = row % per;
	}
	*ret_n = per - at;
	return rows + at * p->width;
}

/* ---- two of them ---- */

static void cache_part_compare(const struct cache_view *a, const struct cache_view *b, const struct cache_part *p,
	struct cache_part_diff *d)
{
	for (int64_t row = 0; row < d->compared;) {
		int64_t na, nb;
		const float *x = cache_part_rows(a, p, row, &na), *y = cache_part_rows(b, p, row, &nb);
		int64_t n = na < nb ? na : nb;

		n = n < d->compared - row ? n : d->compared - row;
		rowdiff_add(&d->diff, x, y, row, n, p->width);
		row += n;
	}
}

void cache_parts_compare(const struct cache_view *a, const struct cache_view *b, cache_part_diff_f *fn, void *arg)
{
	must(a->layout->n_layer == b->layout->n_layer);
	for (int layer = 0; layer < a->layout->n_layer; layer++)
		for (int i = 0; i < SEQUENCE_N_ROWS + SEQUENCE_N_TAIL; i++) {
			struct cache_part x, y;
			bool in_a = cache_part_kind(a, layer, i, &x), in_b = cache_part_kind(b, layer, i, &y);
			struct cache_part_diff d = { .name = in_a ? x.name : y.name, .rows_a = in_a ? x.n_row : 0,
						     .rows_b = in_b ? y.n_row : 0 };

			if (!in_a && !in_b)
				continue;
			must(x.width == y.width);
			d.compared = d.rows_a < d.rows_b ? d.rows_a : d.rows_b;
			if (x.tail && a->n_block != b->n_block)
				d.compared = 0;
			cache_part_compare(a, b, &x, &d);
			fn(arg, &d);
		}
}
