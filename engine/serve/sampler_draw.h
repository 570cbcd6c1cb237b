/* SPDX-License-Identifier: MIT
 * sampler_draw.h - a token drawn by temperature, top_k, top_p and min_p.
 * Threads: any, one at a time per memory. Locks: none. */
#ifndef ENGINE_SAMPLER_DRAW_H
#define ENGINE_SAMPLER_DRAW_H

#include "engine/gen.h"

#include <stdint.h>

struct sampler_cand {
	double weight;
	int32_t token;
};

/* By the settings' temperature, which is not 0, and filters, from scores [n], of which at least one is finite and those
 * that cannot come are -INFINITY. u in [0, 1) decides. Overwrites the scores and cand [n]. */
int32_t sampler_draw(const struct gen_sampling *set, double *score, int n, struct sampler_cand *cand, double u);

#endif
