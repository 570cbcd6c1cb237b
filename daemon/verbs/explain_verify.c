/* SPDX-License-Identifier: MIT
 * explain_verify.c - the top-k at which the indexer would take a text: tried, not concluded from its ranks.
 * Threads: ops runs it, control reads it afterwards. Locks: none. */
#include "daemon/verbs/explain_verify.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

#define VERIFY_STEPS 3 /* from one guess of the ranks to the next, before they are doubled */

/* What is looked for: one place, one layer or all. */
struct verify_goal {
	int place, layer;
	enum explain_want want;
};

/* ---- what was tried ---- */

static const struct explain_took *verify_took(const struct explain_verify *v, const struct explain_tried *t, int place,
					      int layer)
{
	return &t->took[place * v->n_layer + layer];
}

static void verify_keep(struct explain_verify *v, int topk, const struct explain_result *r)
{
	struct explain_tried *t = &v->tried[v->n_tried++];

	*t = (struct explain_tried){ .topk = topk,
				     .took = mem_new((size_t)(v->n_place * v->n_layer) * sizeof *t->took) };
	for (int i = 0; i < v->n_place * v->n_layer; i++) {
		const struct explain_layer *l = &r->layer[i % v->n_layer];
		const struct token_span *span = &v->place[i / v->n_layer];
		struct explain_text x;

		explain_text(l, span->begin, span->end, &x);
		t->took[i] = (struct explain_took){
			.took = { [EXPLAIN_SOME] = x.n_selected > 0, [EXPLAIN_WHOLE] = x.n_held > 0 &&
				  x.n_seen == x.n_held },
			.topk = { [EXPLAIN_SOME] = x.topk_any, [EXPLAIN_WHOLE] = x.topk_text },
			.exact = i % v->n_layer == 0 && l->n_misselected == 0,
		};
		v->most = l->n_row > v->most ? (int)l->n_row : v->most;
	}
}

static bool verify_holds(const struct explain_verify *v, const struct explain_tried *t, const struct verify_goal *g)
{
	bool all = true;

	for (int l = 0; l < v->n_layer; l++)
		if (g->layer == EXPLAIN_ALL || g->layer == l)
			all = all && verify_took(v, t, g->place, l)->took[g->want];
	return all;
}

/* What that run's ranks ask for. */
static int verify_guess(const struct explain_verify *v, const struct explain_tried *t, const struct verify_goal *g)
{
	int most = 0;

	for (int l = 0; l < v->n_layer; l++) {
		int one = verify_took(v, t, g->place, l)->topk[g->want];

		if ((g->layer == EXPLAIN_ALL || g->layer == l) && one > most)
			most = one;
	}
	return most;
}

/* Of this top-k; NULL: rc, or v->why says why it cannot be had. */
static const struct explain_tried *verify_try(struct explain_verify *v, int topk, int *ret_rc)
{
	struct explain_result r = { 0 };

	for (int i = 0; i < v->n_tried; i++)
		if (v->tried[i].topk == topk)
			return &v->tried[i];
	if (v->n_tried > v->reruns || v->why.len) {
		if (!v->why.len)
			buf_printf(&v->why, "the %d reruns were used up", v->reruns);
		return NULL;
	}
	*ret_rc = v->again(v->arg, topk, &r, &v->why);
	if (*ret_rc)
		return NULL;
	verify_keep(v, topk, &r);
	explain_result_fini(&r);
	return &v->tried[v->n_tried - 1];
}

/* ---- the search ---- */

/* A top-k that holds; NULL: none was found. */
static const struct explain_tried *verify_up(struct explain_verify *v, const struct verify_goal *g, int *ret_rc)
{
	const struct explain_tried *t = &v->tried[0];

	for (int step = 0; t && !verify_holds(v, t, g); step++) {
		int guess = verify_guess(v, t, g), next = guess > t->topk ? guess : t->topk + 1;

		if (step >= VERIFY_STEPS && next < 2 * t->topk - v->tried[0].topk)
			next = 2 * t->topk - v->tried[0].topk;
		if (t->topk >= v->most)
			return NULL; /* there is nothing more to take */
		t = verify_try(v, next < v->most ? next : v->most, ret_rc);
	}
	return t;
}

