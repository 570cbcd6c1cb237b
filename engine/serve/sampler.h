/* SPDX-License-Identifier: MIT
 * sampler.h - from logits to the next token, and the log-probabilities a client asked for.
 * Threads: engine. Locks: none. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include "engine/base/buf.h"
#include "engine/gen.h"

#include <stdbool.h>
#include <stdint.h>

/* One request's sampling state: its settings and which tokens it has seen. The order of work is that of the
 * Hugging Face library: logit_bias; repetition, then frequency and presence penalty; temperature; top_k;
 * top_p over what top_k left; min_p relative to the best. Temperature 0 takes the largest (ties: the lower
 * id) after bias and penalties. Where only some tokens are allowed, all of that happens among those: no bias,
 * penalty or filter brings back another, and one is always picked. Arithmetic is double; nothing depends on
 * other requests. */
struct sampler;

/* Memory for candidates, shared by all requests of one engine thread. */
struct sampler_work;
int sampler_work_new(int vocab, struct sampler_work **ret_w);
void sampler_work_free(struct sampler_work **w);

/* What was picked. Log-probabilities are those of the raw logits: log-softmax before bias, penalties and
 * temperature, so that they mean the same whatever the settings. */
struct sampler_choice {
	int32_t token;
	float logprob;
	int n_top;
	struct gen_token_logprob top[GEN_MAX_TOP_LOGPROBS]; /* best first; ties: the lower id first */
};

/* Are all settings usable? RC_INVALID; why names the field as OpenAI does, and its range. */
int sampler_check(const struct gen_sampling *s, int vocab, struct buf *why);
/* Copies s, which has passed sampler_check and carries a seed. -ENOMEM. */
int sampler_new(const struct gen_sampling *s, int vocab, struct sampler **ret_s);
void sampler_free(struct sampler **s);
/* Tokens of the prompt, which the repetition penalty counts too. */
void sampler_prompt(struct sampler *s, const int32_t *id, int n);
/* Picks the token at `index` (0: the first generated) and counts it. `allowed` is NULL, or has a bit for each token
 * (t % 64 of word t / 64), not all 0. Logits [vocab] are left alone. RC_KERNEL
 * when one of them is not finite: a kernel or a weight is broken and no token would be better than another. */
int sampler_pick(struct sampler *s, struct sampler_work *w, const float *logits, const uint64_t *allowed,
		 uint64_t index, struct sampler_choice *ret_c, struct buf *why);
/* The token that would be picked at `index` if its logits were these, which are somebody's estimate of them; nothing is
 * counted. With temperature it is drawn by the same random number, so that good estimates lead to the same token far
 * more often than the best one of them is drawn. RC_KERNEL as above. */
int sampler_draft(const struct sampler *s, struct sampler_work *w, const float *logits, uint64_t index,
		  int32_t *ret_token);

#endif
