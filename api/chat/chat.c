/* SPDX-License-Identifier: MIT
 * chat.c - whole chat completions: the OpenAI response of what was generated, and running one without a socket.
 * Threads: any. Locks: none. */
#include "api/chat/chat.h"
#include "api/request/chat_request.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

static json_t *chat_call(const struct collect_call *call)
{
	json_t *o = json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", call->id, "type", "function", "function",
		"name", error_text(call->name, strlen(call->name)),
		"arguments", error_text(buf_str(&call->arguments), call->arguments.len));

	must(o);
	return o;
}

static json_t *chat_message(const struct collect *c)
{
	json_t *calls = json_array(), *m;

	for (int i = 0; i < c->n_calls; i++)
		must_zero(json_array_append_new(calls, chat_call(&c->call[i])));
	m = json_pack("{s:s, s:o}", "role", "assistant", "content",
		c->n_calls && !c->content.len ? json_null() : error_text(buf_str(&c->content), c->content.len));
	must(m);
	if (c->reasoning.len)
		must_zero(json_object_set_new(m, "reasoning_content",
			error_text(buf_str(&c->reasoning), c->reasoning.len)));
	if (c->n_calls)
		must_zero(json_object_set(m, "tool_calls", calls));
	json_decref(calls);
	return m;
}

static json_t *chat_choice(const struct openai_head *h, const struct collect *c, int index)
{
	json_t *logprobs = NULL, *o;

	for (int i = 0; i < c->n_logprobs; i++)
		openai_json_add_logprob(&logprobs, engine_tokenizer(h->engine), &c->logprob[i]);
	if (c->n_logprobs && !logprobs) /* asked for, and none was of any text */
		logprobs = json_pack("{s:[], s:[]}", "content", "reasoning_content");
	o = json_pack("{s:i, s:o, s:o?, s:s, s:s}", "index", index, "message", chat_message(c), "logprobs", logprobs,
		"finish_reason", openai_json_finish(c->finish), "finish_detail", buf_str(&c->detail));
	must(o);
	return o;
}

json_t *chat_response(const struct openai_head *h, const struct collect *choice, int n, const struct gen_usage *usage)
{
	json_t *o = openai_json_head(h, "chat.completion"), *choices = json_array();

	for (int i = 0; i < n; i++)
		must_zero(json_array_append_new(choices, chat_choice(h, &choice[i], i)));
	must_zero(json_object_set_new(o, "choices", choices));
	must_zero(json_object_set_new(o, "usage", openai_json_usage(usage)));
	return o;
}

/* ---- without a socket ---- */

static int chat_run_events(struct generation *g, chat_event_f *cb, void *arg, struct collect *c, struct error *err)
{
	bool done = false, cancelled = false;

	while (!done) {
		struct gen_event ev;
		bool came = generation_wait(g, &ev, CHAT_SILENCE_MS) == 0;

		if (cb && !cancelled && cb(arg, came ? &ev : NULL)) {
			cancelled = true;
			generation_cancel(g);
		}
		if (came)
			done = collect_add(c, &ev);
	}
	if (cancelled)
		return error_set(err, RC_CANCELLED, NULL, "cancelled by the caller");
	return c->error.rc ? error_set(err, c->error.rc, NULL, "%s", buf_str(&c->error.why)) : 0;
}

static int chat_run_generation(struct engine *e, struct settings *r, chat_event_f *cb, void *arg,
	json_t **ret_response, struct error *err)
{
	struct collect c = { 0 };
	struct generation *g;
	struct gen_usage usage;
	struct buf why = { 0 };
	int rc;

	rc = engine_submit(e, &r->spec, &g, &why);
	if (rc) {
		error_from_engine(err, rc, &why);
		buf_fini(&why);
		return rc;
	}
	rc = chat_run_events(g, cb, arg, &c, err);
	generation_usage(g, &usage);
	if (!rc)
		*ret_response = chat_response(&(struct openai_head){ e, generation_id(g), time(NULL) }, &c, 1, &usage);
	generation_unref(&g);
	collect_fini(&c);
	buf_fini(&why);
	return rc;
}

static void chat_run_under(struct settings *r, const struct chat_under *under)
{
	r->spec.id = under->id;
	r->spec.set = under->set;
	r->spec.numerics = under->numerics;
	r->spec.cache_off = under->cache_off;
}

int chat_run(struct engine *e, const struct chat_under *under, json_t *body, chat_event_f *cb, void *arg,
	json_t **ret_response, struct buf *why)
{
	struct settings r;
	struct error err = { 0 };
	int rc = chat_request_parse(e, "probe", body, &r, &err);

	if (!rc) {
		if (under)
			chat_run_under(&r, under);
		rc = chat_run_generation(e, &r, cb, arg, ret_response, &err);
		if (rc)
			chat_request_name_schema(&r, &err);
		settings_fini(&r);
	}
	if (rc)
		buf_why(why, rc, "%s", buf_str(&err.why));
	error_fini(&err);
	return rc;
}
