/* SPDX-License-Identifier: MIT
 * rope_table.h - rotary frequencies, and cosines and sines of positions (doc/format.md 3.4).
 * Threads: any, read-only after init. Locks: none. */
#ifndef ENGINE_ROPE_TABLE_H
#define ENGINE_ROPE_TABLE_H

#include <stdint.h>

#define ROPE_MAX_DIM 4096 /* the loader refuses more */

struct rope_table {
	int rot;                              /* rotated dims, even */
	float inv_freq[ROPE_MAX_DIM / 2];
};

/* YaRN's change of the frequencies; factor 0 or 1: none. */
struct rope_yarn {
	double factor, beta_fast, beta_slow;
	int original_context;
};

void rope_table_init(struct rope_table *t, int rot, double theta, const struct rope_yarn *yarn);
/* cs [n][rot/2][2]: cosine and sine at positions pos0, pos0 + step, ... */
void rope_table_fill(const struct rope_table *t, int64_t pos0, int64_t step, int n, float *cs);

#endif
