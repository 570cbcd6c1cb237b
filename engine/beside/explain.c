/* SPDX-License-Identifier: MIT
 * explain.c - what the indexer made of every compressed row at one position.
 * Threads: one, with a pool of its own. Locks: none. */
#include "engine/beside/explain.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/model/model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_CHUNK 512

struct explain {
	const struct explain_options *o;
	struct explain_result *r;
	struct buf *why;
	struct forward *forward;
	struct sequence *seq;
	struct forward_watch watch;
	bool looking;                  /* the step's last token asks */
	int rc;                        /* of what was done while looking on */
	/* Of several that ask. */
	struct explain_result best;
	int best_taking;               /* layers; -1: there is none yet */
	int32_t best_rank;
};

/* ---- ranks ---- */

struct explain_order {
	float score;
	int32_t row;
};

static int explain_better_first(const void *a, const void *b)
{
	const struct explain_order *x = a, *y = b;

	if (isnan(x->score) != isnan(y->score))
		return isnan(x->score) ? 1 : -1;
	if (x->score > y->score || x->score < y->score)
		return x->score > y->score ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static int explain_rank(struct explain_layer *l)
{
	struct explain_order *order = mem_try((size_t)l->n_row, sizeof *order);

	if (!order && l->n_row)
		return -ENOMEM;
	for (int64_t i = 0; i < l->n_row; i++)
		order[i] = (struct explain_order){ l->score[i], (int32_t)i };
	if (l->n_row)
		qsort(order, (size_t)l->n_row, sizeof *order, explain_better_first);
	for (int64_t i = 0; i < l->n_row; i++)
		l->rank[order[i].row] = (int32_t)(i + 1);
	free(order);
	l->last_score = NAN;
	for (int64_t i = 0; i < l->n_row; i++) {
		l->n_selected += l->selected[i];
		l->n_misselected += l->selected[i] != (l->rank[i] <= l->top_k);
		if (l->selected[i] && !((double)l->score[i] >= l->last_score))
			l->last_score = (double)l->score[i];
	}
	return 0;
}

/* ---- looking on ---- */

static struct explain_layer *explain_layer_of(struct explain *e, int layer)
{
	for (int i = 0; i < e->r->n_layer; i++)
		if (e->r->layer[i].layer == layer)
			return &e->r->layer[i];
	return NULL;
}

/* The row of an indexer's op that is the asking token's; -1: this call has it not. */
static int64_t explain_asking(const struct explain *e, const struct forward_op *o)
{
	int64_t n = op_rows(o->op, o->args), pos;

	if (n < 1)
		return -1;
	forward_op_token(o, 0, &pos); /* there is one sequence, so positions follow each other */
	return e->r->position >= pos && e->r->position < pos + n ? e->r->position - pos : -1;
}

/* The same call for the asking token alone, with no right to leave early. */
static int explain_score_again(struct explain_layer *l, const struct forward_op *o, int64_t t)
{
	struct dsv4_index_score a = *(const struct dsv4_index_score *)o->args;
	struct device *d = forward_op_device(o);
	struct dsv4_seq seq = a.seq[0];
	int rc = -ENOMEM;

	must(a.n_seq == 1);
	seq.pos0 += t - seq.tok0;
	seq.tok0 = 0;
	seq.n_tok = 1;
	a.q += t * a.n_head * a.dim;
	a.w += t * a.n_head;
	a.n_tok = 1;
	a.k = 0;
	a.seq = &seq;
	a.score = device_alloc(d, (size_t)l->n_row + 1, sizeof *a.score);
	a.lds = l->n_row;
	if (a.score)
		rc = forward_op_call(o, o->slot, &a);
	if (rc == 0)
		memcpy(l->score, a.score, (size_t)l->n_row * sizeof *l->score);
	device_free(d, a.score);
	return rc;
}

static void explain_scored(struct explain *e, struct explain_layer *l, const struct forward_op *o, int64_t t)
{
	const struct dsv4_index_score *a = o->args;
	int rc = 0;

	must(l->n_row <= a->lds);
	if (a->k > 0 && l->n_row <= a->k)
		rc = explain_score_again(l, o, t);
	else
		memcpy(l->score, a->score + t * a->lds, (size_t)l->n_row * sizeof *l->score);
	if (rc)
		e->rc = buf_why(e->why, rc == -ENOMEM ? rc : RC_KERNEL, "%s of %s failed in layer %d, %s: %s",
			op_name(o->op), o->slot->provider->plugin->name, o->layer, op_phase_name(o->phase),
			rc_text(rc));
}

/* Rows that there are not are left out: the set may be one that is suspected. */
static void explain_chosen(struct explain_layer *l, const struct dsv4_index_topk *a, int64_t t)
{
	int32_t n = a->count[t] < a->ldr ? a->count[t] : (int32_t)a->ldr;

	must(a->n_vis[t] == l->n_row);
	l->top_k = a->k;
	for (int32_t i = 0; i < n; i++) {
		int32_t row = a->rows[t * a->ldr + i];

		if (row >= 0 && row < l->n_row)
			l->selected[row] = true;
	}
}

static void explain_after(void *arg, const struct forward_op *o)
{
	struct explain *e = arg;
	struct explain_layer *l;
	int64_t t;

	if (!e->looking || (o->op != DSV4_OP_index_score && o->op != DSV4_OP_index_topk))
		return;
	l = explain_layer_of(e, o->layer);
	t = explain_asking(e, o);
	if (!l || t < 0)
		return;
	if (o->op == DSV4_OP_index_score)
		explain_scored(e, l, o, t);
	else
		explain_chosen(l, o->args, t);
}

static bool explain_stop(void *arg)
{
	struct explain *e = arg;

	return e->rc || (e->o->stop && e->o->stop(e->o->arg));
}

/* ---- the run ---- */

static void explain_result_swap(struct explain_result *a, struct explain_result *b)
{
	struct explain_result c = *a;

	*a = *b;
	*b = c;
}

/* For the token that asks next. */
static void explain_look(struct explain *e, int64_t position)
{
	e->r->position = position;
	for (int i = 0; i < e->r->n_layer; i++) {
		struct explain_layer *l = &e->r->layer[i];

		l->n_row = (position + 1) / l->ratio;
		l->n_selected = l->n_misselected = 0;
		for (int64_t k = 0; k < l->n_row; k++) {
			l->score[k] = NAN;
			l->selected[k] = false;
		}
	}
}

static int explain_step(struct explain *e, int at, int n)
{
	bool prefill = at < e->o->n_prompt;
	struct forward_item item = { e->seq, e->o->tokens + at, n, 0 };
	struct forward_batch b = {
		.kset = e->o->side.kset,
		.numerics = &e->o->side.numerics,
		.phase = prefill ? DSV4_PREFILL : DSV4_DECODE,
		.item = &item,
		.n_item = 1,
		.watch = &e->watch,
	};
	int rc;

	e->looking = at + n > e->o->first && (e->o->n_span || at + n == e->o->n_tokens);
	/* Only where it matters: a step whose tokens take all rows is not scored, as in the request. */
	e->watch.score_topk = e->looking;
	if (e->looking)
		explain_look(e, at + n - 1);
	rc = forward_run(e->forward, &b, e->why);
	rc = e->rc ? e->rc : rc;
	if (rc == 0 && e->o->progress)
		e->o->progress(e->o->arg, at + n, e->o->n_tokens);
	if (rc && rc != RC_CANCELLED)
		buf_printf(e->why, " (set %s)", kset_name(e->o->side.kset));
	return rc;
}

/* Of the spans' rows: how many layers take one, and the best rank of all. */
static int explain_taking(const struct explain *e, int32_t *ret_rank)
{
	int taking = 0;

	*ret_rank = INT32_MAX;
	for (int i = 0; i < e->r->n_layer; i++) {
		bool taken = false;

		for (int k = 0; k < e->o->n_span; k++) {
			struct explain_text t;

			explain_text(&e->r->layer[i], e->o->span[k].begin, e->o->span[k].end, &t);
			taken = taken || t.n_selected > 0;
			if (t.topk_any && t.topk_any < *ret_rank)
				*ret_rank = t.topk_any;
		}
		taking += taken;
	}
	return taking;
}

/* Keeps what a token was told, if none before was told better. */
static void explain_compete(struct explain *e)
{
	int32_t rank;
	int taking = explain_taking(e, &rank);

	if (taking < e->best_taking || (taking == e->best_taking && rank >= e->best_rank))
		return;
	e->best_taking = taking;
	e->best_rank = rank;
	explain_result_swap(e->r, &e->best);
}

static int explain_asked(struct explain *e)
{
	int rc = 0;

	for (int i = 0; i < e->r->n_layer && rc == 0; i++)
		rc = explain_rank(&e->r->layer[i]);
	if (rc == 0 && e->o->n_span)
		explain_compete(e);
	return rc;
}

static int explain_steps(struct explain *e)
{
	int chunk = e->o->chunk > 0 ? e->o->chunk : EXPLAIN_CHUNK, n, rc = 0;

	for (int at = 0; at < e->o->n_tokens && rc == 0; at += n) {
		int end = at < e->o->n_prompt && e->o->n_prompt < e->o->n_tokens ? e->o->n_prompt : e->o->n_tokens;

		n = at >= e->o->n_prompt ? 1 : end - at < chunk ? end - at : chunk;
		rc = explain_step(e, at, n);
		if (rc == 0 && e->looking)
			rc = explain_asked(e);
	}
	if (rc == 0 && e->o->n_span)
		explain_result_swap(e->r, &e->best);
	return rc;
}

/* ---- the result ---- */

static bool explain_has_indexer(const struct model *m, int layer)
{
	return m->layout.layer[layer].overlap;
}

size_t explain_bytes(const struct model *m, int64_t n_tokens)
{
	size_t bytes = 0;

	for (int i = 0; i < m->config->n_layers; i++)
		if (explain_has_indexer(m, i))
			bytes += (size_t)(n_tokens / m->layout.layer[i].ratio) *
				 (sizeof(float) + sizeof(int32_t) + sizeof(bool));
	return bytes;
}

static int explain_layer_init(struct explain_layer *l, const struct model *m, int layer, int64_t n_tokens)
{
	int ratio = m->layout.layer[layer].ratio;
	size_t n = (size_t)(n_tokens / ratio);

	*l = (struct explain_layer){ .layer = layer, .ratio = ratio };
	l->score = mem_try(n + 1, sizeof *l->score);
	l->rank = mem_try(n + 1, sizeof *l->rank);
	l->selected = mem_try(n + 1, sizeof *l->selected);
	if (!l->score || !l->rank || !l->selected)
		return -ENOMEM;
	return 0;
}

static int explain_result_init(struct explain_result *r, const struct explain_options *o)
{
	int rc = 0;

	*r = (struct explain_result){ 0 };
	r->layer = mem_new((size_t)o->model->config->n_layers * sizeof *r->layer);
	for (int i = 0; i < o->model->config->n_layers && rc == 0; i++)
		if (explain_has_indexer(o->model, i))
			rc = explain_layer_init(&r->layer[r->n_layer++], o->model, i, o->n_tokens);
	return rc;
}

void explain_result_fini(struct explain_result *r)
{
	for (int i = 0; i < r->n_layer; i++) {
		free(r->layer[i].score);
		free(r->layer[i].rank);
		free(r->layer[i].selected);
	}
	free(r->layer);
	*r = (struct explain_result){ 0 };
}

static int explain_check(const struct explain_options *o, struct buf *why)
{
	if (o->n_tokens < 1)
		return buf_why(why, RC_INVALID, "prompt: empty");
	if (o->n_tokens > o->model->config->max_context)
		return buf_why(why, RC_CONTEXT, "prompt %d exceeds context %d", o->n_tokens,
			o->model->config->max_context);
	must(!o->n_span || (o->first >= o->n_prompt - 1 && o->first < o->n_tokens));
	return 0;
}

int explain_run(const struct explain_options *o, struct explain_result *ret_r, struct buf *why)
{
	struct explain_result r;
	struct explain e = { .o = o, .r = &r, .why = why, .best_taking = -1 };
	int rc = explain_check(o, why);

	if (rc)
		return rc;
	e.watch = (struct forward_watch){ .arg = &e, .stop = explain_stop, .after = explain_after };
	rc = explain_result_init(&r, o);
	if (rc == 0 && o->n_span)
		rc = explain_result_init(&e.best, o);
	if (rc == 0)
		rc = sequence_new(&o->model->layout, &e.seq);
	if (rc)
		buf_why(why, rc, "no memory to explain %d tokens", o->n_tokens);
	e.forward = forward_new(o->model, o->pool);
	if (rc == 0)
		rc = explain_steps(&e);
	if (rc == 0)
		*ret_r = r;
	else
		explain_result_fini(&r);
	explain_result_fini(&e.best);
	sequence_free(&e.seq);
	forward_free(&e.forward);
	return rc;
}

/* ---- the rows of a text ---- */

void explain_row_tokens(const struct explain_layer *l, int64_t row, int64_t *ret_begin, int64_t *ret_end)
{
	*ret_begin = (row > 0 ? row - 1 : 0) * l->ratio;
	*ret_end = (row + 1) * l->ratio;
}

/* The better rank of the rows that hold a token, and whether one was taken; 0: none holds it. */
static int32_t explain_token(const struct explain_layer *l, int64_t token, bool *ret_seen)
{
	int64_t row = token / l->ratio;
	int32_t best = 0;

	*ret_seen = false;
	for (int64_t n = row; n <= row + 1 && n < l->n_row; n++) {
		if (!best || l->rank[n] < best)
			best = l->rank[n];
		*ret_seen = *ret_seen || l->selected[n];
	}
	return best;
}

void explain_text(const struct explain_layer *l, int64_t begin, int64_t end, struct explain_text *ret_t)
{
	struct explain_text t = { .first = begin / l->ratio, .end = (end - 1) / l->ratio + 2, .margin = NAN };
	int64_t best = -1;

	must(begin >= 0 && begin < end);
	t.end = t.end < l->n_row ? t.end : l->n_row;
	t.first = t.first < t.end ? t.first : t.end;
	for (int64_t n = t.first; n < t.end; n++) {
		if (best < 0 || l->rank[n] < l->rank[best])
			best = n;
		t.topk_all = l->rank[n] > t.topk_all ? l->rank[n] : t.topk_all;
		t.n_selected += l->selected[n];
	}
	for (int64_t i = begin; i < end; i++) {
		bool seen;
		int32_t rank = explain_token(l, i, &seen);

		t.n_held += rank > 0;
		t.n_seen += seen;
		t.topk_text = rank > t.topk_text ? rank : t.topk_text;
	}
	if (best >= 0) {
		t.topk_any = l->rank[best];
		t.margin = (double)l->score[best] - l->last_score;
	}
	*ret_t = t;
}
