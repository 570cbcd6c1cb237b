/* SPDX-License-Identifier: MIT
 * compare.c - one prompt through two kernel sets with their numerics, then a greedy answer of each.
 * Threads: one, with a pool of its own. Locks: none. */
#include "engine/beside/compare.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/beside/compare_store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMPARE_BYTES ((size_t)64 << 20)
#define COMPARE_MAX_CHUNK 512

enum { COMPARE_A, COMPARE_B };

struct compare {
	const struct compare_options *o;
	struct compare_result *r;
	struct buf *why;
	const struct model_config *config;
	size_t vocab;
	struct forward *forward;       /* both sides', one after the other */
	struct sequence *seq[2];
	struct beside *beside;         /* B's ops, in A's run */
	struct forward_watch stop;     /* for B's run: only whether to end */
	struct compare_store store;
	int chunk;
	float *logits[2];              /* [chunk][vocab] */
	int64_t done;
	/* Answering. */
	bool apart;                    /* the answers have parted: no more figures of both */
	bool ended[2];
	int32_t next[2];
};

/* ---- logits ---- */

/* The best token, ties to the lower id; -1 when a logit is no number. */
static int32_t compare_best(const float *logits, size_t n)
{
	int32_t best = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(logits[i]))
			return -1;
		if (logits[i] > logits[best])
			best = (int32_t)i;
	}
	return best;
}

static double compare_log_sum(const float *logits, size_t n, double most)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += exp((double)logits[i] - most);
	return most + log(sum);
}

/* KL(a || b) in nats; INFINITY where one of them is no distribution. */
static double compare_kl(const float *a, const float *b, size_t n)
{
	int32_t best_a = compare_best(a, n), best_b = compare_best(b, n);
	double sum_a, sum_b, kl = 0;

	if (best_a < 0 || best_b < 0)
		return INFINITY;
	sum_a = compare_log_sum(a, n, (double)a[best_a]);
	sum_b = compare_log_sum(b, n, (double)b[best_b]);
	for (size_t i = 0; i < n; i++) {
		double la = (double)a[i] - sum_a;

		kl += exp(la) * (la - ((double)b[i] - sum_b));
	}
	return kl > 0 ? kl : 0; /* rounding may leave a hair below */
}

