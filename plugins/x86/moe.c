/* SPDX-License-Identifier: MIT
 * moe.c - chooses experts and their weights from the gate's products, and sorts tokens by expert. doc/format.md 3.7.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/x86/moe.h"
#include "plugins/x86/select.h"

#include <errno.h>
#include <string.h>

#define MOE_GRAIN 8 /* tokens per slice */

/* ---- experts of a token ---- */

struct moe_choose {
	const struct dsv4_moe_route *a;
	float *s;      /* [n_tok][n_expert] gate . x, then sqrt(softplus()) of it */
	float *choice; /* [n_tok][n_expert] what experts are chosen by, where that has a bias */
};

/* log(1 + e^z), which is z to the last bit above 20 */
static float moe_softplus(float z)
{
	return z > 20.0f ? z : log1pf(expf(z));
}

static const float *moe_choice(const struct moe_choose *c, int64_t t)
{
	const float *s = c->s + t * c->a->n_expert;
	int32_t n = c->a->n_expert;
	float *v;

	if (!c->a->bias)
		return s;
	v = c->choice + t * n;
	for (int32_t e = 0; e < n; e += VEC_LANES)
		vec_store(v + e, n - e, vec_load(s + e, n - e) + vec_load(c->a->bias + e, n - e));
	return v;
}

static void moe_sort(int32_t *ids, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && ids[j] < ids[j - 1]; j--) {
			int32_t id = ids[j];

			ids[j] = ids[j - 1];
			ids[j - 1] = id;
		}
}

static void moe_choose_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_choose *c = arg;
	const struct dsv4_moe_route *a = c->a;

	for (int64_t t = begin; t < end; t++) {
		float *s = c->s + t * a->n_expert, *weight = a->weight + t * a->k, sum = 0;
		int32_t *ids = a->ids + t * a->k;

		for (int32_t e = 0; e < a->n_expert; e++)
			s[e] = sqrtf(moe_softplus(s[e]));
		if (a->table)
			moe_sort(ids, a->k);
		else
			x86_select(moe_choice(c, t), a->n_expert, a->k, ids);
		for (int i = 0; i < a->k; i++)
			sum += s[ids[i]];
		for (int i = 0; i < a->k; i++)
			weight[i] = s[ids[i]] / sum * a->scaling;
	}
}

/* Copies the table's rows of the tokens into ids. */
static int moe_look_up(const struct dsv4_moe_route *a)
{
	const char *table = (const char *)a->table;
	int64_t id;

	for (int64_t t = 0; t < a->n_tok; t++)
		for (int64_t i = 0; i < a->k; i++) {
			memcpy(&id, table + ((int64_t)a->token[t] * a->k + i) * (int64_t)sizeof id, sizeof id);
			if (a->token[t] < 0 || id < 0 || id >= a->n_expert)
				return -EINVAL;
			a->ids[t * a->k + i] = (int32_t)id;
		}
	return 0;
}

int x86_moe_choose(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a, float *s)
{
	struct moe_choose c = { .a = a, .s = s };

	if (a->table && moe_look_up(a))
		return -EINVAL;
	if (!a->table && a->bias) {
		c.choice = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *c.choice);
		if (!c.choice)
			return -ENOMEM;
	}
	host->parallel_for(x, a->n_tok, MOE_GRAIN, moe_choose_slice, &c);
	return 0;
}

/* ---- tokens of an expert ---- */

int x86_moe_pairs(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a,
		  struct x86_pairs *ret_p)
{
	int64_t n_pair = (int64_t)a->n_tok * a->k, n = 0;
	struct x86_pairs p = {
		.start = host->scratch(x, ((size_t)a->n_expert + 1) * sizeof *p.start),
		.tok = host->scratch(x, (size_t)n_pair * sizeof *p.tok),
		.weight = host->scratch(x, (size_t)n_pair * sizeof *p.weight),
	};

	if (!p.start || !p.tok || !p.weight)
		return -ENOMEM;
	memset(p.start, 0, (size_t)(a->n_expert + 1) * sizeof *p.start);
	for (int64_t i = 0; i < n_pair; i++) {
		if (a->ids[i] < 0 || a->ids[i] >= a->n_expert)
			return -EINVAL;
		p.start[a->ids[i] + 1]++;
	}
	for (int32_t e = 0; e <= a->n_expert; e++)
		p.start[e] = n += p.start[e];
	/* start[e] is where e begins, and moves to its end, where e + 1 began: shift back after. */
	for (int64_t i = 0; i < n_pair; i++) {
		int64_t at = p.start[a->ids[i]]++;

		p.tok[at] = (int32_t)(i / a->k);
		p.weight[at] = a->weight[i];
	}
	memmove(p.start + 1, p.start, (size_t)a->n_expert * sizeof *p.start);
	p.start[0] = 0;
	*ret_p = p;
	return 0;
}
