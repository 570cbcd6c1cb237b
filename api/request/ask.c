/* SPDX-License-Identifier: MIT
 * ask.c - the request fields that several protocols have under names of their own.
 * Threads: any. Locks: none. */
#include "api/request/ask.h"
#include "api/http/body.h"
#include "api/http/exchange.h"
#include "api/request/chat_request.h"
#include "api/request/tools.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ask_run(struct exchange *x, ask_f *f)
{
	struct error err = { 0 };
	json_t *body = NULL;
	int rc = body_parse(x->body, x->body_len, &body, &err);

	if (!rc)
		rc = f(x, body, &err);
	if (rc)
		exchange_fail(x, &err);
	error_fini(&err);
	json_decref(body);
}

int ask_model(const struct exchange *x, const struct field_at *b, bool required, struct error *err)
{
	const char *served = engine_model_name(x->engine), *model = NULL;
	int rc = field_string(b, "model", &model, err);

	if (rc)
		return rc;
	if (!model)
		return required ? field_refuse(b, "model", err, RC_INVALID, "missing") : 0;
	if (engine_model_is(x->engine, model))
		return 0;
	rc = field_refuse(b, "model", err, RC_NOT_FOUND, "\"%s\" is not served here, only \"%s\"", model, served);
	strcpy(err->code, "model_not_found");
	return rc;
}

static int ask_stop(const struct field_at *b, const char *key, json_t *v, size_t i, const char **ret_s,
	struct error *err)
{
	char name[64];

	snprintf(name, sizeof name, "%.40s[%zu]", key, i);
	if (!json_is_string(v))
		return field_wrong_type(b, name, v, "a string", err);
	if (json_string_length(v) == 0 || json_string_length(v) > CHAT_MAX_STOP_BYTES)
		return field_refuse(b, name, err, RC_INVALID, "expected 1 to %d bytes", CHAT_MAX_STOP_BYTES);
	*ret_s = json_string_value(v);
	return 0;
}

int ask_stops(const struct field_at *b, const char *key, const char ***ret_stop, struct gen_sampling *s,
	struct error *err)
{
	json_t *list = NULL;
	int rc = field_array(b, key, &list, err);
	size_t n = json_array_size(list);

	if (rc)
		return rc;
	if (n > GEN_MAX_STOPS)
		return field_refuse(b, key, err, RC_INVALID, "more than %d strings", GEN_MAX_STOPS);
	*ret_stop = mem_new((n + 1) * sizeof **ret_stop);
	for (size_t i = 0; i < n && !rc; i++)
		rc = ask_stop(b, key, json_array_get(list, i), i, *ret_stop + i, err);
	s->stop = *ret_stop;
	s->n_stop = (int)n;
	return rc;
}

int ask_name(const struct field_at *f, const char **ret_name, struct error *err)
{
	int rc = field_string(f, "name", ret_name, err);

	return rc ? rc : tools_name(f, *ret_name, err);
}

int ask_string(const struct field_at *f, const char *key, const char **ret_s, struct error *err)
{
	const char *s = NULL;
	int rc = field_string(f, key, &s, err);

	if (!rc && !s)
		rc = field_refuse(f, key, err, RC_INVALID, "missing");
	if (!rc)
		*ret_s = s;
	return rc;
}

/* ---- tools ---- */

json_t *ask_tool(const char *name, const char *description, json_t *parameters, bool strict)
{
	json_t *f = json_pack("{s:s, s:s*, s:o*}", "name", name, "description", description, "parameters", parameters);
	json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", f);

	must(tool);
	if (strict)
		must_zero(json_object_set_new(f, "strict", json_true()));
	return tool;
}

bool ask_has_tool(const json_t *tools, const char *name)
{
	json_t *tool;
	size_t i;

	json_array_foreach(tools, i, tool)
		if (!strcmp(json_string_value(json_object_get(json_object_get(tool, "function"), "name")), name))
			return true;
	return false;
}

/* ---- counting ---- */

int ask_count(const struct exchange *x, const struct generation_spec *spec, int *ret_n, struct error *err)
{
	struct prompt_options o = { .thinking = spec->thinking, .effort = spec->effort };
	struct token_ids ids = { 0 };
	struct prompt *p = NULL;
	struct numerics n;
	struct buf why = { 0 };
	int rc;

	engine_numerics(x->engine, &n);
	o.drop_thinking = (enum prompt_drop)n.drop_thinking;
	rc = prompt_render(spec->messages, spec->tools, &o, &p, &why);
	if (!rc)
		rc = prompt_tokens(p, engine_tokenizer(x->engine), &ids, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	else
		*ret_n = ids.n;
	prompt_free(&p);
	token_ids_fini(&ids);
	buf_fini(&why);
	return rc;
}
