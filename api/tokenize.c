/* SPDX-License-Identifier: MIT
 * tokenize.c - POST /tokenize, /detokenize, /apply-template: what the model sees, without running it.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/body.h"
#include "api/exchange.h"
#include "api/chat_request.h"
#include "api/field.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <stdio.h>
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
	struct chat_request r;
	struct numerics n;
	struct prompt_options o;
	struct buf why = { 0 };
	int rc = chat_request_parse(x->engine, body, &r, err);

	if (rc)
		return rc;
	engine_numerics(x->engine, &n);
	o = (struct prompt_options){ r.spec.thinking, r.spec.effort, (enum prompt_drop)n.drop_thinking };
	rc = prompt_render(r.messages, r.spec.tools, &o, ret_p, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	buf_fini(&why);
	chat_request_fini(&r);
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

/* {"text" (or "content", "prompt"): string, "parse_special": false}, or "messages" and what renders them. */
static int tokenize_text(struct exchange *x, const struct field_at *b, struct token_ids *ids,
			 struct error *err)
{
	static const char *const names[] = { "text", "content", "prompt" };
	const char *text = NULL;
	bool special = false;
	int rc = field_bool(b, "parse_special", &special, err);

	for (size_t i = 0; !rc && !text && i < mem_countof(names); i++)
		rc = field_string(b, names[i], &text, err);
	if (rc)
		return rc;
	if (text) {
		tokenizer_encode(engine_tokenizer(x->engine), text, strlen(text), special, ids);
		return 0;
	}
	if (!field_any(b, "messages"))
		return field_refuse(b, "text", err, RC_INVALID, "missing: give \"text\" or \"messages\"");
	return tokenize_prompt(x, b->object, ids, err);
}

static int tokenize_tokens(struct exchange *x, const struct field_at *b, struct buf *ret_reply,
			   struct error *err)
{
	struct token_ids ids = { 0 };
	int rc = tokenize_text(x, b, &ids, err);

	if (!rc) {
		/* Written directly: as JSON objects a large text's tokens would take 30 times the memory. */
		buf_printf(ret_reply, "{\"count\":%d,\"max_model_len\":%d,\"tokens\":[", ids.n,
			   engine_max_context(x->engine));
		for (int i = 0; i < ids.n; i++)
			buf_printf(ret_reply, i ? ",%d" : "%d", ids.id[i]);
		buf_adds(ret_reply, "]}\n");
	}
	token_ids_fini(&ids);
	return rc;
}

void tokenize_route(struct exchange *x)
{
	tokenize_run(x, tokenize_tokens);
}

/* ---- tokens to text ---- */

static void tokenize_reply_text(struct buf *reply, const char *key, const char *s, size_t len, int count)
{
	json_t *o = json_pack("{s:o, s:i}", key, error_text(s, len), "count", count);
	char *text;

	must(o);
	text = json_dumps(o, JSON_COMPACT);
	must(text);
	buf_adds(reply, text);
	buf_addc(reply, '\n');
	free(text);
	json_decref(o);
}

static int tokenize_ids(struct exchange *x, const struct field_at *b, struct token_ids *ids,
			struct error *err)
{
	int vocab = tokenizer_vocab(engine_tokenizer(x->engine));
	json_t *tokens = NULL;
	int rc = field_array(b, "tokens", &tokens, err);

	if (!rc && !tokens)
		rc = field_refuse(b, "tokens", err, RC_INVALID, "missing");
	for (size_t i = 0; !rc && i < json_array_size(tokens); i++) {
		json_t *v = json_array_get(tokens, i);
		char name[32];

		snprintf(name, sizeof name, "tokens[%zu]", i);
		if (!json_is_integer(v))
			rc = field_wrong_type(b, name, v, "an integer", err);
		else if (json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
			rc = field_refuse(b, name, err, RC_INVALID, "%lld is not a token id below %d",
					  (long long)json_integer_value(v), vocab);
		else
			token_ids_add(ids, (int32_t)json_integer_value(v));
	}
	return rc;
}

/* {"tokens": [ids], "skip_special": false} */
static int tokenize_untokens(struct exchange *x, const struct field_at *b, struct buf *ret_reply,
			     struct error *err)
{
	struct token_ids ids = { 0 };
	struct buf text = { 0 };
	bool skip = false;
	int rc = field_bool(b, "skip_special", &skip, err);

	if (!rc)
		rc = tokenize_ids(x, b, &ids, err);
	if (!rc) {
		tokenizer_decode(engine_tokenizer(x->engine), ids.id, ids.n, skip, &text);
		tokenize_reply_text(ret_reply, "text", buf_str(&text), text.len, ids.n);
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
		tokenize_reply_text(ret_reply, "prompt", buf_str(&text), text.len, ids.n);
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
