/* SPDX-License-Identifier: MIT
 * fake_spec.c - what a test can check of a spec: the fields that a body ends up in, as JSON.
 * Threads: any. Locks: none. */
#include "tests/http/fake_spec.h"
#include "engine/base/must.h"

#include <stdio.h>

static json_t *fake_spec_sampling(const struct gen_sampling *p)
{
	json_t *stops = json_array(), *bias = json_object(), *o;
	char key[16];

	for (int i = 0; i < p->n_stop; i++)
		json_array_append_new(stops, json_string(p->stop[i]));
	for (int i = 0; i < p->n_bias; i++) {
		snprintf(key, sizeof key, "%d", p->bias[i].token);
		json_object_set_new(bias, key, json_real((double)p->bias[i].bias));
	}
	o = json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:b, s:I, s:o, s:o, s:b, s:i, s:b}",
		"temperature", (double)p->temperature, "top_p", (double)p->top_p, "min_p", (double)p->min_p,
		"top_k", p->top_k, "repetition_penalty", (double)p->repetition_penalty,
		"presence_penalty", (double)p->presence_penalty, "frequency_penalty", (double)p->frequency_penalty,
		"has_seed", p->has_seed, "seed", (json_int_t)p->seed, "bias", bias, "stop", stops,
		"logprobs", p->logprobs, "top_logprobs", p->top_logprobs, "ignore_eos", p->ignore_eos);
	must(o);
	return o;
}

json_t *fake_spec(const struct generation_spec *s)
{
	static const char *const calls[] = { "auto", "none", "required", "named" };
	static const char *const formats[] = { "text", "json_object", "json_schema" };
	json_t *o = fake_spec_sampling(&s->sampling), *rest, *tokens = s->tokens ? json_array() : NULL;

	for (int i = 0; i < s->n_tokens; i++)
		json_array_append_new(tokens, json_integer(s->tokens[i]));
	/* Copies: the server's thread and the next request's may not share a value, whose count
	 * only the library minds. */
	rest = json_pack("{s:o*, s:o*, s:o*, s:s*, s:s, s:s*, s:b, s:i, s:i, s:i, s:i, s:s, s:o*, s:b, s:i, s:i, s:i, "
		"s:b, s:s*, s:s*}",
		"messages", json_deep_copy(s->messages), "tools", json_deep_copy(s->tools), "tokens", tokens, "text",
		s->text,
		"calls", calls[s->calls], "function", s->function, "one_call", s->one_call, "guard", (int)s->guard.say,
		"maxrun", s->guard.maxrun, "maxline", s->guard.maxline, "period", s->guard.period,
		"format", formats[s->format], "schema", json_deep_copy(s->schema), "thinking", s->thinking,
		"max_reasoning", s->max_reasoning, "effort", (int)s->effort, "max_tokens", s->max_tokens,
		"parse", s->parse, "label", s->label, "id", s->id);
	must(rest);
	json_object_update(o, rest);
	json_decref(rest);
	return o;
}