/* The largest below `hi` that was seen not to hold; 0: none, and nothing is taken. */
static int verify_below(const struct explain_verify *v, const struct verify_goal *g, int hi)
{
	int lo = 0;

	for (int i = 0; i < v->n_tried; i++)
		if (v->tried[i].topk < hi && v->tried[i].topk > lo && !verify_holds(v, &v->tried[i], g))
			lo = v->tried[i].topk;
	return lo;
}

/* The smallest above `lo` that was seen to hold, `hi` at most. */
static int verify_above(const struct explain_verify *v, const struct verify_goal *g, int lo, int hi)
{
	for (int i = 0; i < v->n_tried; i++)
		if (v->tried[i].topk > lo && v->tried[i].topk < hi && verify_holds(v, &v->tried[i], g))
			hi = v->tried[i].topk;
	return hi;
}

/* From one that holds down to one of which the next smaller does not: that first, then halves. */
static int verify_down(struct explain_verify *v, const struct verify_goal *g, int hi, int *ret_rc)
{
	for (bool first = true;; first = false) {
		int lo = verify_below(v, g, hi), at;
		const struct explain_tried *t;

		hi = verify_above(v, g, lo, hi);
		if (hi - lo <= 1)
			return hi;
		at = first ? hi - 1 : lo + (hi - lo) / 2;
		t = verify_try(v, at, ret_rc);
		if (!t)
			return 0;
		if (verify_holds(v, t, g))
			hi = at;
	}
}

static int *verify_at(const struct explain_verify *v, const struct verify_goal *g)
{
	int layer = g->layer == EXPLAIN_ALL ? v->n_layer : g->layer;

	return &v->found[(g->place * (v->n_layer + 1) + layer) * EXPLAIN_N_WANT + (int)g->want];
}

/* Where the ranks depend on no other layer they tell it. */
static bool verify_exact(const struct explain_verify *v, const struct verify_goal *g)
{
	return (g->layer == 0 || v->n_layer == 1) && verify_took(v, &v->tried[0], g->place, 0)->exact;
}

static int verify_goal(struct explain_verify *v, const struct verify_goal *g)
{
	const struct explain_tried *t;
	int rc = 0, guess = verify_guess(v, &v->tried[0], g);

	if (guess == 0 || verify_exact(v, g)) {
		*verify_at(v, g) = guess;
		return 0;
	}
	if (verify_holds(v, &v->tried[0], g))
		return 0; /* it is taken as it is, and how much less would do costs as many runs as anything */
	t = verify_up(v, g, &rc);
	if (t)
		*verify_at(v, g) = verify_down(v, g, t->topk, &rc);
	return rc == RC_CANCELLED ? rc : 0;
}

int explain_verify(struct explain_verify *v, const struct explain_result *first)
{
	static const enum explain_want wants[] = { EXPLAIN_WHOLE, EXPLAIN_SOME };
	int rc = 0;

	must(v->reruns >= 0 && v->reruns <= EXPLAIN_MAX_RERUNS);
	v->n_layer = first->n_layer;
	v->found = mem_new((size_t)(v->n_place * (v->n_layer + 1) * EXPLAIN_N_WANT + 1) * sizeof *v->found);
	if (v->n_layer == 0)
		return 0;
	verify_keep(v, first->layer[0].top_k, first);
	/* What is asked most first: all layers, then each by itself, mostly from the same runs. */
	for (int layer = EXPLAIN_ALL; layer < v->n_layer; layer++)
		for (int w = 0; w < EXPLAIN_N_WANT; w++)
			for (int p = 0; p < v->n_place && !rc; p++)
				rc = verify_goal(v, &(struct verify_goal){ p, layer, wants[w] });
	return rc;
}

void explain_verify_fini(struct explain_verify *v)
{
	for (int i = 0; i < v->n_tried; i++)
		free(v->tried[i].took);
	free(v->found);
	buf_fini(&v->why);
}

int explain_verified(const struct explain_verify *v, int place, int layer, enum explain_want want)
{
	return v->found ? *verify_at(v, &(struct verify_goal){ place, layer, want }) : 0;
}
