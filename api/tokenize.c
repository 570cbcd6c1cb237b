/* SPDX-License-Identifier: MIT
 * tokenize.c - POST /tokenize, /detokenize, /apply-template: what the model sees, without running it.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/http/body.h"
#include "api/http/exchange.h"
#include "api/request/chat_request.h"
#include "api/request/field.h"
#include "api/request/token_list.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

typedef int tokenize_f(struct exchange *x, const struct field_at *body, struct buf *ret_reply,
		       struct error *err);

/* Parses the body, lets f write a reply, sends it or the error. */
static void tokenize_run(struct exchange *x, tokenize_f *f)
{
	struct field_at at = { NULL, "" };
	struct error err = { 0 };
	struct buf reply = { 0 };
	int rc = body_parse(x->body, x->body_len, &at.object, &err);

	if (!rc)
		rc = f(x, &at, &reply, &err);
	if (rc)
		exchange_fail(x, &err);
	else
		exchange_reply_text(x, MHD_HTTP_OK, &reply);
	json_decref(at.object);
	buf_fini(&reply);
	error_fini(&err);
}

/* Renders the chat request in the body as the engine would. */
static int tokenize_render(struct exchange *x, json_t *body, struct prompt **ret_p, struct error *err)
{
	struct settings r;
	struct numerics n;
	struct buf why = { 0 };
	int rc = chat_request_parse(x->engine, x->label, body, &r, err);

	if (rc)
		return rc;
	engine_numerics(x->engine, &n);
	rc = spec_render(&r.spec, &n, ret_p, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	buf_fini(&why);
	settings_fini(&r);
	return rc;
}

static int tokenize_prompt(struct exchange *x, json_t *body, struct token_ids *ids, struct error *err)
{
	struct prompt *p;
	struct buf why = { 0 };
	int rc = tokenize_render(x, body, &p, err);

	if (rc)
		return rc;
	rc = prompt_tokens(p, engine_tokenizer(x->engine), ids, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	buf_fini(&why);
	prompt_free(&p);
	return rc;
}

/* ---- text to tokens ---- */

/* How the tokens are to be told. */
struct tokenize_form {
	bool strings; /* a second list with their texts */
	bool pieces;  /* {"id", "piece"} in place of ids; a piece that is no text is its bytes */
};

/* The tokenizer adds no token of its own, so that add_special_tokens and add_special have nothing to add. */
static int tokenize_form(const struct field_at *b, struct tokenize_form *ret_f, struct error *err)
{
	bool skip;
	int rc;

	*ret_f = (struct tokenize_form){ 0 };
	if ((rc = field_bool(b, "add_special_tokens", &skip, err)) || (rc = field_bool(b, "add_special", &skip, err)) ||
	    (rc = field_bool(b, "return_token_strs", &ret_f->strings, err)))
		return rc;
	return field_bool(b, "with_pieces", &ret_f->pieces, err);
}

/* "text" is text, and what spells a control marker in it stays text; "prompt" and "content" are what /v1/completions
 * would take. "parse_special" says otherwise. */
static int tokenize_text(struct exchange *x, const struct field_at *b, struct token_ids *ids, struct error *err)
{
	static const struct {
		const char *name;
		bool special;
	} names[] = { { "text", false }, { "prompt", true }, { "content", true } };
	const struct tokenizer *t = engine_tokenizer(x->engine);
	const char *text = NULL;
	bool special = false;
	int rc = settings_model(b, x->engine, false, err);

	for (size_t i = 0; !rc && !text && i < mem_countof(names); i++) {
		special = names[i].special;
		rc = field_string(b, names[i].name, &text, err);
	}
	if (rc || (rc = field_bool(b, "parse_special", &special, err)))
		return rc;
	if (!text && !field_any(b, "messages"))
		return field_refuse(b, "text", err, RC_INVALID, "missing: give \"text\", \"prompt\" or \"messages\"");
	if (!text)
		return tokenize_prompt(x, b->object, ids, err);
	rc = tokenizer_encode(t, text, strlen(text), special, ids);
	return rc ? error_set(err, rc, NULL, "%s", rc_text(rc)) : 0;
}

static void tokenize_add_string(struct buf *out, const char *s, size_t n)
{
	json_t *v = error_text(s, n);
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

	must(text);
	buf_adds(out, text);
	free(text);
	json_decref(v);
}

static void tokenize_add_piece(struct buf *out, int32_t id, const char *s, size_t n)
{
	struct utf8_stream u = { 0 };
	struct buf clean = { 0 };

	buf_printf(out, "{\"id\":%d,\"piece\":", id);
	utf8_stream_put(&u, s, n, &clean);
	utf8_stream_end(&u, &clean);
	if (clean.len == n && !memcmp(buf_str(&clean), s, n)) {
		tokenize_add_string(out, s, n);
	} else {
		for (size_t i = 0; i < n; i++)
			buf_printf(out, i ? ",%d" : "[%d", (unsigned char)s[i]);
		buf_addc(out, ']');
	}
	buf_addc(out, '}');
	buf_fini(&clean);
}

/* Written directly: as JSON objects a large text's tokens would take 30 times the memory. */
static void tokenize_add_tokens(struct exchange *x, const struct token_ids *ids, const struct tokenize_form *f,
	struct buf *out)
{
	const struct tokenizer *t = engine_tokenizer(x->engine);
	const char *s;
	size_t n;

	buf_printf(out, "{\"count\":%d,\"max_model_len\":%d,\"tokens\":[", ids->n, engine_max_context(x->engine));
	for (int i = 0; i < ids->n; i++) {
		buf_adds(out, i ? "," : "");
		s = tokenizer_bytes(t, ids->id[i], &n);
		if (f->pieces)
			tokenize_add_piece(out, ids->id[i], s, n);
		else
			buf_printf(out, "%d", ids->id[i]);
	}
	buf_adds(out, f->strings ? "],\"token_strs\":[" : "]");
	for (int i = 0; f->strings && i < ids->n; i++) {
		buf_adds(out, i ? "," : "");
		s = tokenizer_bytes(t, ids->id[i], &n);
		tokenize_add_string(out, s, n);
	}
	buf_adds(out, f->strings ? "]}\n" : "}\n");
}

static int tokenize_tokens(struct exchange *x, const struct field_at *b, struct buf *ret_reply,
			   struct error *err)
{
	struct token_ids ids = { 0 };
	struct tokenize_form form;
	int rc = tokenize_form(b, &form, err);

	if (!rc)
		rc = tokenize_text(x, b, &ids, err);
	if (!rc)
		tokenize_add_tokens(x, &ids, &form, ret_reply);
	token_ids_fini(&ids);
	return rc;
}

void tokenize_route(struct exchange *x)
{
	tokenize_run(x, tokenize_tokens);
}

/* ---- tokens to text ---- */

static void tokenize_reply_text(struct buf *reply, const char *const *keys, const char *s, size_t len, int count)
{
	json_t *o = json_object(), *text = error_text(s, len);

	for (; *keys; keys++)
		must_zero(json_object_set(o, *keys, text));
	must_zero(json_object_set_new(o, "count", json_integer(count)));
	json_decref(text);
	body_print(reply, o);
	buf_addc(reply, '\n');
}

/* {"tokens": [ids], "skip_special_tokens": false} */
static int tokenize_untokens(struct exchange *x, const struct field_at *b, struct buf *ret_reply,
			     struct error *err)
{
	/* As other servers call it, each another way. */
	static const char *const keys[] = { "text", "prompt", "content", NULL };
	const struct tokenizer *t = engine_tokenizer(x->engine);
	struct token_ids ids = { 0 };
	struct buf text = { 0 };
	json_t *tokens = NULL;
	bool skip = false;
	int rc;

	if ((rc = settings_model(b, x->engine, false, err)) || (rc = field_bool(b, "skip_special", &skip, err)) ||
	    (rc = field_bool(b, "skip_special_tokens", &skip, err)) || (rc = field_array(b, "tokens", &tokens, err)))
		return rc;
	if (!tokens)
		return field_refuse(b, "tokens", err, RC_INVALID, "missing");
	rc = token_list_parse(b, "tokens", tokens, t, &ids, err);
	if (!rc) {
		tokenizer_decode(t, ids.id, ids.n, skip, &text);
		tokenize_reply_text(ret_reply, keys, buf_str(&text), text.len, ids.n);
	}
	token_ids_fini(&ids);
	buf_fini(&text);
	return rc;
}

void tokenize_detokenize(struct exchange *x)
{
	tokenize_run(x, tokenize_untokens);
}

/* ---- messages to the prompt ---- */

/* A chat request's body: messages, tools, thinking controls. */
static int tokenize_apply(struct exchange *x, const struct field_at *b, struct buf *ret_reply,
			  struct error *err)
{
	static const char *const keys[] = { "prompt", NULL };
	struct prompt *p;
	struct token_ids ids = { 0 };
	struct buf text = { 0 }, why = { 0 };
	int rc = tokenize_render(x, b->object, &p, err);

	if (rc)
		return rc;
	rc = prompt_tokens(p, engine_tokenizer(x->engine), &ids, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	prompt_text(p, &text);
	if (!rc)
		tokenize_reply_text(ret_reply, keys, buf_str(&text), text.len, ids.n);
	prompt_free(&p);
	token_ids_fini(&ids);
	buf_fini(&text);
	buf_fini(&why);
	return rc;
}

void tokenize_template(struct exchange *x)
{
	tokenize_run(x, tokenize_apply);
}
