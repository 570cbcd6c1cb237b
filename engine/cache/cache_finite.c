/* SPDX-License-Identifier: MIT
 * cache_finite.c - are cached rows numbers?
 * Threads: any. Locks: none. */
#include "engine/cache/cache_finite.h"

#include <stdint.h>
#include <string.h>

static bool cache_finite(const float *x, size_t n)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		bad += (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad == 0;
}

bool cache_finite_block(const struct sequence_layout *l, struct sequence_block *b)
{
	for (int y = 0; y < l->n_layer; y++)
		for (int k = 0; k < SEQUENCE_N_ROWS; k++) {
			const float *x = sequence_block_rows(l, b, y, (enum sequence_rows)k);

			if (x && !cache_finite(x, (size_t)(SEQUENCE_BLOCK / l->layer[y].ratio) *
					       (size_t)l->layer[y].dim[k]))
				return false;
		}
	return true;
}

bool cache_finite_state(const struct sequence_layout *l, struct sequence_state *st)
{
	for (int y = 0; y < l->n_layer; y++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n;
			const float *x = sequence_state_rows(l, st, y, (enum sequence_tail)t, &n);

			if (x && !cache_finite(x, (size_t)n * (size_t)l->layer[y].width[t]))
				return false;
		}
	return true;
}
