/* SPDX-License-Identifier: MIT
 * request_input.c - what a spec's messages, text or tokens are to the model.
 * Threads: any. Locks: none. */
#include "engine/serve/request_input.h"
#include "engine/base/rc.h"
#include "engine/serve/known_messages.h"
#include "engine/serve/spec_render.h"
#include "engine/text/prompt.h"

#include <errno.h>
#include <string.h>

void request_input_fini(struct request_input *in)
{
	buf_fini(&in->messages);
	buf_fini(&in->text);
	token_ids_fini(&in->ids);
}

static int request_input_messages(const struct request_env *env, const struct generation_spec *spec,
			  const struct numerics *n, struct request_input *in, struct buf *why)
{
	struct prompt *p;
	int rc = spec_render(spec, n, &p, why);

	if (rc)
		return rc;
	prompt_text(p, &in->text);
	rc = prompt_tokens(p, env->tokenizer, &in->ids, why);
	prompt_free(&p);
	known_messages_dump(spec->messages, &in->messages);
	return rc;
}

static int request_input_tokens(const struct request_env *env, const struct generation_spec *spec,
			       struct request_input *in, struct buf *why)
{
	int vocab = env->model->config->vocab_size, i;

	for (i = 0; i < spec->n_tokens; i++) {
		if (spec->tokens[i] < 0 || spec->tokens[i] >= vocab)
			return buf_why(why, RC_INVALID, "prompt[%d]: token %d is outside 0 to %d", i,
				       spec->tokens[i], vocab - 1);
		if (token_ids_try(&in->ids, spec->tokens[i]))
			return -ENOMEM;
	}
	tokenizer_decode(env->tokenizer, in->ids.id, in->ids.n, false, &in->text);
	return 0;
}

static int request_input_text(const struct request_env *env, const struct generation_spec *spec,
			     struct request_input *in, struct buf *why)
{
	int rc = tokenizer_encode(env->tokenizer, spec->text, strlen(spec->text), false, &in->ids);

	if (rc)
		return buf_why(why, rc, "prompt: %s", rc_text(rc));
	buf_adds(&in->text, spec->text);
	return 0;
}

int request_input_read(const struct request_env *env, const struct generation_spec *spec,
			const struct numerics *n, struct request_input *in, struct buf *why)
{
	int rc;

	if (spec->messages)
		rc = request_input_messages(env, spec, n, in, why);
	else if (spec->tokens)
		rc = request_input_tokens(env, spec, in, why);
	else if (spec->text)
		rc = request_input_text(env, spec, in, why);
	else
		rc = buf_why(why, RC_INVALID, "messages: missing");
	if (rc == 0 && in->ids.n == 0)
		rc = buf_why(why, RC_INVALID, "%s: empty", spec->messages ? "messages" : "prompt");
	return rc;
}
