/* SPDX-License-Identifier: MIT
 * request_answer.c - one token more of a request's answer, and where the token and its text go.
 * Threads: the engine thread. Locks: generation, record. */
#include "engine/serve/request_answer.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/serve/digest.h"

#include <string.h>

static void request_answer_watch(struct request *r, enum gen_part part, const char *text, size_t len)
{
	if (r->guard)
		loopguard_text(r->guard, part, text, len);
}

/* Log-probabilities wait until it is known what their token is of. */
static void request_answer_untold(struct request *r, const struct sampler_choice *c)
{
	if (r->n_untold == r->cap_untold) {
		r->cap_untold = r->cap_untold ? 2 * r->cap_untold : 8;
		r->untold = mem_grow(r->untold, (size_t)r->cap_untold, sizeof *r->untold);
	}
	r->untold[r->n_untold++] = *c;
}

static void request_answer_told(struct request *r, const struct completion_event *ev)
{
	static const enum gen_text texts[] = { [COMPLETION_TOLD_NOT] = GEN_TEXT_NONE,
		[COMPLETION_TOLD_REASONING] = GEN_TEXT_REASONING, [COMPLETION_TOLD_CONTENT] = GEN_TEXT_CONTENT };
	const struct gen_place place = { texts[ev->told], ev->character };
	const struct sampler_choice *c = r->untold;

	must(r->n_untold > 0);
	generation_put_logprob(r->gen, &(struct gen_token_logprob){ .token = c->token, .logprob = c->logprob }, &place,
			       c->top, c->n_top);
	memmove(r->untold, r->untold + 1, (size_t)--r->n_untold * sizeof *r->untold);
}

void request_answer_emit(void *arg, const struct completion_event *ev)
{
	struct request *r = arg;
	char id[GENERATION_ID_MAX];

	switch (ev->kind) {
	case COMPLETION_REASONING:
		generation_put_text(r->gen, GEN_EV_REASONING, 0, ev->text, ev->len);
		request_answer_watch(r, GEN_PART_REASONING, ev->text, ev->len);
		break;
	case COMPLETION_CONTENT:
		generation_put_text(r->gen, GEN_EV_CONTENT, 0, ev->text, ev->len);
		request_answer_watch(r, GEN_PART_CONTENT, ev->text, ev->len);
		break;
	case COMPLETION_TOOL_BEGIN:
		generation_put_tool(r->gen, ev->call, ev->text, ev->len, id);
		record_call(r->rec, id);
		break;
	case COMPLETION_TOOL_ARGS:
		generation_put_text(r->gen, GEN_EV_TOOL_ARGS, ev->call, ev->text, ev->len);
		request_answer_watch(r, GEN_PART_ARGUMENTS, ev->text, ev->len);
		break;
	case COMPLETION_TOOL_END:
		generation_put_tool_end(r->gen, ev->call);
		/* One line for each call: the same again and again is a loop, too. */
		request_answer_watch(r, GEN_PART_ARGUMENTS, "\n", 1);
		request_must_call_ended(r);
		break;
	case COMPLETION_TOKEN:
		request_answer_told(r, ev);
		break;
	}
}

void request_answer_end(struct request *r, enum completion_why cause, struct request_end *ret_end)
{
	struct completion_verdict v;

	completion_end(r->parser, cause, &v);
	generation_stop_string(r->gen, v.stop);
	*ret_end = (struct request_end){ .finish = v.finish, .flags = v.flags };
	buf_adds(&ret_end->detail, v.detail);
}

/* The token reaches the consumer: its logprob, then the text that it settles. True at a stop string. */
static bool request_answer_pass(struct request *r, const struct sampler_choice *c, uint64_t digest)
{
	const struct tokenizer *t = r->env->tokenizer;
	struct completion_token ct = { .added = tokenizer_is_added(t, c->token),
				       .special = tokenizer_is_special(t, c->token) };
	bool reasoning = completion_in_reasoning(r->parser);

	ct.bytes = tokenizer_bytes(t, c->token, &ct.len);
	r->usage.reasoning_tokens += reasoning && c->token != r->env->think_end;
	generation_set_usage(r->gen, &r->usage);
	record_token(r->rec, &(struct record_token){ c->token, ct.bytes, ct.len, digest }, &r->usage);
	if (r->logprobs)
		request_answer_untold(r, c);
	return completion_put(r->parser, &ct);
}

/* True: it loops, and that ends it. */
static bool request_answer_loops(struct request *r)
{
	const struct gen_loop *l;

	if (!r->guard || !loopguard_token(r->guard, r->next[0], r->usage.completion_tokens))
		return false;
	l = loopguard_loop(r->guard);
	record_loop(r->rec, l);
	generation_loop(r->gen, l);
	r->looped = true;
	return l->ended;
}

void request_answer_pick(struct request *r, struct sampler_work *w, const float *logits)
{
	struct request_pick *p = &r->pick;
	uint64_t index = (uint64_t)r->usage.completion_tokens;

	p->made = true;
	p->digest = digest_floats(logits, (size_t)r->env->model->config->vocab_size);
	p->rc = request_must_mask(r, &p->allowed, &p->why);
	p->rc = p->rc ? p->rc : sampler_pick(r->sampler, w, logits, p->allowed, index, &p->choice, &p->why);
}

bool request_answer_sample(struct request *r, struct sampler_work *w, const float *logits,
		    struct request_end *ret_end)
{
	const struct model_config *config = r->env->model->config;
	struct request_pick *p = &r->pick;
	const struct sampler_choice *c = &p->choice;
	size_t len;

	if (!p->made)
		request_answer_pick(r, w, logits);
	p->made = false;
	if (p->rc) {
		request_failed(r, p->rc, buf_str(&p->why), ret_end);
		return true;
	}
	if (r->guard)
		loopguard_forced(r->guard, request_must_forced(r, p->allowed));
	r->usage.completion_tokens++;
	r->next[0] = c->token;
	request_must_take(r, c->token);
	if (c->token == config->eos_id && !r->ignore_eos) {
		const char *bytes = tokenizer_bytes(r->env->tokenizer, c->token, &len);

		generation_set_usage(r->gen, &r->usage);
		record_token(r->rec, &(struct record_token){ c->token, bytes, len, p->digest }, &r->usage);
		request_answer_end(r, COMPLETION_EOS, ret_end);
		return true;
	}
	if (request_answer_pass(r, c, p->digest) || r->must.enough) {
		request_answer_end(r, COMPLETION_EOS, ret_end);
		/* The block was left open by us. */
		if (r->must.enough)
			ret_end->flags &= ~(unsigned)COMPLETION_OPEN_BLOCK;
		return true;
	}
	if (request_answer_loops(r)) {
		request_answer_end(r, COMPLETION_REPETITION, ret_end);
		return true;
	}
	if (r->usage.completion_tokens < r->max_out)
		return false;
	request_answer_end(r, r->max_is_context ? COMPLETION_CONTEXT : COMPLETION_MAX_TOKENS, ret_end);
	return true;
}
