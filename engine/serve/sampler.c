/* SPDX-License-Identifier: MIT
 * sampler.c - from logits to the next token, and the log-probabilities a client asked for.
 * Threads: engine. Locks: none. */
#include "engine/serve/sampler.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "engine/serve/sampler_draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLER_MAX_BIAS 4096
#define SAMPLER_LANES 8        /* independent chains over the vocabulary */

struct sampler {
	struct gen_sampling set;
	struct gen_logit_bias *bias;
	int vocab;
	bool penalize;
	bool *seen;       /* [vocab] in prompt or output; NULL without penalties */
	int32_t *count;   /* [vocab] in the output */
};

struct sampler_work {
	int vocab;
	double *score;    /* [vocab] logits after bias and penalties, later their weights */
	struct sampler_cand *cand; /* [vocab] */
};

/* ---- settings ---- */

static int sampler_range(const char *field, float v, float lo, float hi, struct buf *why)
{
	if (v >= lo && v <= hi)
		return 0;
	return buf_why(why, RC_INVALID, "%s: %g is outside %g to %g", field, (double)v, (double)lo,
		       (double)hi);
}

static int sampler_check_bias(const struct gen_sampling *s, int vocab, struct buf *why)
{
	int i;

	if (s->n_bias < 0 || s->n_bias > SAMPLER_MAX_BIAS)
		return buf_why(why, RC_INVALID, "logit_bias: %d entries, at most %d", s->n_bias,
			       SAMPLER_MAX_BIAS);
	for (i = 0; i < s->n_bias; i++) {
		const struct gen_logit_bias *b = &s->bias[i];

		if (b->token < 0 || b->token >= vocab)
			return buf_why(why, RC_INVALID, "logit_bias: token %d is not in the vocabulary of %d",
				       b->token, vocab);
		if (!(b->bias >= -100 && b->bias <= 100))
			return buf_why(why, RC_INVALID, "logit_bias: %g for token %d is outside -100 to 100",
				       (double)b->bias, b->token);
	}
	return 0;
}

static int sampler_check_stops(const struct gen_sampling *s, struct buf *why)
{
	int i;

	if (s->n_stop < 0 || s->n_stop > GEN_MAX_STOPS)
		return buf_why(why, RC_INVALID, "stop: %d strings, at most %d", s->n_stop, GEN_MAX_STOPS);
	for (i = 0; i < s->n_stop; i++)
		if (!s->stop[i] || !*s->stop[i])
			return buf_why(why, RC_INVALID, "stop[%d]: an empty string would stop at once", i);
	return 0;
}

int sampler_check(const struct gen_sampling *s, int vocab, struct buf *why)
{
	int rc = sampler_range("temperature", s->temperature, 0, 100, why);

	rc = rc ? rc : sampler_range("top_p", s->top_p, 0, 1, why);
	rc = rc ? rc : sampler_range("min_p", s->min_p, 0, 1, why);
	rc = rc ? rc : sampler_range("repetition_penalty", s->repetition_penalty, 0.01f, 100, why);
	rc = rc ? rc : sampler_range("presence_penalty", s->presence_penalty, -2, 2, why);
	rc = rc ? rc : sampler_range("frequency_penalty", s->frequency_penalty, -2, 2, why);
	if (!rc && s->top_k < 0)
		rc = buf_why(why, RC_INVALID, "top_k: %d is negative (0 is off)", s->top_k);
	if (!rc && (s->top_logprobs < 0 || s->top_logprobs > GEN_MAX_TOP_LOGPROBS))
		rc = buf_why(why, RC_INVALID, "top_logprobs: %d is outside 0 to %d", s->top_logprobs,
			     GEN_MAX_TOP_LOGPROBS);
	rc = rc ? rc : sampler_check_bias(s, vocab, why);
	return rc ? rc : sampler_check_stops(s, why);
}

