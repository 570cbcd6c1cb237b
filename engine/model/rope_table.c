/* SPDX-License-Identifier: MIT
 * rope_table.c - rotary frequencies, and cosines and sines of positions (doc/format.md 3.4).
 * Threads: any, read-only after init. Locks: none. */
#include "engine/model/rope_table.h"
#include "engine/base/must.h"

#include <math.h>

#define ROPE_PI 3.14159265358979323846

/* The pair whose wave turns `turns` times over the original context. */
static double rope_table_pair(double turns, int rot, double theta, int context)
{
	return rot * log(context / (turns * 2 * ROPE_PI)) / (2 * log(theta));
}

/* Slow pairs are divided by the factor, fast ones kept, those between mixed linearly; all in f32 like the
 * reference, since the frequencies' last bits show at high positions. */
static void rope_table_yarn(struct rope_table *t, double theta, const struct rope_yarn *y)
{
	double low = floor(rope_table_pair(y->beta_fast, t->rot, theta, y->original_context));
	double high = ceil(rope_table_pair(y->beta_slow, t->rot, theta, y->original_context));

	low = low > 0 ? low : 0;
	high = high < t->rot - 1 ? high : t->rot - 1;
	if (low == high)
		high += 0.001;
	for (int i = 0; i < t->rot / 2; i++) {
		float ramp = ((float)i - (float)low) / (float)(high - low);
		float keep = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);

		t->inv_freq[i] = t->inv_freq[i] / (float)y->factor * (1.0f - keep) + t->inv_freq[i] * keep;
	}
}

void rope_table_init(struct rope_table *t, int rot, double theta, const struct rope_yarn *yarn)
{
	must(rot > 0 && rot % 2 == 0 && rot <= ROPE_MAX_DIM);
	t->rot = rot;
	for (int i = 0; i < rot / 2; i++) {
		float exponent = (float)(2 * i) / (float)rot;

		t->inv_freq[i] = 1.0f / (float)pow(theta, exponent);
	}
	if (yarn && yarn->factor > 1)
		rope_table_yarn(t, theta, yarn);
}

void rope_table_fill(const struct rope_table *t, int64_t pos0, int64_t step, int n, float *cs)
{
	for (int64_t i = 0; i < n; i++) {
		float pos = (float)(pos0 + i * step);

		for (int k = 0; k < t->rot / 2; k++) {
			float angle = pos * t->inv_freq[k];

			*cs++ = (float)cos(angle); /* in double, so that the f32 result is the nearest */
			*cs++ = (float)sin(angle);
		}
	}
}
