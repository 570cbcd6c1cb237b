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
	o.tools = request_must_tools(spec);
	rc = constraint_new(r->env->vocab, &o, &r->must.constraint, why);
	json_decref(o.tools);
	return rc;
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

void request_must_call_ended(struct request *r)
{
	r->must.enough = r->must.one_call && !(r->must.constraint && constraint_holds(r->must.constraint));
}

void request_must_take(struct request *r, int32_t token)
{
	if (r->must.constraint)
		constraint_take(r->must.constraint, token);
}
