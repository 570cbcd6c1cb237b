/* SPDX-License-Identifier: MIT
 * moe_shared.c - the shared experts, of any format, in steps that other experts' loops do along with their own.
 * Threads: engine calls take and rounded, pool runs the rest, each on outputs of its own. Locks: none. */
#include "plugins/avx512/moe_shared.h"

#include <errno.h>

/* Memory to round a's rows, and those rows once more where some weight wants them so. */
static int moe_shared_act(const struct avx512_moe *m, int dot, struct avx512_act *a, struct avx512_dot_act *d,
			  float **ret_scale)
{
	*ret_scale = m->host->scratch(m->x, (size_t)(a->n * avx512_act_scales(a)) * sizeof **ret_scale);
	if (!*ret_scale || (dot && avx512_dot_act_take(m->x, m->host, a, d)))
		return -ENOMEM;
	a->dot = dot ? d : NULL;
	return 0;
}

static int moe_shared_memory(struct avx512_moe_shared *s)
{
	const struct dsv4_moe_experts *a = s->m->a;
	size_t tokens = (size_t)a->n_tok * (size_t)a->dim, hidden = (size_t)s->n * (size_t)a->inter;
	const struct dsv4_host *host = s->m->host;

	s->q = host->scratch(s->m->x, tokens * sizeof *s->q);
	s->g = host->scratch(s->m->x, hidden * sizeof *s->g);
	s->u = host->scratch(s->m->x, hidden * sizeof *s->u);
	s->row = host->scratch(s->m->x, (size_t)s->n * sizeof *s->row);
	s->y = host->scratch(s->m->x, tokens * sizeof *s->y);
	if (!s->q || !s->g || !s->u || !s->row || !s->y)
		return -ENOMEM;
	for (int64_t i = 0; i < s->n; i++)
		s->row[i] = (int32_t)i;
	return 0;
}

/* The list of those that are here. */
static int moe_shared_list(const struct avx512_moe *m, struct avx512_moe_shared *s)
{
	const struct dsv4_moe_experts *a = m->a;

	*s = (struct avx512_moe_shared){ .m = m };
	s->expert = m->host->scratch(m->x, (size_t)a->n_shared * sizeof *s->expert);
	if (!s->expert)
		return -ENOMEM;
	for (int32_t e = 0; e < a->n_shared; e++)
		if (dsv4_expert_here(&a->shared[e]))
			s->expert[s->n_expert++] = &a->shared[e];
	s->n = (int64_t)a->n_tok * s->n_expert;
	return 0;
}

int avx512_moe_shared_take(const struct avx512_moe *m, struct avx512_moe_shared *s)
{
	const struct dsv4_moe_experts *a = m->a;
	int x_dot = 0, h_dot = 0, rc = moe_shared_list(m, s);

	for (int32_t e = 0; e < s->n_expert; e++) {
		if (!avx512_moe_expert_ok(a, s->expert[e]))
			return -EINVAL;
		x_dot |= avx512_dot_fp8_wanted(m->host, &s->expert[e]->w1);
		x_dot |= avx512_dot_fp8_wanted(m->host, &s->expert[e]->w3);
		h_dot |= avx512_dot_fp8_wanted(m->host, &s->expert[e]->w2);
	}
	rc = rc ? rc : moe_shared_memory(s);
	if (rc)
		return rc;
	s->x = (struct avx512_act){ .n_group = 1, .n = a->n_tok, .cols = a->dim, .x = a->x, .ldx = a->dim };
	s->h = (struct avx512_act){ .n_group = 1, .n = s->n, .cols = a->inter, .x = s->g, .ldx = a->inter };
	s->x_rounded = s->x;
	s->h_rounded = s->h;
	rc = moe_shared_act(m, x_dot, &s->x_rounded, &s->x_dot, &s->q_scale);
	if (rc == 0)
		rc = moe_shared_act(m, h_dot, &s->h_rounded, &s->h_dot, &s->h_scale);
	s->h_rounded.scale = s->h_scale;
	return rc;
}

void avx512_moe_shared_x(const struct avx512_moe_shared *s, int64_t t)
{
	if (s->m->a->act == DSV4_ACT_FP8)
		avx512_act_round_row(&s->x_rounded, t, s->q, s->q_scale);
}

void avx512_moe_shared_rounded(struct avx512_moe_shared *s)
{
	avx512_act_rounded(&s->x_rounded, s->q, s->q_scale);
}

static void moe_shared_product(const struct avx512_moe_shared *s, const struct dsv4_weight *w, int32_t e, float *y,
			       int64_t c0, int64_t c1)
{
	const struct dsv4_moe_experts *a = s->m->a;

	avx512_product_part(s->m->host, &(struct avx512_product){
		.w = w, .a = dsv4_weight_rounds(w, a->act) ? &s->x_rounded : &s->x, .n = a->n_tok,
		.y = y + (int64_t)e * a->n_tok * a->inter, .ldy = a->inter }, c0, c1);
}

void avx512_moe_shared_up(const struct avx512_moe_shared *s, int32_t e, int64_t c0, int64_t c1)
{
	const struct dsv4_moe_experts *a = s->m->a;

	moe_shared_product(s, &s->expert[e]->w1, e, s->g, c0, c1);
	moe_shared_product(s, &s->expert[e]->w3, e, s->u, c0, c1);
	for (int64_t t = (int64_t)e * a->n_tok; t < (int64_t)(e + 1) * a->n_tok; t++)
		for (int64_t i = c0; i < c1; i += AVX512_LANES) {
			float *g = s->g + t * a->inter + i, *u = s->u + t * a->inter + i;

			avx512_store(g, c1 - i,
				     x86_moe_gate(avx512_load(g, c1 - i), avx512_load(u, c1 - i), 1, a->limit));
		}
}

void avx512_moe_shared_h(const struct avx512_moe_shared *s, int64_t row)
{
	if (dsv4_weight_rounds(&s->expert[row / s->m->a->n_tok]->w2, s->m->a->act))
		avx512_act_round_row(&s->h_rounded, row, s->g, s->h_scale);
}

void avx512_moe_shared_down(const struct avx512_moe_shared *s, int64_t c0, int64_t c1)
{
	const struct dsv4_moe_experts *a = s->m->a;

	for (int32_t e = 0; e < s->n_expert; e++) {
		const struct dsv4_weight *w = &s->expert[e]->w2;

		avx512_product_part(s->m->host, &(struct avx512_product){
			.w = w, .a = dsv4_weight_rounds(w, a->act) ? &s->h_rounded : &s->h, .n = a->n_tok,
			.from = s->row + (int64_t)e * a->n_tok, .accumulate = e > 0, .y = s->y, .ldy = a->dim }, c0,
				    c1);
	}
}
