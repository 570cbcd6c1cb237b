/* SPDX-License-Identifier: MIT
 * settings.c - what the bodies of chats and text completions share: model, sampling, lengths, stop strings, streaming.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/request/settings.h"
#include "api/request/answer.h"
#include "api/request/guard_field.h"
#include "api/request/plain.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED PLAIN_ROW_REFUSED
#define ONLY PLAIN_ROW_ONLY
#define REMARK(name, text)
#define REFUSED_IN PLAIN_ROW_REFUSED_IN
#define ONLY_IN PLAIN_ROW_ONLY_IN
#define REMARK_IN(object, name, text)
static const struct plain_field settings_common[] = {
#define REAL(name, member, min, max, text) PLAIN_ROW_REAL(struct gen_sampling, name, member, min, max, text)
#define INT(name, member, min, max, text) PLAIN_ROW_INT(struct gen_sampling, name, member, min, max, text)
#define FLAG(name, member, text) PLAIN_ROW_FLAG(struct gen_sampling, name, member, text)
#include "api/request/common_fields.def"
#undef REAL
#undef INT
#undef FLAG
};

static const struct plain_field settings_plain[] = {
#define INT(name, member, min, max, text) PLAIN_ROW_INT(struct settings, name, member, min, max, text)
#define FLAG(name, member, text) PLAIN_ROW_FLAG(struct settings, name, member, text)
#include "api/request/settings_fields.def"
#undef INT
#undef FLAG
};
#undef REFUSED
#undef ONLY
#undef REMARK
#undef REFUSED_IN
#undef ONLY_IN
#undef REMARK_IN

int settings_model(const struct field_at *b, const struct engine *e, bool required, struct error *err)
{
	const char *model = NULL;
	int rc = field_string(b, "model", &model, err);

	if (rc)
		return rc;
	if (!model)
		return required ? field_refuse(b, "model", err, RC_INVALID, "missing") : 0;
	if (engine_model_is(e, model))
		return 0;
	rc = field_refuse(b, "model", err, RC_NOT_FOUND, "\"%s\" is not served here, only \"%s\"", model,
			  engine_model_name(e));
	strcpy(err->code, "model_not_found");
	return rc;
}

static int settings_seed(const struct field_at *b, struct gen_sampling *s, struct error *err)
{
	json_int_t seed = 0;

	if (!field_any(b, "seed"))
		return 0;
	s->has_seed = true;
	if (field_int(b, "seed", INT64_MIN, INT64_MAX, &seed, err))
		return err->rc;
	s->seed = (uint64_t)seed;
	return 0;
}

static int settings_stop_one(const struct field_at *b, const char *name, json_t *v, const char **ret_s,
	struct error *err)
{
	if (!json_is_string(v))
		return field_wrong_type(b, name, v, "a string", err);
	if (json_string_length(v) == 0 || json_string_length(v) > SETTINGS_MAX_STOP_BYTES)
		return field_refuse(b, name, err, RC_INVALID, "expected 1 to %d bytes", SETTINGS_MAX_STOP_BYTES);
	*ret_s = json_string_value(v);
	return 0;
}

int settings_stops(const struct field_at *b, const char *key, const char ***ret_stop, struct gen_sampling *s,
	struct error *err)
{
	json_t *list = NULL;
	int rc = field_array(b, key, &list, err);
	size_t n = json_array_size(list);
	char name[64];

	if (rc)
		return rc;
	if (n > GEN_MAX_STOPS)
		return field_refuse(b, key, err, RC_INVALID, "more than %d strings", GEN_MAX_STOPS);
	*ret_stop = mem_new((n + 1) * sizeof **ret_stop);
	for (size_t i = 0; i < n && !rc; i++) {
		snprintf(name, sizeof name, "%.40s[%zu]", key, i);
		rc = settings_stop_one(b, name, json_array_get(list, i), *ret_stop + i, err);
	}
	s->stop = *ret_stop;
	s->n_stop = (int)n;
	return rc;
}

/* One string, or an array. */
static int settings_stop(const struct field_at *b, struct settings *r, struct error *err)
{
	json_t *v = field_any(b, "stop");

	if (!v || json_is_array(v))
		return settings_stops(b, "stop", &r->stop, &r->spec.sampling, err);
	if (!json_is_string(v))
		return field_wrong_type(b, "stop", v, "a string or an array of strings", err);
	r->stop = mem_new(sizeof *r->stop);
	r->spec.sampling.stop = r->stop;
	r->spec.sampling.n_stop = 1;
	return settings_stop_one(b, "stop", v, r->stop, err);
}

/* {"TOKEN ID": -100..100} */
static int settings_bias(const struct field_at *b, const struct engine *e, struct gen_sampling *s,
	struct gen_logit_bias **ret_bias, struct error *err)
{
	int vocab = engine_config(e)->vocab_size;
	struct field_at o;
	const char *key;
	json_t *v;
	int rc = field_object(b, "logit_bias", &o, err);

	if (rc || !o.object)
		return rc;
	if (json_object_size(o.object) > SETTINGS_MAX_BIAS)
		return field_refuse(b, "logit_bias", err, RC_INVALID, "more than %d tokens", SETTINGS_MAX_BIAS);
	*ret_bias = mem_new((json_object_size(o.object) + 1) * sizeof **ret_bias);
	json_object_foreach (o.object, key, v) {
		struct gen_logit_bias *one = *ret_bias + s->n_bias;
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
		s->n_bias++;
	}
	s->bias = *ret_bias;
	return 0;
}

int settings_sampling(const struct engine *e, const struct field_at *b, struct gen_sampling *s,
	struct gen_logit_bias **ret_bias, struct error *err)
{
	int rc;

	if ((rc = plain_read(settings_common, mem_countof(settings_common), b, s, err)) ||
	    (rc = settings_seed(b, s, err)) || (rc = settings_bias(b, e, s, ret_bias, err)))
		return rc;
	if (s->top_k < 0)
		s->top_k = 0;
	return 0;
}

static int settings_stream_options(const struct field_at *b, struct settings *r, struct error *err)
{
	struct field_at o;
	int rc = field_object(b, "stream_options", &o, err);

	return rc || !o.object ? rc : field_bool(&o, "include_usage", &r->include_usage, err);
}

/* As many answers are made as are asked for: none is thrown away. */
static int settings_best_of(const struct field_at *b, const struct settings *r, struct error *err)
{
	json_int_t n = r->n;
	int rc = field_int(b, "best_of", 1, INT32_MAX, &n, err);

	if (rc || n == r->n)
		return rc;
	return field_refuse(b, "best_of", err, RC_UNSUPPORTED, "%d is not n, which is %d: all answers made are told",
		(int)n, r->n);
}

void settings_init(const struct engine *e, struct settings *r)
{
	*r = (struct settings){ .n = 1 };
	gen_sampling_init(e, &r->spec.sampling);
}

int settings_parse(const struct engine *e, const struct field_at *b, struct settings *r, struct error *err)
{
	int rc;

	if ((rc = settings_model(b, e, false, err)) ||
	    (rc = settings_sampling(e, b, &r->spec.sampling, &r->bias, err)) ||
	    (rc = plain_read(settings_plain, mem_countof(settings_plain), b, r, err)) ||
	    (rc = settings_best_of(b, r, err)) || (rc = settings_stop(b, r, err)) ||
	    (rc = settings_stream_options(b, r, err)))
		return rc;
	return guard_field(b, &r->spec.guard, err);
}

void settings_fini(struct settings *r)
{
	json_decref(r->messages);
	free(r->bias);
	free(r->stop);
	*r = (struct settings){ 0 };
}
