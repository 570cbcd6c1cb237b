/* SPDX-License-Identifier: MIT
 * completions.c - text completions as OpenAI's legacy protocol tells them, whole and streamed.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/completions/completions.h"
#include "api/http/sse.h"
#include "engine/base/must.h"

#include <math.h>

/* ---- logprobs: {"tokens": [], "token_logprobs": [], "top_logprobs": [{}], "text_offset": []} ---- */

static void completions_append(json_t *logprobs, const char *key, json_t *v)
{
	must_zero(json_array_append_new(json_object_get(logprobs, key), v));
}

static json_t *completions_number(float x)
{
	return json_real(isfinite(x) ? (double)x : -9999.0);
}

/* A token's text. One that is part of a character is "bytes:\x..": as U+FFFD it would be one name for many. */
static void completions_token(const struct tokenizer *t, int32_t id, struct buf *out)
{
	size_t n;
	const char *s = tokenizer_bytes(t, id, &n);
	json_t *whole = json_stringn(s, n);

	buf_clear(out);
	if (whole)
		buf_add(out, s, n);
	else
		buf_adds(out, "bytes:");
	for (size_t i = 0; !whole && i < n; i++)
		buf_printf(out, "\\x%02x", (unsigned)(unsigned char)s[i]);
	json_decref(whole);
}

/* The best tokens and the chosen one, which may be none of them. */
static json_t *completions_top(const struct tokenizer *t, const struct gen_event *ev)
{
	json_t *o = json_object();
	struct buf name = { 0 };

	for (int i = -1; i < ev->n_top; i++) {
		const struct gen_token_logprob *lp = i < 0 ? &ev->lp : &ev->top[i];

		completions_token(t, lp->token, &name);
		must_zero(json_object_set_new(o, buf_str(&name), completions_number(lp->logprob)));
	}
	buf_fini(&name);
	return o;
}

static json_t *completions_lists(void)
{
	json_t *o = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");

	must(o);
	return o;
}

static void completions_logprob(struct completions *s, int choice, const struct gen_event *ev)
{
	const struct tokenizer *t = engine_tokenizer(s->head.engine);
	json_t **io = &s->logprobs[choice];
	struct buf name = { 0 };

	/* A control token, or what a stop string took away. */
	if (ev->lp_place.text == GEN_TEXT_NONE)
		return;
	if (!*io)
		*io = completions_lists();
	completions_token(t, ev->lp.token, &name);
	completions_append(*io, "tokens", error_text(buf_str(&name), name.len));
	completions_append(*io, "token_logprobs", completions_number(ev->lp.logprob));
	completions_append(*io, "top_logprobs", ev->n_top ? completions_top(t, ev) : json_null());
	completions_append(*io, "text_offset", json_integer((json_int_t)ev->lp_place.character));
	buf_fini(&name);
}

/* ---- choices ---- */

/* Takes over text. `finish` and `detail` are NULL but in the last chunk of a stream, and in a whole answer. */
static json_t *completions_choice(struct completions *s, int index, json_t *text, const char *finish,
	const char *detail)
{
	json_t *o = json_pack("{s:i, s:o, s:o?, s:s?}", "index", index, "text", text, "logprobs", s->logprobs[index],
		"finish_reason", finish);

	s->logprobs[index] = NULL;
	must(o);
	if (detail)
		must_zero(json_object_set_new(o, "finish_detail", json_string(detail)));
	return o;
}

static json_t *completions_object(struct completions *s, json_t *choices)
{
	json_t *o = openai_json_head(&s->head, "text_completion");

	must_zero(json_object_set_new(o, "choices", choices));
	return o;
}

static void completions_chunk(struct completions *s, json_t *choice, struct buf *out)
{
	json_t *o = completions_object(s, json_pack("[o]", choice));

	if (s->include_usage)
		must_zero(json_object_set_new(o, "usage", json_null()));
	sse_data(out, o);
}

/* ---- streamed ---- */

void completions_begin(struct completions *s, struct buf *out)
{
	for (int i = 0; i < s->n; i++) {
		const struct buf *echo = &s->echo[i / s->each];

		if (echo->len)
			completions_chunk(s, completions_choice(s, i, error_text(buf_str(echo), echo->len), NULL, NULL),
				out);
	}
}

/* The engine does not parse the answer, so that all of it is content. */
void completions_event(struct completions *s, int choice, const struct gen_event *ev, struct buf *out)
{
	switch (ev->kind) {
	case GEN_EV_CONTENT:
		completions_chunk(s, completions_choice(s, choice, error_text(ev->text, ev->len), NULL, NULL), out);
		break;
	case GEN_EV_LOGPROB: completions_logprob(s, choice, ev); break;
	case GEN_EV_FINISH:
		completions_chunk(s, completions_choice(s, choice, json_string(""), openai_json_finish(ev->finish),
			ev->text ? ev->text : ""), out);
		break;
	case GEN_EV_REASONING:
	case GEN_EV_TOOL_BEGIN:
	case GEN_EV_TOOL_ARGS:
	case GEN_EV_TOOL_END: break;
	}
}

void completions_end(struct completions *s, const struct gen_usage *usage, struct buf *out)
{
	if (s->include_usage) {
		json_t *o = completions_object(s, json_array());

		must_zero(json_object_set_new(o, "usage", openai_json_usage(usage)));
		sse_data(out, o);
	}
	sse_done(out);
}

void completions_fail(struct completions *s, const struct error *err, struct buf *out)
{
	sse_data(out, error_json(err, s->head.id));
	sse_done(out);
}

/* ---- whole ---- */

static json_t *completions_whole(struct completions *s, const struct collect *c, int index)
{
	struct buf text = { 0 };
	json_t *o;

	for (int i = 0; i < c->n_logprobs; i++)
		completions_logprob(s, index, &c->logprob[i]);
	if (c->n_logprobs && !s->logprobs[index]) /* asked for, and none was of the text */
		s->logprobs[index] = completions_lists();
	buf_add(&text, buf_str(&s->echo[index / s->each]), s->echo[index / s->each].len);
	buf_add(&text, buf_str(&c->content), c->content.len);
	o = completions_choice(s, index, error_text(buf_str(&text), text.len), openai_json_finish(c->finish),
		buf_str(&c->detail));
	buf_fini(&text);
	return o;
}

json_t *completions_reply(struct completions *s, const struct collect *choice, int n, const struct gen_usage *usage)
{
	json_t *choices = json_array(), *o;

	for (int i = 0; i < n; i++)
		must_zero(json_array_append_new(choices, completions_whole(s, &choice[i], i)));
	o = completions_object(s, choices);
	must_zero(json_object_set_new(o, "usage", openai_json_usage(usage)));
	return o;
}

void completions_fini(struct completions *s)
{
	for (int i = 0; i < ANSWER_MAX_CHOICES; i++) {
		buf_fini(&s->echo[i]);
		json_decref(s->logprobs[i]);
	}
	*s = (struct completions){ 0 };
}
