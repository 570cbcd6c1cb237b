/* SPDX-License-Identifier: MIT
 * request_must.c - what a request's answer must be: its constraint, and the bound on its reasoning.
 * Threads: who submits makes it, then the engine thread. Locks: none. */
#include "engine/serve/request_must.h"
#include "engine/base/rc.h"
#include "engine/serve/request.h"

static int request_must_check(const struct request *r, const struct generation_spec *spec, struct buf *why)
{
	bool calls = spec->calls == GEN_CALLS_REQUIRED || spec->calls == GEN_CALLS_NAMED;

	if (spec->max_reasoning < 0)
		return buf_why(why, RC_INVALID, "max_reasoning: %d is negative (0 is off)", spec->max_reasoning);
	if (spec->max_reasoning && r->env->think_end < 0)
		return buf_why(why, RC_UNSUPPORTED, "max_reasoning: the tokenizer has no </think>");
	if ((calls || spec->format != GEN_FORMAT_TEXT) && spec->sampling.ignore_eos)
		return buf_why(why, RC_INVALID, "ignore_eos: an answer that must have a form must end with it");
	if (calls && !spec->parse)
		return buf_why(why, RC_INVALID, "tool_choice: calls cannot be asked for in unparsed text");
	return 0;
}

int request_must_init(struct request *r, const struct generation_spec *spec, bool thinking, struct buf *why)
{
	struct constraint_options o = { .thinking = thinking, .calls = spec->calls, .function = spec->function,
					.one_call = spec->one_call, .format = spec->format,
					.schema = spec->schema, .schema_name = spec->schema_name,
					.tools = spec->tools };
	int rc = request_must_check(r, spec, why);

	if (rc)
		return rc;
	r->must.max_reasoning = spec->max_reasoning;
	r->must.one_call = spec->one_call;
	return constraint_new(r->env->vocab, &o, &r->must.constraint, why);
}

void request_must_fini(struct request *r)
{
	constraint_free(&r->must.constraint);
}

int request_must_mask(struct request *r, const uint64_t **ret_mask, struct buf *why)
{
	*ret_mask = NULL;
	if (r->must.max_reasoning && r->usage.reasoning_tokens >= r->must.max_reasoning &&
	    completion_in_reasoning(r->parser)) {
		*ret_mask = constraint_vocab_close(r->env->vocab);
		return 0;
	}
	return r->must.constraint ? constraint_mask(r->must.constraint, ret_mask, why) : 0;
}

void request_must_take(struct request *r, int32_t token)
{
	if (r->must.constraint)
		constraint_take(r->must.constraint, token);
}