int sampler_new(const struct gen_sampling *s, int vocab, struct sampler **ret_s)
{
	struct sampler *n = mem_new(sizeof *n);

	n->set = *s;
	n->vocab = vocab;
	n->penalize = s->repetition_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
	n->set.stop = NULL;
	n->set.n_stop = 0;
	if (s->n_bias) {
		n->bias = mem_grow(NULL, (size_t)s->n_bias, sizeof *n->bias);
		memcpy(n->bias, s->bias, (size_t)s->n_bias * sizeof *n->bias);
	}
	n->set.bias = n->bias;
	if (n->penalize) {
		n->seen = mem_try((size_t)vocab, sizeof *n->seen);
		n->count = mem_try((size_t)vocab, sizeof *n->count);
		if (!n->seen || !n->count) {
			sampler_free(&n);
			return -ENOMEM;
		}
	}
	*ret_s = n;
	return 0;
}

void sampler_free(struct sampler **s)
{
	if (!*s)
		return;
	free((*s)->bias);
	free((*s)->seen);
	free((*s)->count);
	free(*s);
	*s = NULL;
}

int sampler_work_new(int vocab, struct sampler_work **ret_w)
{
	struct sampler_work *w = mem_new(sizeof *w);

	w->vocab = vocab;
	w->score = mem_try((size_t)vocab, sizeof *w->score);
	w->cand = mem_try((size_t)vocab, sizeof *w->cand);
	if (!w->score || !w->cand) {
		sampler_work_free(&w);
		return -ENOMEM;
	}
	*ret_w = w;
	return 0;
}

void sampler_work_free(struct sampler_work **w)
{
	if (!*w)
		return;
	free((*w)->score);
	free((*w)->cand);
	free(*w);
	*w = NULL;
}

void sampler_prompt(struct sampler *s, const int32_t *id, int n)
{
	int i;

	if (!s->penalize)
		return;
	for (i = 0; i < n; i++) {
		must(id[i] >= 0 && id[i] < s->vocab);
		s->seen[id[i]] = true;
	}
}

/* ---- candidates ---- */

/* Fills the scores: logits after bias and penalties; those that are not allowed can no longer be the best. */
static void sampler_adjust(const struct sampler *s, double *score, const float *logits, const uint64_t *allowed)
{
	const struct gen_sampling *set = &s->set;
	double repetition = (double)set->repetition_penalty;
	int i;

	for (i = 0; i < s->vocab; i++)
		score[i] = (double)logits[i];
	for (i = 0; i < set->n_bias; i++)
		score[set->bias[i].token] += (double)set->bias[i].bias;
	for (i = 0; s->penalize && i < s->vocab; i++) {
		if (s->seen[i])
			score[i] = score[i] > 0 ? score[i] / repetition : score[i] * repetition;
		if (s->count[i])
			score[i] -= s->count[i] * (double)set->frequency_penalty + (double)set->presence_penalty;
	}
	for (i = 0; allowed && i < s->vocab; i++)
		if (!(allowed[i / 64] >> (i % 64) & 1))
			score[i] = -INFINITY;
}

static int32_t sampler_greedy(const double *score, int n)
{
	double max = score[0];
	int i, best = 0;

	for (i = 1; i < n; i++)
		if (score[i] > max) {
			max = score[i];
			best = i;
		}
	return best;
}

/* The same where nothing changes the logits: most answers that are not drawn are made here. */
static int32_t sampler_largest(const float *logits, int n)
{
	float max[SAMPLER_LANES], best = logits[0];
	int i, k;

	for (k = 0; k < SAMPLER_LANES; k++)
		max[k] = logits[0];
	for (i = 0; i + SAMPLER_LANES <= n; i += SAMPLER_LANES)
		for (k = 0; k < SAMPLER_LANES; k++)
			max[k] = logits[i + k] > max[k] ? logits[i + k] : max[k];
	for (k = 0; k < SAMPLER_LANES; k++)
		best = max[k] > best ? max[k] : best;
	for (; i < n; i++)
		best = logits[i] > best ? logits[i] : best;
	for (i = 0; logits[i] < best; i++)
		;
	return i;
}

