/* SPDX-License-Identifier: MIT
 * completions_request.c - the body of a text completion to what the engine takes: raw prompts, as many as are given.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/completions/completions_request.h"
#include "api/request/plain.h"
#include "api/request/token_list.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* As much as OpenAI's own gives to who does not say. */
#define COMPLETIONS_MAX_TOKENS 16

static const struct plain_field completions_request_plain[] = {
#define PLAIN_OF struct completions_request
#define PLAIN_TABLE "api/completions/completions_fields.def"
#include "api/request/plain_rows.h"
};

/* ---- prompts ---- */

/* Takes one prompt, given as text or as ids; `name` is its place. */
static int completions_request_prompt(const struct engine *e, const struct field_at *b, const char *name, json_t *v,
	struct completions_request *r, struct error *err)
{
	struct token_ids *ids = &r->ids[r->n_prompts];
	int rc;

	r->text[r->n_prompts++] = json_string_value(v);
	if (json_is_array(v))
		rc = token_list_parse(b, name, v, engine_tokenizer(e), ids, err);
	else if ((rc = tokenizer_encode(engine_tokenizer(e), json_string_value(v), json_string_length(v),
		r->parse_special, ids)))
		field_refuse(b, name, err, rc, "%s", rc_text(rc));
	if (!rc && !ids->n)
		rc = field_refuse(b, name, err, RC_INVALID, "is empty");
	return rc;
}

static int completions_request_list(const struct engine *e, const struct field_at *b, json_t *list,
	struct completions_request *r, struct error *err)
{
	bool text = json_is_string(json_array_get(list, 0));
	int rc = 0;

	if (json_array_size(list) > (size_t)(ANSWER_MAX_CHOICES / r->settings.n))
		return field_refuse(b, "prompt", err, RC_INVALID, "%zu prompts with n %d are more than %d answers",
			json_array_size(list), r->settings.n, ANSWER_MAX_CHOICES);
	for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
		json_t *v = json_array_get(list, i);
		char name[32];

		snprintf(name, sizeof name, "prompt[%zu]", i);
		if (text ? !json_is_string(v) : !json_is_array(v))
			return field_wrong_type(b, name, v, text ? "a string as the first" : "an array of token ids",
				err);
		rc = completions_request_prompt(e, b, name, v, r, err);
	}
	return rc;
}

static int completions_request_prompts(const struct engine *e, const struct field_at *b, struct completions_request *r,
	struct error *err)
{
	json_t *v = field_any(b, "prompt"), *first = json_array_get(v, 0);

	if (!v)
		return field_refuse(b, "prompt", err, RC_INVALID, "missing");
	if (json_is_string(first) || json_is_array(first))
		return completions_request_list(e, b, v, r, err);
	if (!json_is_string(v) && !json_is_array(v))
		return field_wrong_type(b, "prompt", v, "a string, token ids, or an array of either", err);
	return completions_request_prompt(e, b, "prompt", v, r, err);
}

/* ---- the whole ---- */

static int completions_request_own(const struct field_at *b, struct completions_request *r, struct error *err)
{
	struct gen_sampling *s = &r->settings.spec.sampling;
	int rc = plain_read(completions_request_plain, mem_countof(completions_request_plain), b, r, err);

	if (rc)
		return rc;
	if (r->echo && r->logprobs >= 0)
		return field_refuse(b, "logprobs", err, RC_UNSUPPORTED,
			"with echo they would be those of the prompt too, and those are not computed");
	s->logprobs = r->logprobs >= 0;
	s->top_logprobs = r->logprobs > 0 ? r->logprobs : 0;
	return 0;
}

static int completions_request_fill(const struct engine *e, const struct field_at *b, struct completions_request *r,
	struct error *err)
{
	int rc;

	if ((rc = settings_parse(e, b, &r->settings, err)) || (rc = completions_request_own(b, r, err)) ||
	    (rc = completions_request_prompts(e, b, r, err)))
		return rc;
	for (int i = 0; i < r->n_prompts; i++) {
		r->spec[i] = r->settings.spec;
		r->spec[i].tokens = r->ids[i].id;
		r->spec[i].n_tokens = r->ids[i].n;
	}
	return 0;
}

int completions_request_parse(const struct engine *e, json_t *body, struct completions_request *ret_r,
	struct error *err)
{
	struct field_at at = { body, "" };
	int rc;

	*ret_r = (struct completions_request){ .logprobs = -1, .parse_special = true };
	settings_init(e, &ret_r->settings);
	ret_r->settings.spec.max_tokens = COMPLETIONS_MAX_TOKENS;
	rc = completions_request_fill(e, &at, ret_r, err);
	if (rc)
		completions_request_fini(ret_r);
	return rc;
}

void completions_request_fini(struct completions_request *r)
{
	for (int i = 0; i < r->n_prompts; i++)
		token_ids_fini(&r->ids[i]);
	settings_fini(&r->settings);
}
