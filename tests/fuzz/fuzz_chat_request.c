/* SPDX-License-Identifier: MIT
 * fuzz_chat_request.c - bytes as the body of POST /v1/chat/completions, and of POST /v1/completions.
 * Threads: one. */
#include "api/completions/completions_request.h"
#include "api/http/body.h"
#include "api/request/chat_request.h"
#include "engine/base/must.h"
#include "tests/http/fake_engine.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_check(const struct engine *e, json_t *body, struct error *err)
{
	struct settings r;

	if (chat_request_parse(e, "fuzz", body, &r, err))
		return;
	must(json_array_size(r.messages) > 0 && r.spec.messages == r.messages);
	must((r.spec.format == GEN_FORMAT_JSON_SCHEMA) == json_is_object(r.spec.schema) &&
	     !r.schema_path == !r.spec.schema);
	must((r.spec.calls == GEN_CALLS_NAMED) == (r.spec.function != NULL) && r.spec.max_reasoning >= 0);
	must(r.n >= 1 && r.n <= ANSWER_MAX_CHOICES);
	must(r.spec.sampling.n_stop <= GEN_MAX_STOPS && r.spec.sampling.top_logprobs <= GEN_MAX_TOP_LOGPROBS);
	for (int i = 0; i < r.spec.sampling.n_bias; i++)
		must(r.spec.sampling.bias[i].token >= 0 &&
		     r.spec.sampling.bias[i].token < engine_config(e)->vocab_size);
	settings_fini(&r);
}

static void fuzz_check_text(const struct engine *e, json_t *body, struct error *err)
{
	struct completions_request r;

	if (completions_request_parse(e, body, &r, err))
		return;
	must(r.n_prompts >= 1 && r.n_prompts * r.settings.n <= ANSWER_MAX_CHOICES);
	for (int i = 0; i < r.n_prompts; i++) {
		must(r.spec[i].n_tokens > 0 && !r.spec[i].parse);
		for (int k = 0; k < r.spec[i].n_tokens; k++)
			must(r.spec[i].tokens[k] >= 0 && r.spec[i].tokens[k] < engine_config(e)->vocab_size);
	}
	completions_request_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct engine *e;
	struct error err = { 0 };
	json_t *body = NULL, *answer;

	if (!e) {
		const char *dir = getenv("top_srcdir");
		struct buf path = { 0 };

		buf_printf(&path, "%s/etc/tiny", dir ? dir : ".");
		e = fake_engine_open(buf_str(&path));
		buf_fini(&path);
	}
	if (!body_parse((const char *)data, size, &body, &err)) {
		fuzz_check_text(e, body, &err);
		fuzz_check(e, body, &err);
	}
	/* Whatever was refused can be said in JSON, with a message. */
	if (err.rc) {
		must(err.why.len > 0);
		answer = error_json(&err, "req-0");
		json_decref(answer);
	}
	json_decref(body);
	error_fini(&err);
	return 0;
}
