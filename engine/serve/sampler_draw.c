/* SPDX-License-Identifier: MIT
 * sampler_draw.c - a token drawn by temperature, top_k, top_p and min_p.
 * Threads: any, one at a time per memory. Locks: none. */
#include "engine/serve/sampler_draw.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* How many weights lie between two powers of two, and their sum: enough to know below which power nothing is kept, so
 * that only a few of a large vocabulary are sorted. Weights are in [0, 1]: their exponent field is at most 1023. */
struct sampler_scale {
	int count[1024];
	double sum[1024];
};

static int sampler_exponent(double weight)
{
	uint64_t bits;

	memcpy(&bits, &weight, sizeof bits);
	return (int)(bits >> 52);
}

/* The least number with this exponent. */
static double sampler_floor(int exponent)
{
	uint64_t bits = (uint64_t)exponent << 52;
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* Scores become weights, whose best is 1. */
static void sampler_weigh(double temperature, double *score, int n)
{
	double max = score[0];
	int i;

	for (i = 1; i < n; i++)
		max = score[i] > max ? score[i] : max;
	/* The maximum goes before the division, so that a tiny temperature underflows to greedy. */
	for (i = 0; i < n; i++)
		score[i] = exp((score[i] - max) / temperature);
}

/* ---- filters ---- */

/* All of what top_k and top_p keep weighs at least what this returns, and not much else does; *ret_total is the sum of
 * all weights. */
static double sampler_bound(const struct gen_sampling *set, const double *weight, int n, double *ret_total)
{
	struct sampler_scale s;
	double total = 0, sum = 0;
	int count = 0, i;

	memset(&s, 0, sizeof s);
	for (i = 0; i < n; i++) {
		int e = sampler_exponent(weight[i]);

		s.count[e]++;
		s.sum[e] += weight[i];
	}
	for (i = 1023; i >= 0; i--)
		total += s.sum[i];
	*ret_total = total;
	for (i = 1023; i > 0; i--) {
		count += s.count[i];
		sum += s.sum[i];
		if (set->top_k > 0 ? count >= set->top_k : set->top_p < 1 && sum >= (double)set->top_p * total)
			break;
	}
	return i > 0 ? sampler_floor(i) : DBL_TRUE_MIN; /* a weight of 0 is kept by no filter */
}

static int sampler_collect(const double *weight, int n, double bound, struct sampler_cand *c)
{
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		c[kept] = (struct sampler_cand){ weight[i], i };
		kept += weight[i] >= bound;
	}
	return kept;
}

static bool sampler_above(const struct sampler_cand *a, const struct sampler_cand *b)
{
	return a->weight > b->weight || (a->weight == b->weight && a->token < b->token);
}

static void sampler_sift(struct sampler_cand *c, int i, int n)
{
	struct sampler_cand x = c[i];
	int k;

	for (; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && sampler_above(&c[k + 1], &c[k]))
			k++;
		if (!sampler_above(&c[k], &x))
			break;
		c[i] = c[k];
	}
	c[i] = x;
}

/* Moves the best of the heap c[0, n) to c[n - 1]. */
static void sampler_pop(struct sampler_cand *c, int n)
{
	struct sampler_cand best = c[0];

	c[0] = c[n - 1];
	c[n - 1] = best;
	sampler_sift(c, 0, n - 1);
}

/* Keeps the candidates that top_k, top_p and min_p leave of weights whose best is 1, and returns how many; they are
 * then at the end of c[0, *n), best last. */
static int sampler_filter(const struct gen_sampling *set, const double *weight, int *n, struct sampler_cand *c)
{
	double total, sum = 0, bound = sampler_bound(set, weight, *n, &total), min = (double)set->min_p;
	int i, k, kept;

	/* What min_p drops is not sorted either, but top_p is a share of all that top_k leaves. */
	if (set->top_k <= 0 && min > bound)
		bound = min;
	*n = k = sampler_collect(weight, *n, bound, c);
	if (set->top_k > 0 && set->top_k < k)
		k = set->top_k;
	for (i = *n / 2 - 1; i >= 0; i--)
		sampler_sift(c, i, *n);
	if (set->top_k > 0)
		for (total = 0, i = 0; i < k; i++) {
			sampler_pop(c, *n - i);
			total += c[*n - 1 - i].weight;
		}
	for (kept = 0; kept < k; kept++) {
		if (kept && set->top_p < 1 && sum >= (double)set->top_p * total)
			break;
		if (set->top_k <= 0)
			sampler_pop(c, *n - kept);
		if (c[*n - 1 - kept].weight < min)
			break;
		sum += c[*n - 1 - kept].weight;
	}
	return kept;
}

/* ---- drawing ---- */

/* Without a filter: all whose weight is not 0. */
static int32_t sampler_draw_any(const double *weight, int n, double u)
{
	double sum = 0, at = 0;
	int32_t token = 0;
	int i;

	for (i = n; i-- > 0;)
		sum += weight[i];
	for (i = n; i-- > 0 && at <= u * sum;)
		if (weight[i] > 0) {
			at += weight[i];
			token = i;
		}
	return token;
}

static int32_t sampler_draw_kept(const struct sampler_cand *c, int kept, double u)
{
	double sum = 0, at = 0;
	int i;

	for (i = kept; i-- > 0;)
		sum += c[i].weight;
	for (i = kept - 1; i > 0; i--) {
		at += c[i].weight;
		if (at > u * sum)
			break;
	}
	return c[i].token;
}

int32_t sampler_draw(const struct gen_sampling *set, double *score, int n, struct sampler_cand *cand, double u)
{
	int kept;

	sampler_weigh((double)set->temperature, score, n);
	if (set->top_k <= 0 && set->top_p >= 1 && set->min_p <= 0)
		return sampler_draw_any(score, n, u);
	kept = sampler_filter(set, score, &n, cand);
	return sampler_draw_kept(cand + n - kept, kept, u);
}