static int32_t sampler_take(const struct sampler *s, struct sampler_work *w, const float *logits,
			    const uint64_t *allowed, uint64_t index)
{
	const struct gen_sampling *set = &s->set;

	must(w->vocab == s->vocab);
	if (set->temperature <= 0 && !allowed && !s->penalize && set->n_bias == 0)
		return sampler_largest(logits, s->vocab);
	sampler_adjust(s, w->score, logits, allowed);
	if (set->temperature > 0)
		return sampler_draw(set, w->score, s->vocab, w->cand, rng_uniform(set->seed, index));
	return sampler_greedy(w->score, s->vocab);
}

/* ---- log-probabilities ---- */

static int sampler_finite(const float *logits, int n, struct buf *why)
{
	float none[SAMPLER_LANES] = { 0 }, sum = 0;
	int i, k;

	/* 0 times a number is 0; times anything else it is NaN, which stays. */
	for (i = 0; i + SAMPLER_LANES <= n; i += SAMPLER_LANES)
		for (k = 0; k < SAMPLER_LANES; k++)
			none[k] += 0 * logits[i + k];
	for (k = 0; k < SAMPLER_LANES; k++)
		sum += none[k];
	for (i = sum == 0 ? i : 0; i < n; i++)
		if (!isfinite(logits[i]))
			return buf_why(why, RC_KERNEL, "logit of token %d is %f", i, (double)logits[i]);
	return 0;
}

static void sampler_top(const float *logits, int n, struct sampler_choice *c, int n_top)
{
	int i, k;

	for (i = 0; i < n; i++) {
		if (c->n_top == n_top && logits[i] <= c->top[n_top - 1].logprob)
			continue;
		k = c->n_top < n_top ? c->n_top++ : n_top - 1;
		for (; k > 0 && c->top[k - 1].logprob < logits[i]; k--)
			c->top[k] = c->top[k - 1];
		c->top[k] = (struct gen_token_logprob){ .token = i, .logprob = logits[i] };
	}
}

static void sampler_logprobs(const float *logits, int n, int n_top, struct sampler_choice *c)
{
	double max = (double)logits[0], sum = 0, norm;
	int i;

	for (i = 1; i < n; i++)
		max = (double)logits[i] > max ? (double)logits[i] : max;
	for (i = 0; i < n; i++)
		sum += exp((double)logits[i] - max);
	norm = max + log(sum);
	c->logprob = (float)((double)logits[c->token] - norm);
	n_top = n_top < n ? n_top : n;
	if (n_top)
		sampler_top(logits, n, c, n_top);
	for (i = 0; i < c->n_top; i++)
		c->top[i].logprob = (float)((double)c->top[i].logprob - norm);
}

int sampler_draft(const struct sampler *s, struct sampler_work *w, const float *logits, uint64_t index,
		  int32_t *ret_token)
{
	int rc = sampler_finite(logits, s->vocab, NULL);

	if (rc == 0)
		*ret_token = sampler_take(s, w, logits, NULL, index);
	return rc;
}

int sampler_pick(struct sampler *s, struct sampler_work *w, const float *logits, const uint64_t *allowed,
		 uint64_t index, struct sampler_choice *ret_c, struct buf *why)
{
	struct sampler_choice c = { 0 };
	int rc = sampler_finite(logits, s->vocab, why);

	if (rc)
		return rc;
	c.token = sampler_take(s, w, logits, allowed, index);
	if (s->set.logprobs)
		sampler_logprobs(logits, s->vocab, s->set.top_logprobs, &c);
	if (s->penalize) {
		s->seen[c.token] = true;
		s->count[c.token]++;
	}
	*ret_c = c;
	return 0;
}
