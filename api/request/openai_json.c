/* SPDX-License-Identifier: MIT
 * openai_json.c - the pieces that whole and streamed chat answers share.
 * Threads: any. Locks: none. */
#include "api/request/openai_json.h"
#include "engine/base/must.h"

#include <math.h>

json_t *openai_json_head(const struct openai_head *h, const char *object)
{
	json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "id", h->id, "object", object, "created",
			      (json_int_t)h->created, "model", engine_model_name(h->engine));

	must(o);
	return o;
}

json_t *openai_json_usage(const struct gen_usage *u)
{
	json_t *o = json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:i}}", "prompt_tokens", u->prompt_tokens,
			      "completion_tokens", u->completion_tokens, "total_tokens",
			      u->prompt_tokens + u->completion_tokens, "completion_tokens_details",
			      "reasoning_tokens", u->reasoning_tokens, "prompt_tokens_details",
			      "cached_tokens", u->cached_tokens);

	must(o);
	return o;
}

const char *openai_json_finish(enum gen_finish f)
{
	switch (f) {
	case GEN_STOP: return "stop";
	case GEN_LENGTH: return "length";
	case GEN_TOOL_CALLS: return "tool_calls";
	case GEN_RUNNING:
	case GEN_CANCELLED:
	case GEN_ERROR: break;
	}
	return NULL;
}

/* JSON has no infinities; OpenAI's own floor for "impossible" is -9999. */
static json_t *openai_json_number(float x)
{
	return json_real(isfinite(x) ? (double)x : -9999.0);
}

static json_t *openai_json_token(const struct tokenizer *t, const struct gen_token_logprob *lp)
{
	size_t n;
	const char *s = tokenizer_bytes(t, lp->token, &n);
	json_t *bytes = json_array(), *o;

	for (size_t i = 0; i < n; i++)
		must_zero(json_array_append_new(bytes, json_integer((unsigned char)s[i])));
	o = json_pack("{s:o, s:i, s:o, s:o}", "token", error_text(s, n), "id", (int)lp->token, "logprob",
		      openai_json_number(lp->logprob), "bytes", bytes);
	must(o);
	return o;
}

json_t *openai_json_logprob(const struct tokenizer *t, const struct gen_event *ev)
{
	json_t *o = openai_json_token(t, &ev->lp), *top = json_array();

	for (int i = 0; i < ev->n_top; i++)
		must_zero(json_array_append_new(top, openai_json_token(t, &ev->top[i])));
	must_zero(json_object_set_new(o, "top_logprobs", top));
	return o;
}

void openai_json_add_logprob(json_t **io_logprobs, const struct tokenizer *t, const struct gen_event *ev)
{
	if (ev->lp_place.text == GEN_TEXT_NONE)
		return;
	if (!*io_logprobs)
		*io_logprobs = json_pack("{s:[], s:[]}", "content", "reasoning_content");
	must(*io_logprobs);
	must_zero(json_array_append_new(json_object_get(*io_logprobs,
							ev->lp_place.text == GEN_TEXT_REASONING ? "reasoning_content" :
							"content"), openai_json_logprob(t, ev)));
}
