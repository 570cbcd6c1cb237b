/* SPDX-License-Identifier: MIT
 * responses_answer.c - answers of OpenAI's /v1/responses, whole and streamed.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/responses/responses_answer.h"
#include "api/responses/responses_store.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

/* ---- the response ---- */

static json_t *responses_answer_usage(const struct gen_usage *u)
{
	json_t *o = json_pack("{s:i, s:{s:i, s:i}, s:i, s:{s:i}, s:i}", "input_tokens", u->prompt_tokens,
		"input_tokens_details", "cached_tokens", u->cached_tokens, "cache_write_tokens", 0, "output_tokens",
		u->completion_tokens, "output_tokens_details", "reasoning_tokens", u->reasoning_tokens, "total_tokens",
		u->prompt_tokens + u->completion_tokens);

	must(o);
	return o;
}

/* usage NULL: not known yet. */
static json_t *responses_answer_object(const struct responses_answer *a, const char *status,
	const struct gen_usage *usage)
{
	json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:b, s:n, s:n, s:s, s:O, s:o}", "id", a->x->id, "object",
		"response",
		"created_at", (json_int_t)a->created, "status", status, "background", 0, "error", "incomplete_details",
		"model", engine_model_name(a->x->engine), "output", a->output, "usage",
		usage ? responses_answer_usage(usage) : json_null());

	must(o);
	must_zero(json_object_update_missing(o, a->echo));
	return o;
}

static void responses_answer_tell(struct responses_answer *a, const char *type, json_t *response, struct buf *out)
{
	responses_items_send(a, out, json_pack("{s:s, s:o}", "type", type, "response", response));
}

/* Clients know one reason for an answer that was cut off; that it looped stands beside it. */
static json_t *responses_answer_incomplete(const char *detail)
{
	json_t *o = json_pack("{s:s}", "reason", "max_output_tokens");

	if (!strcmp(detail, "repetition"))
		must_zero(json_object_set_new(o, "finish_detail", json_string(detail)));
	return o;
}

/* The end of an answer: done, or cut off. Keeps the response, if it is to be kept. */
static void responses_answer_finish(struct responses_answer *a, enum gen_finish f, const char *detail,
	const struct gen_usage *usage, struct buf *out)
{
	a->complete = f != GEN_LENGTH;
	responses_items_end(a, out);
	a->finished = responses_answer_object(a, a->complete ? "completed" : "incomplete", usage);
	if (!a->complete)
		must_zero(json_object_set_new(a->finished, "incomplete_details", responses_answer_incomplete(detail)));
	if (a->store)
		responses_store_keep(a->x->engine, a->x->id, a->finished);
}

/* ---- streamed ---- */

static void responses_answer_begin(void *form, const struct gen_usage *usage, struct buf *out)
{
	struct responses_answer *a = form;

	(void)usage;
	responses_answer_tell(a, "response.created", responses_answer_object(a, "in_progress", NULL), out);
	responses_answer_tell(a, "response.in_progress", responses_answer_object(a, "in_progress", NULL), out);
}

static void responses_answer_event(void *form, int choice, const struct gen_event *ev, const struct gen_usage *usage,
	struct buf *out)
{
	struct responses_answer *a = form;

	must_zero(choice);
	if (ev->kind == GEN_EV_FINISH)
		responses_answer_finish(a, ev->finish, ev->text ? ev->text : "", usage, out);
	else
		responses_items_event(a, ev, out);
}

static void responses_answer_end(void *form, const struct gen_usage *usage, struct buf *out)
{
	struct responses_answer *a = form;

	(void)usage;
	responses_answer_tell(a, a->complete ? "response.completed" : "response.incomplete", json_incref(a->finished),
		out);
}

/* What clients know by name of what can go wrong this late, else our own. */
static const char *responses_answer_code(const struct error *err, char own[48])
{
	if (err->rc == RC_DRAINING || err->rc == RC_BUSY || err->rc == RC_NOT_READY)
		return "server_is_overloaded";
	return rc_http(err->rc) == 500 ? "server_error" : error_code(err, own);
}

static void responses_answer_fail(void *form, const struct error *err, struct buf *out)
{
	struct responses_answer *a = form;
	const char *why = err->why.len ? buf_str(&err->why) : rc_text(err->rc);
	json_t *o = responses_answer_object(a, "failed", NULL);
	char own[48];

	must_zero(json_object_set_new(o, "error", json_pack("{s:s, s:o}", "code", responses_answer_code(err, own),
		"message", error_text(why, strlen(why)))));
	responses_answer_tell(a, "response.failed", o, out);
}

/* ---- whole ---- */

static void responses_answer_words(struct responses_answer *a, enum gen_event_kind kind, const struct buf *text,
	size_t from, size_t len)
{
	struct gen_event ev = { .kind = kind, .len = len };

	if (!len)
		return;
	ev.text = text->data + from;
	responses_items_event(a, &ev, NULL);
}

static void responses_answer_call(struct responses_answer *a, const struct collect_call *call)
{
	struct gen_event begin = { .kind = GEN_EV_TOOL_BEGIN, .text = call->name, .len = strlen(call->name),
				   .tool_id = call->id };
	struct gen_event end = { .kind = GEN_EV_TOOL_END };

	responses_items_event(a, &begin, NULL);
	responses_answer_words(a, GEN_EV_TOOL_ARGS, &call->arguments, 0, call->arguments.len);
	responses_items_event(a, &end, NULL);
}

/* One that was cut off: what came before it was over, as a stream has said by then. */
static void responses_answer_cut_call(struct responses_answer *a, const struct collect *c)
{
	struct gen_event begin = { .kind = GEN_EV_TOOL_BEGIN };

	if (!c->open)
		return;
	begin.text = c->call[c->n_calls].name;
	begin.len = strlen(begin.text);
	responses_items_event(a, &begin, NULL);
}

static json_t *responses_answer_reply(void *form, const struct collect *c, int n, const struct gen_usage *usage)
{
	struct responses_answer *a = form;

	must(n == 1);
	for (int i = 0; i < c->n_parts; i++) {
		const struct collect_part *p = &c->part[i];

		if (p->kind == GEN_EV_TOOL_END)
			responses_answer_call(a, &c->call[p->call]);
		else
			responses_answer_words(a, p->kind, p->kind == GEN_EV_REASONING ? &c->reasoning : &c->content,
				p->from, p->len);
	}
	responses_answer_cut_call(a, c);
	responses_answer_finish(a, c->finish, buf_str(&c->detail), usage, NULL);
	return json_incref(a->finished);
}

/* ---- life ---- */

void responses_answer_init(struct responses_answer *a)
{
	a->output = json_array();
}

static void responses_answer_free(void *form)
{
	struct responses_answer *a = form;

	json_decref(a->echo);
	json_decref(a->names);
	json_decref(a->output);
	json_decref(a->item);
	json_decref(a->finished);
	buf_fini(&a->text);
	unwrap_fini(&a->input);
	free(a);
}

const struct answer_form responses_answer_form = {
	responses_answer_begin, responses_answer_event, responses_answer_end, responses_answer_fail, NULL,
	responses_answer_reply, responses_answer_free,
};