static int compare_rising(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* The COMPARE_TOP best ids, rising; ties to the lower id, NaN last. Returns how many. */
static int compare_top(const float *logits, size_t n, int32_t id[COMPARE_TOP])
{
	int k = 0;

	for (size_t i = 0; i < n; i++) {
		int at = k;

		while (at > 0 && !(logits[i] <= logits[id[at - 1]]) && !isnan(logits[i]))
			at--;
		if (at == COMPARE_TOP)
			continue;
		k += k < COMPARE_TOP;
		memmove(id + at + 1, id + at, (size_t)(k - 1 - at) * sizeof *id);
		id[at] = (int32_t)i;
	}
	qsort(id, (size_t)k, sizeof *id, compare_rising);
	return k;
}

static void compare_logits_at(struct compare *c, int64_t pos, const float *a, const float *b)
{
	struct compare_logits *l = &c->r->logits;
	struct op_out out = { .n_row = 1, .width = (int64_t)c->vocab, .ld = (int64_t)c->vocab };
	int32_t top_a[COMPARE_TOP + 1], top_b[COMPARE_TOP + 1], best = compare_best(a, c->vocab);
	double kl = compare_kl(a, b, c->vocab);
	int n_a = compare_top(a, c->vocab, top_a), n_b = compare_top(b, c->vocab, top_b);

	memcpy(&out.data, &a, sizeof a);
	op_diff_add(&l->diff, &out, b, pos);
	op_diff_add_lists(&l->top, top_a, n_a, top_b, n_b, pos);
	l->n++;
	l->same_top += best >= 0 && best == compare_best(b, c->vocab);
	l->kl += kl;
	if (kl > l->worst_kl) {
		l->worst_kl = kl;
		l->worst_pos = pos;
	}
}

/* ---- steps ---- */

static int compare_run_side(struct compare *c, int side, enum dsv4_phase phase, const int32_t *token, int n)
{
	const struct compare_side *s = side == COMPARE_A ? &c->o->a : &c->o->b;
	struct forward_item item = { c->seq[side], token, n, n };
	struct forward_batch b = {
		.kset = s->kset,
		.numerics = &s->numerics,
		.phase = phase,
		.item = &item,
		.n_item = 1,
		.tap = c->apart ? NULL : side == COMPARE_A ? &c->store.keep : &c->store.hold,
		.watch = side == COMPARE_A ? beside_watch(c->beside) : &c->stop,
		.logits = c->logits[side],
	};
	int rc = forward_run(c->forward, &b, c->why);

	c->done += n;
	if (rc == 0 && c->o->progress)
		c->o->progress(c->o->arg, c->done, 2 * ((int64_t)c->o->n_tokens + c->o->max_tokens));
	if (rc && rc != RC_CANCELLED)
		buf_printf(c->why, " (set %s, %s)", side == COMPARE_A ? "a" : "b", kset_name(s->kset));
	return rc;
}

/* The same n tokens through both, held against each other. */
static int compare_both(struct compare *c, enum dsv4_phase phase, const int32_t *token, int n)
{
	int64_t pos = sequence_pos(c->seq[COMPARE_A]);
	int rc;

	compare_store_begin(&c->store, pos, n);
	rc = compare_run_side(c, COMPARE_A, phase, token, n);
	if (rc == 0)
		rc = compare_run_side(c, COMPARE_B, phase, token, n);
	for (int t = 0; t < n && rc == 0; t++)
		compare_logits_at(c, pos + t, c->logits[COMPARE_A] + (size_t)t * c->vocab,
			c->logits[COMPARE_B] + (size_t)t * c->vocab);
	return rc;
}

static int compare_prompt(struct compare *c)
{
	int n = 0, rc = 0;

	for (int at = 0; at < c->o->n_tokens && rc == 0; at += n) {
		n = c->o->n_tokens - at < c->chunk ? c->o->n_tokens - at : c->chunk;
		rc = compare_both(c, DSV4_PREFILL, c->o->tokens + at, n);
	}
	for (int side = 0; side < 2 && rc == 0; side++) /* where the first token of the answer is read */
		memmove(c->logits[side], c->logits[side] + (size_t)(n - 1) * c->vocab,
			c->vocab * sizeof *c->logits[side]);
	return rc;
}

/* ---- answers ---- */

static void compare_pick(struct compare *c, int side)
{
	struct compare_result *r = c->r;
	int32_t t = compare_best(c->logits[side], c->vocab);

	if (c->ended[side])
		return;
	if (t < 0) {
		c->ended[side] = r->broken[side] = true;
		return;
	}
	r->out[side][r->n_out[side]++] = t;
	c->next[side] = t;
	c->ended[side] = t == c->config->eos_id || r->n_out[side] == c->o->max_tokens;
}

static void compare_part(struct compare *c)
{
	const struct compare_result *r = c->r;
	int n = r->n_out[COMPARE_A];

	if (c->apart || (n == r->n_out[COMPARE_B]
			 && (n == 0 || r->out[COMPARE_A][n - 1] == r->out[COMPARE_B][n - 1])))
		return;
	c->apart = true;
	c->r->first_diff = (n < r->n_out[COMPARE_B] ? n : r->n_out[COMPARE_B]);
	c->r->first_diff -= n == r->n_out[COMPARE_B];
}

static int compare_answer(struct compare *c)
{
	int rc = 0;

	for (;;) {
		compare_pick(c, COMPARE_A);
		compare_pick(c, COMPARE_B);
		compare_part(c);
		if (c->ended[COMPARE_A] && c->ended[COMPARE_B])
			return 0;
		if (!c->apart)
			rc = compare_both(c, DSV4_DECODE, c->next, 1);
		for (int side = 0; side < 2 && c->apart && rc == 0; side++)
			if (!c->ended[side])
				rc = compare_run_side(c, side, DSV4_DECODE, &c->next[side], 1);
		if (rc)
			return rc;
	}
}

/* ---- the whole ---- */

static int compare_check(const struct compare_options *o, struct buf *why)
{
	const struct model_config *config = o->model->config;

	if (o->n_tokens < 1)
		return buf_why(why, RC_INVALID, "prompt: empty");
	if (o->max_tokens < 0)
		return buf_why(why, RC_INVALID, "tokens: %d is negative", o->max_tokens);
	if ((int64_t)o->n_tokens + o->max_tokens > config->max_context)
		return buf_why(why, RC_CONTEXT, "prompt %d and answer %d exceed context %d", o->n_tokens, o->max_tokens,
			config->max_context);
	return 0;
}

/* Rows that a token of this comparison may choose. */
static int64_t compare_ldr(const struct compare_options *o)
{
	int64_t n = (int64_t)o->n_tokens + o->max_tokens, most = 1;

	for (int i = 0; i < o->model->config->n_layers; i++)
		if (o->model->layout.layer[i].overlap && n / o->model->layout.layer[i].ratio > most)
			most = n / o->model->layout.layer[i].ratio;
	return most < o->a.numerics.index_topk ? most : o->a.numerics.index_topk;
}

static int compare_open(struct compare *c)
{
	const struct compare_options *o = c->o;
	int64_t ldr = compare_ldr(o);
	size_t per_token = compare_store_bytes(o->model, ldr) + 2 * c->vocab * sizeof(float);
	size_t fit = (o->max_bytes ? o->max_bytes : COMPARE_BYTES) / per_token;
	int rc;

	c->chunk = fit < 1 ? 1 : fit < COMPARE_MAX_CHUNK ? (int)fit : COMPARE_MAX_CHUNK;
	c->chunk = c->chunk < o->n_tokens ? c->chunk : o->n_tokens;
	c->forward = forward_new(o->model, o->pool);
	c->beside = beside_new(o->b.kset, numerics_same_state(&o->a.numerics, &o->b.numerics) ? NULL : &o->b.numerics,
		c->config->n_layers);
	if (o->stop)
		beside_set_stop(c->beside, o->stop, o->arg);
	c->stop = (struct forward_watch){ .arg = o->arg, .stop = o->stop };
	rc = compare_store_init(&c->store, o->model, c->r->layer, c->chunk, ldr);
	for (int side = 0; side < 2 && rc == 0; side++) {
		c->logits[side] = mem_try((size_t)c->chunk * c->vocab, sizeof *c->logits[side]);
		rc = c->logits[side] ? sequence_new(&o->model->layout, &c->seq[side]) : -ENOMEM;
	}
	return rc ? buf_why(c->why, rc, "no memory to compare %d tokens at once", c->chunk) : 0;
}

static void compare_close(struct compare *c)
{
	compare_store_fini(&c->store);
	for (int side = 0; side < 2; side++) {
		sequence_free(&c->seq[side]);
		free(c->logits[side]);
	}
	beside_free(&c->beside);
	forward_free(&c->forward);
}

static void compare_result_init(struct compare_result *r, const struct compare_options *o)
{
	*r = (struct compare_result){ .n_prompt = o->n_tokens, .n_layer = o->model->config->n_layers,
				      .first_diff = -1 };
	r->logits.worst_pos = -1;
	r->layer = mem_new((size_t)r->n_layer * sizeof *r->layer);
	for (int side = 0; side < 2; side++)
		r->out[side] = mem_grow(NULL, (size_t)o->max_tokens + 1, sizeof *r->out[side]);
}

int compare_run(const struct compare_options *o, struct compare_result *ret_r, struct buf *why)
{
	struct compare_result r;
	struct compare c = { .o = o, .r = &r, .why = why, .config = o->model->config };
	int rc = compare_check(o, why);

	if (rc)
		return rc;
	compare_result_init(&r, o);
	c.vocab = (size_t)c.config->vocab_size;
	rc = compare_open(&c);
	if (rc == 0)
		rc = compare_prompt(&c);
	if (rc == 0 && o->max_tokens > 0)
		rc = compare_answer(&c);
	if (rc == 0) {
		r.failures = beside_failures(c.beside, &r.why);
		r.n_op = beside_rows(c.beside, &r.op);
		*ret_r = r;
	} else {
		compare_result_fini(&r);
	}
	compare_close(&c);
	return rc;
}

void compare_result_fini(struct compare_result *r)
{
	free(r->op);
	free(r->layer);
	free(r->out[0]);
	free(r->out[1]);
	buf_fini(&r->why);
	*r = (struct compare_result){ 0 };
}
