/* SPDX-License-Identifier: MIT
 * chat_request.c - the body of a chat completion to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/chat_request.h"
#include "api/answer.h"
#include "api/chat_messages.h"
#include "api/field.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plain fields ---- */

static int chat_request_real(const struct field_at *b, const char *name, double min, double max, float *io,
			     struct error *err)
{
	double x = (double)*io;
	int rc = field_real(b, name, min, max, &x, err);

	*io = (float)x;
	return rc;
}

static int chat_request_int(const struct field_at *b, const char *name, int min, int max, int *io,
			    struct error *err)
{
	json_int_t n = *io;
	int rc = field_int(b, name, min, max, &n, err);

	*io = (int)n;
	return rc;
}

static int chat_request_refused(const struct field_at *b, const char *name, const char *text,
				struct error *err)
{
	json_t *v = field_any(b, name);

	if (!v || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
	    (json_is_object(v) && json_object_size(v) == 0))
		return 0;
	return field_refuse(b, name, err, RC_UNSUPPORTED, "%s", text);
}

static int chat_request_plain(const struct field_at *b, struct chat_request *r, struct error *err)
{
	int rc;

#define REAL(name, member, min, max, text)                                                                   \
	if ((rc = chat_request_real(b, #name, min, max, &r->member, err)))                                   \
		return rc;
#define INT(name, member, min, max, text)                                                                    \
	if ((rc = chat_request_int(b, #name, min, max, &r->member, err)))                                    \
		return rc;
#define FLAG(name, member, text) if ((rc = field_bool(b, #name, &r->member, err))) return rc;
#define REFUSED(name, text) if ((rc = chat_request_refused(b, #name, text, err))) return rc;
#include "api/chat_fields.def"
#undef REAL
#undef INT
#undef FLAG
#undef REFUSED
	if (r->spec.sampling.top_k < 0)
		r->spec.sampling.top_k = 0;
	if (r->spec.sampling.top_logprobs && !r->spec.sampling.logprobs)
		return field_refuse(b, "top_logprobs", err, RC_INVALID, "needs logprobs to be true");
	return 0;
}

/* ---- fields with a form of their own ---- */

static int chat_request_model(const struct field_at *b, const struct engine *e, struct error *err)
{
	const char *model = engine_model_name(e);
	int rc = field_string(b, "model", &model, err);

	if (rc || !strcmp(model, engine_model_name(e)))
		return rc;
	rc = field_refuse(b, "model", err, RC_NOT_FOUND, "\"%s\" is not served here, only \"%s\"", model,
			  engine_model_name(e));
	strcpy(err->code, "model_not_found");
	return rc;
}

static int chat_request_seed(const struct field_at *b, struct chat_request *r, struct error *err)
{
	json_int_t seed = 0;

	if (!field_any(b, "seed"))
		return 0;
	r->spec.sampling.has_seed = true;
	if (field_int(b, "seed", INT64_MIN, INT64_MAX, &seed, err))
		return err->rc;
	r->spec.sampling.seed = (uint64_t)seed;
	return 0;
}

static int chat_request_stop(const struct field_at *b, struct chat_request *r, struct error *err)
{
	json_t *v = field_any(b, "stop");
	size_t n = json_is_array(v) ? json_array_size(v) : v != NULL;

	if (v && !json_is_string(v) && !json_is_array(v))
		return field_wrong_type(b, "stop", v, "a string or an array of strings", err);
	if (n > GEN_MAX_STOPS)
		return field_refuse(b, "stop", err, RC_INVALID, "more than %d strings", GEN_MAX_STOPS);
	r->stop = mem_new((n + 1) * sizeof *r->stop);
	for (size_t i = 0; i < n; i++) {
		json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
		char name[32];

		snprintf(name, sizeof name, json_is_array(v) ? "stop[%zu]" : "stop", i);
		if (!json_is_string(s))
			return field_wrong_type(b, name, s, "a string", err);
		if (json_string_length(s) == 0 || json_string_length(s) > CHAT_MAX_STOP_BYTES)
			return field_refuse(b, name, err, RC_INVALID, "expected 1 to %d bytes",
					    CHAT_MAX_STOP_BYTES);
		r->stop[i] = json_string_value(s);
	}
	r->spec.sampling.stop = r->stop;
	r->spec.sampling.n_stop = (int)n;
	return 0;
}

/* {"TOKEN ID": -100..100} */
static int chat_request_bias(const struct field_at *b, const struct engine *e, struct chat_request *r,
			     struct error *err)
{
	int vocab = engine_config(e)->vocab_size;
	struct field_at o;
	const char *key;
	json_t *v;
	int rc = field_object(b, "logit_bias", &o, err);

	if (rc || !o.object)
		return rc;
	if (json_object_size(o.object) > CHAT_MAX_BIAS)
		return field_refuse(b, "logit_bias", err, RC_INVALID, "more than %d tokens", CHAT_MAX_BIAS);
	r->bias = mem_new((json_object_size(o.object) + 1) * sizeof *r->bias);
	json_object_foreach (o.object, key, v) {
		struct gen_logit_bias *one = &r->bias[r->spec.sampling.n_bias];
		double x = 0;
		char *end;
		long id;

		errno = 0;
		id = strtol(key, &end, 10);
		if (key[0] < '0' || key[0] > '9' || *end || errno || id >= vocab)
			return field_refuse(b, "logit_bias", err, RC_INVALID,
					    "\"%.32s\" is not a token id below %d", key, vocab);
		if ((rc = field_real(&o, key, -100, 100, &x, err)))
			return rc;
		one->token = (int32_t)id;
		one->bias = (float)x;
		r->spec.sampling.n_bias++;
	}
	r->spec.sampling.bias = r->bias;
	return 0;
}

static int chat_request_stream_options(const struct field_at *b, struct chat_request *r, struct error *err)
{
	struct field_at o;
	int rc = field_object(b, "stream_options", &o, err);

	return rc || !o.object ? rc : field_bool(&o, "include_usage", &r->include_usage, err);
}

static int chat_request_format(const struct field_at *b, struct error *err)
{
	const char *type = "text";
	struct field_at o;
	int rc = field_object(b, "response_format", &o, err);

	if (rc || !o.object)
		return rc;
	if ((rc = field_string(&o, "type", &type, err)))
		return rc;
	if (strcmp(type, "text"))
		return field_refuse(&o, "type", err, RC_UNSUPPORTED,
				    "\"%s\" needs constrained decoding, which is not implemented", type);
	return 0;
}

/* ---- thinking ---- */

static const struct {
	const char *word;
	bool thinking;
	enum gen_effort effort;
} chat_efforts[] = {
	{ "none", false, GEN_EFFORT_DEFAULT }, { "minimal", true, GEN_EFFORT_HIGH },
	{ "low", true, GEN_EFFORT_HIGH },      { "medium", true, GEN_EFFORT_HIGH },
	{ "high", true, GEN_EFFORT_HIGH },     { "xhigh", true, GEN_EFFORT_MAX },
	{ "max", true, GEN_EFFORT_MAX },
};

static int chat_request_effort(const struct field_at *at, struct chat_request *r, struct error *err)
{
	const char *word = NULL;
	int rc = field_string(at, "reasoning_effort", &word, err);

	if (rc || !word)
		return rc;
	for (size_t i = 0; i < mem_countof(chat_efforts); i++)
		if (!strcmp(word, chat_efforts[i].word)) {
			r->spec.thinking = chat_efforts[i].thinking;
			r->spec.effort = chat_efforts[i].effort;
			return 0;
		}
	return field_refuse(at, "reasoning_effort", err, RC_INVALID,
			    "\"%.32s\" is none of none, minimal, low, medium, high, xhigh, max", word);
}

/* Later ones override earlier ones: from the general to the specific. */
static int chat_request_thinking(const struct field_at *b, struct chat_request *r, struct error *err)
{
	struct field_at kwargs, thinking;
	const char *type = NULL;
	int rc;

	if ((rc = chat_request_effort(b, r, err)) ||
	    (rc = field_object(b, "chat_template_kwargs", &kwargs, err)) ||
	    (rc = field_object(b, "thinking", &thinking, err)))
		return rc;
	if (kwargs.object && ((rc = chat_request_effort(&kwargs, r, err)) ||
			      (rc = field_bool(&kwargs, "enable_thinking", &r->spec.thinking, err)) ||
			      (rc = field_bool(&kwargs, "thinking", &r->spec.thinking, err))))
		return rc;
	if (!thinking.object)
		return 0;
	if ((rc = field_string(&thinking, "type", &type, err)))
		return rc;
	if (!type || (strcmp(type, "enabled") && strcmp(type, "disabled")))
		return field_refuse(&thinking, "type", err, RC_INVALID,
				    "expected \"enabled\" or \"disabled\"");
	r->spec.thinking = !strcmp(type, "enabled");
	return 0;
}

/* ---- the whole ---- */

static int chat_request_fill(const struct engine *e, const struct field_at *b, struct chat_request *r,
			     struct error *err)
{
	int rc;

	if ((rc = chat_request_model(b, e, err)) || (rc = chat_request_plain(b, r, err)) ||
	    (rc = chat_request_seed(b, r, err)) ||
	    (rc = chat_request_stop(b, r, err)) || (rc = chat_request_bias(b, e, r, err)) ||
	    (rc = chat_request_stream_options(b, r, err)) || (rc = chat_request_format(b, err)) ||
	    (rc = chat_request_thinking(b, r, err)) || (rc = chat_messages_parse(b, &r->messages, err)) ||
	    (rc = chat_messages_tools(b, &r->tools, &r->spec.calls, err)))
		return rc;
	r->spec.messages = r->messages;
	r->spec.tools = r->tools;
	return 0;
}

int chat_request_parse(const struct engine *e, json_t *body, struct chat_request *ret_r, struct error *err)
{
	struct field_at at = { body, "" };
	struct chat_request r = { .spec = { .thinking = true, .parse = true }, .n = 1 };
	int rc;

	gen_sampling_init(e, &r.spec.sampling);
	rc = chat_request_fill(e, &at, &r, err);
	if (rc) {
		chat_request_fini(&r);
		return rc;
	}
	*ret_r = r;
	return 0;
}

void chat_request_fini(struct chat_request *r)
{
	json_decref(r->messages);
	json_decref(r->tools);
	free(r->bias);
	free(r->stop);
	*r = (struct chat_request){ 0 };
}
