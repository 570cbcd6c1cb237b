/* SPDX-License-Identifier: MIT
 * error.c - what went wrong with a call, and its OpenAI error body.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/http/error.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Codes that clients already test for; every other rc gives its own name in lower case. */
static const struct {
	int rc;
	const char *code;
} error_codes[] = {
	{ RC_CONTEXT, "context_length_exceeded" },
	{ RC_AUTH, "invalid_api_key" },
	{ RC_INVALID, "invalid_value" },
	{ RC_JSON, "invalid_json" },
	{ RC_UNSUPPORTED, "unsupported_value" },
	{ RC_LIMIT, "rate_limit_exceeded" },
};

void error_fini(struct error *err)
{
	buf_fini(&err->why);
	*err = (struct error){ 0 };
}

/* Cuts between characters. */
static void error_bound(struct buf *why)
{
	static const char more[] = " ...";
	size_t n = ERROR_MAX_MESSAGE - strlen(more);
	struct buf cut = { 0 };

	if (why->len <= ERROR_MAX_MESSAGE)
		return;
	while (n && ((unsigned char)why->data[n] & 0xc0) == 0x80)
		n--;
	buf_add(&cut, why->data, n);
	buf_adds(&cut, more);
	buf_fini(why);
	*why = cut;
}

int error_set(struct error *err, int rc, const char *param, const char *fmt, ...)
{
	va_list ap;

	must(rc != 0);
	err->rc = rc;
	err->code[0] = '\0';
	err->retry_after = 0;
	snprintf(err->param, sizeof err->param, "%s", param ? param : "");
	buf_clear(&err->why);
	va_start(ap, fmt);
	buf_vprintf(&err->why, fmt, ap);
	va_end(ap);
	error_bound(&err->why);
	return rc;
}

/* The length of a leading "name[3].name" in s when a colon or a blank follows and it starts with a field we
 * pass to the engine. */
static size_t error_path_length(const char *s)
{
	static const char *const roots[] = {
		"messages", "tools", "max_tokens", "logit_bias", "stop", "tokens", "prompt", "schema",
		"response_format", "tool_choice", "ignore_eos"
	};
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || (s[n] && strchr("_.[]$-/", s[n])))
		n++;
	if (s[n] && s[n] != ':' && s[n] != ' ')
		return 0;
	for (size_t i = 0; i < mem_countof(roots); i++) {
		size_t r = strlen(roots[i]);

		if (n >= r && !strncmp(s, roots[i], r) && (n == r || s[r] == '[' || s[r] == '.'))
			return n;
	}
	return 0;
}

int error_from_engine(struct error *err, int rc, const struct buf *why)
{
	char param[160];
	bool named = rc == RC_INVALID || rc == RC_UNSUPPORTED || rc == RC_TOO_LARGE;
	size_t n = named ? error_path_length(buf_str(why)) : 0;

	snprintf(param, sizeof param, "%.*s", (int)n, buf_str(why));
	return error_set(err, rc, rc == RC_CONTEXT ? "messages" : param, "%s",
			 why->len ? buf_str(why) : rc_text(rc));
}

void error_rename(struct error *err, const char *from, const char *to)
{
	size_t n = strlen(from), was = strlen(err->param);
	struct buf why = { 0 };
	char param[sizeof err->param];

	if (strncmp(err->param, from, n) || (err->param[n] && !strchr(".[", err->param[n])))
		return;
	snprintf(param, sizeof param, "%s%s", to, err->param + n);
	buf_adds(&why, param);
	if (!strncmp(buf_str(&err->why), err->param, was))
		buf_adds(&why, buf_str(&err->why) + was);
	else
		buf_printf(&why, ": %s", buf_str(&err->why));
	snprintf(err->param, sizeof err->param, "%s", param);
	buf_fini(&err->why);
	err->why = why;
	error_bound(&err->why);
}

const char *error_code(const struct error *err, char out[48])
{
	const char *name = rc_name(err->rc);

	snprintf(out, 48, "%s", err->code);
	if (out[0])
		return out;
	for (size_t i = 0; i < mem_countof(error_codes); i++)
		if (error_codes[i].rc == err->rc)
			return error_codes[i].code;
	snprintf(out, 48, "%s", strncmp(name, "RC_", 3) ? "internal" : name + 3);
	for (char *p = out; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return out;
}

json_t *error_text(const char *s, size_t len)
{
	json_t *v = json_stringn(s ? s : "", len);
	struct utf8_stream u = { 0 };
	struct buf clean = { 0 };

	if (v)
		return v;
	utf8_stream_put(&u, s, len, &clean);
	utf8_stream_end(&u, &clean);
	v = json_stringn(buf_str(&clean), clean.len);
	must(v);
	buf_fini(&clean);
	return v;
}

/* behaviours: the two numbers are fields, so that a client need not parse the sentence. */
static void error_add_context(json_t *o, const struct error *err)
{
	long prompt, context;

	if (err->rc != RC_CONTEXT ||
	    sscanf(buf_str(&err->why), "prompt %ld exceeds context %ld", &prompt, &context) != 2)
		return;
	must_zero(json_object_set_new(o, "prompt_tokens", json_integer(prompt)));
	must_zero(json_object_set_new(o, "context_length", json_integer(context)));
}

json_t *error_json(const struct error *err, const char *request_id)
{
	char code[48];
	const char *message = err->why.len ? buf_str(&err->why) : rc_text(err->rc);
	json_t *body, *o;

	o = json_pack("{s:o, s:s, s:o, s:s, s:s?}", "message", error_text(message, strlen(message)), "type",
		      rc_type(err->rc), "param",
		      err->param[0] ? error_text(err->param, strlen(err->param)) : json_null(), "code",
		      error_code(err, code), "request_id", request_id);
	must(o);
	error_add_context(o, err);
	body = json_pack("{s:o}", "error", o);
	must(body);
	return body;
}

json_t *error_json_messages(const struct error *err, const char *request_id)
{
	json_t *body = error_json(err, request_id), *o = json_object_get(body, "error");
	int status = rc_http(err->rc);
	bool ours = status == 499 || status == 500;
	const char *type = status == 413 ? "request_too_large" : ours ? "api_error" : rc_type(err->rc);

	must_zero(json_object_set_new(o, "type", json_string(type)));
	must_zero(json_object_set_new(body, "type", json_string("error")));
	must_zero(json_object_set_new(body, "request_id", json_string(request_id)));
	return body;
}
