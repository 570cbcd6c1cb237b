/* SPDX-License-Identifier: MIT
 * bench_state.c - sequences of any length without computing them: rows of a short one over and over, with random signs.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/serve/rng.h"
#include "tests/bench/bench_model.h"

#include <stdlib.h>
#include <string.h>

#define BENCH_STATE_CHUNK 512 /* tokens added at a time */

/* ---- the short one ---- */

static float *bench_seed_rows(const struct sequence *seq, int layer, enum sequence_rows k, int64_t n, int dim)
{
	struct dsv4_rows r = sequence_rows(seq, layer, k, n);
	float *rows = mem_grow(NULL, (size_t)(n * dim) + 1, sizeof *rows);

	for (int64_t i = 0; i < n; i++)
		memcpy(rows + i * dim, r.page[i / r.page_rows] + i % r.page_rows * dim, (size_t)dim * sizeof *rows);
	return rows;
}

void bench_seed_init(struct bench_seed *s, const struct sequence_layout *l, const struct sequence *seq)
{
	int64_t pos = sequence_pos(seq);

	*s = (struct bench_seed){ .n_layer = l->n_layer, .layer = mem_new((size_t)l->n_layer * sizeof *s->layer) };
	for (int i = 0; i < l->n_layer; i++) {
		const struct sequence_layer *y = &l->layer[i];
		struct bench_seed_layer *to = &s->layer[i];
		int width = y->width[SEQUENCE_WINDOW];

		for (int k = 0; k < SEQUENCE_N_ROWS; k++) {
			to->n[k] = y->dim[k] ? pos / y->ratio : 0;
			to->rows[k] = bench_seed_rows(seq, i, (enum sequence_rows)k, to->n[k], y->dim[k]);
		}
		to->n_window = pos < l->window ? pos : l->window;
		to->window = mem_grow(NULL, (size_t)(to->n_window * width) + 1, sizeof *to->window);
		memcpy(to->window,
		       sequence_tail((struct sequence *)(uintptr_t)seq, i, SEQUENCE_WINDOW, pos - to->n_window),
		       (size_t)(to->n_window * width) * sizeof *to->window);
	}
}

void bench_seed_fini(struct bench_seed *s)
{
	for (int i = 0; i < s->n_layer; i++) {
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			free(s->layer[i].rows[k]);
		free(s->layer[i].window);
	}
	free(s->layer);
	*s = (struct bench_seed){ 0 };
}

/* ---- the long ones ---- */

/* Row number i of n there are, with the signs of a key. */
static void bench_state_signs(float *to, const float *rows, int64_t n, int64_t i, int dim, uint64_t key)
{
	const float *from = rows + i % n * dim;
	uint32_t bits[4];

	for (int d = 0; d < dim; d++) {
		if (d % 128 == 0)
			rng_block(key, (uint64_t)i * 64 + (uint64_t)d / 128, bits);
		to[d] = bits[d % 128 / 32] >> d % 32 & 1 ? -from[d] : from[d];
	}
}

/* The inputs of compressors are rounded by nobody. */
static void bench_state_even(float *to, int width, uint64_t key, int64_t pos)
{
	uint32_t bits[4];

	for (int d = 0; d < width; d++) {
		if (d % 4 == 0)
			rng_block(key, (uint64_t)pos * 4096 + (uint64_t)d, bits);
		to[d] = (float)(int32_t)bits[d % 4] * 0x1.8p-31f;
	}
}

/* Tokens [pos, pos + n) of one layer; of tails only what is still of use at `end`. */
static void bench_state_layer(const struct bench_seed_layer *s, const struct sequence_layout *l, struct sequence *seq,
			      int layer, int64_t n, int64_t end, uint64_t key)
{
	const struct sequence_layer *y = &l->layer[layer];
	int64_t pos = sequence_pos(seq);

	for (int k = 0; k < SEQUENCE_N_ROWS; k++)
		for (int64_t r = y->dim[k] ? pos / y->ratio : 0; y->dim[k] && r < (pos + n) / y->ratio; r++)
			bench_state_signs(sequence_row(seq, layer, (enum sequence_rows)k, r), s->rows[k], s->n[k], r,
					  y->dim[k], key + (uint64_t)(2 * layer + k));
	for (int t = 0; t < SEQUENCE_N_TAIL; t++)
		for (int64_t p = pos > end - 2 * SEQUENCE_BLOCK - l->window ? pos :
		     end - 2 * SEQUENCE_BLOCK - l->window;
		     y->width[t] && p < pos + n; p++) {
			float *to = sequence_tail(seq, layer, (enum sequence_tail)t, p);

			if (t == SEQUENCE_WINDOW)
				bench_state_signs(to, s->window, s->n_window, p, y->width[t],
						  key + 1000 + (uint64_t)layer);
			else
				bench_state_even(to, y->width[t], key + 2000 + (uint64_t)layer, p);
		}
}

int bench_state_new(const struct bench_seed *s, const struct sequence_layout *l, int64_t n, uint64_t key,
		    struct queue *q, struct sequence **ret_seq)
{
	struct sequence *seq = NULL;
	int rc = sequence_new(l, &seq);

	while (rc == 0 && sequence_pos(seq) < n) {
		int64_t left = n - sequence_pos(seq), some = left < BENCH_STATE_CHUNK ? left : BENCH_STATE_CHUNK;

		rc = sequence_reserve(seq, (int)some, q);
		rc = rc ? rc : queue_sync(q, NULL);
		for (int i = 0; i < l->n_layer && rc == 0; i++)
			bench_state_layer(&s->layer[i], l, seq, i, some, n, key << 16);
		if (rc == 0)
			sequence_commit(seq, (int)some);
	}
	if (rc)
		sequence_free(&seq);
	else
		*ret_seq = seq;
	return rc;
}
