/* SPDX-License-Identifier: MIT
 * request_must.c - what a request's answer must be: its constraint, the bound on its reasoning, or the answer itself.
 * Threads: who submits makes it, then the engine thread. Locks: none. */
#include "engine/serve/request_must.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/serve/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int request_must_check(const struct request *r, const struct generation_spec *spec, struct buf *why)
{
	bool calls = spec->calls == GEN_CALLS_REQUIRED || spec->calls == GEN_CALLS_NAMED;

	if (spec->max_reasoning < 0)
		return buf_why(why, RC_INVALID, "max_reasoning: %d is negative (0 is off)", spec->max_reasoning);
	if (spec->max_reasoning && r->env->think_end < 0)
		return buf_why(why, RC_UNSUPPORTED, "max_reasoning: the tokenizer has no </think>");
	if ((calls || spec->format != GEN_FORMAT_TEXT) && spec->sampling.ignore_eos)
		return buf_why(why, RC_INVALID, "ignore_eos: goes on after the end, but response_format and forced "
			       "calls hold an answer to its form, and once that is whole nothing but the end may "
			       "follow; leave one of them out");
	if (calls && !spec->parse)
		return buf_why(why, RC_INVALID, "tool_choice: calls cannot be asked for in unparsed text");
	return 0;
}

/* All that are offered: in the request or, as the model's own encoder takes them, in messages. A new reference. */
static json_t *request_must_tools(const struct generation_spec *spec)
{
	json_t *all = json_array(), *m;
	size_t i;

	json_array_extend(all, spec->tools);
	json_array_foreach(spec->messages, i, m)
		json_array_extend(all, json_object_get(m, "tools"));
	return all;
}

/* Copies the given answer. */
static int request_must_answer(struct request *r, const struct generation_spec *spec, struct buf *why)
{
	struct request_must *m = &r->must;
	int vocab = r->env->model->config->vocab_size;

	if (spec->n_answer < 1)
		return buf_why(why, RC_INVALID, "answer: empty");
	for (int i = 0; i < spec->n_answer; i++)
		if (spec->answer[i] < 0 || spec->answer[i] >= vocab)
			return buf_why(why, RC_INVALID, "answer[%d]: token %d is outside 0 to %d", i, spec->answer[i],
				       vocab - 1);
	m->answer = mem_try((size_t)spec->n_answer, sizeof *m->answer);
	m->only = mem_try(((size_t)vocab + 63) / 64, sizeof *m->only);
	if (!m->answer || !m->only)
		return buf_why(why, -ENOMEM, "no memory for an answer of %d tokens", spec->n_answer);
	memcpy(m->answer, spec->answer, (size_t)spec->n_answer * sizeof *m->answer);
	memset(m->only, 0, ((size_t)vocab + 63) / 64 * sizeof *m->only);
	m->n_answer = spec->n_answer;
	return 0;
}

int request_must_init(struct request *r, const struct generation_spec *spec, bool thinking, struct buf *why)
{
	struct constraint_options o = { .thinking = thinking, .calls = spec->calls, .function = spec->function,
					.one_call = spec->one_call, .format = spec->format,
					.schema = spec->schema };
	int rc = request_must_check(r, spec, why);

	if (rc)
		return rc;
	r->must.max_reasoning = spec->max_reasoning;
	r->must.one_call = spec->one_call;
	if (spec->answer)
		return request_must_answer(r, spec, why);
	o.tools = request_must_tools(spec);
	rc = constraint_new(r->env->vocab, &o, &r->must.constraint, why);
	json_decref(o.tools);
	return rc;
}

void request_must_fini(struct request *r)
{
	constraint_free(&r->must.constraint);
	free(r->must.answer);
	free(r->must.only);
}

/* The given answer's token at this place, and no other. */
static const uint64_t *request_must_only(struct request *r)
{
	struct request_must *m = &r->must;
	int at = r->usage.completion_tokens;

	must(at < m->n_answer);
	if (at > 0)
		m->only[m->answer[at - 1] / 64] = 0;
	m->only[m->answer[at] / 64] = (uint64_t)1 << m->answer[at] % 64;
	return m->only;
}

int request_must_mask(struct request *r, const uint64_t **ret_mask, struct buf *why)
{
	*ret_mask = NULL;
	if (r->must.answer) {
		*ret_mask = request_must_only(r);
		return 0;
	}
	if (r->must.max_reasoning && r->usage.reasoning_tokens >= r->must.max_reasoning &&
	    completion_in_reasoning(r->parser)) {
		*ret_mask = constraint_vocab_close(r->env->vocab);
		return 0;
	}
	return r->must.constraint ? constraint_mask(r->must.constraint, ret_mask, why) : 0;
}

#define FORCED_TOKENS 64 /* that one text may begin with, at most: where there are more there is a choice */

/* The mask's tokens; FORCED_TOKENS + 1: more than that. */
static int request_must_tokens(const struct request *r, const uint64_t *mask, int32_t token[FORCED_TOKENS])
{
	int words = (r->env->model->config->vocab_size + 63) / 64, n = 0;

	for (int i = 0; i < words; i++)
		for (uint64_t left = mask[i]; left; left &= left - 1) {
			if (n == FORCED_TOKENS)
				return n + 1;
			token[n++] = i * 64 + __builtin_ctzll(left);
		}
	return n;
}

bool request_must_forced(const struct request *r, const uint64_t *mask)
{
	int32_t token[FORCED_TOKENS];
	int n = mask ? request_must_tokens(r, mask, token) : FORCED_TOKENS + 1;
	const char *longest = "", *text;
	size_t most = 0, len, common;

	if (n > FORCED_TOKENS)
		return false;
	for (int i = 0; i < n; i++) {
		text = tokenizer_bytes(r->env->tokenizer, token[i], &len);
		common = len < most ? len : most;
		if (common && memcmp(text, longest, common) != 0)
			return false;
		if (len > most) {
			longest = text;
			most = len;
		}
	}
	return true;
}

void request_must_call_ended(struct request *r)
{
	r->must.enough = r->must.one_call && !(r->must.constraint && constraint_holds(r->must.constraint));
}

void request_must_take(struct request *r, int32_t token)
{
	if (r->must.constraint)
		constraint_take(r->must.constraint, token);
}
