/* SPDX-License-Identifier: MIT
 * chat.c - one whole chat completion: collects a generation's events into an OpenAI response.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/chat.h"
#include "api/chat_json.h"
#include "api/chat_request.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

struct chat {
	struct chat_head head;
	char *id;
	struct buf reasoning, content;
	json_t *calls;                 /* complete ones */
	json_t *call;                  /* the open one, without its arguments */
	struct buf arguments;
	json_t *logprobs;              /* NULL: none asked for */
	enum gen_finish finish;
	struct buf detail;
	struct error error;            /* of a FINISH that is neither stop, length nor tool_calls */
};

struct chat *chat_new(const struct engine *e, const char *id)
{
	struct chat *ch = mem_new(sizeof *ch);

	ch->id = mem_strdup(id);
	ch->head = (struct chat_head){ e, ch->id, time(NULL) };
	ch->calls = json_array();
	return ch;
}

void chat_free(struct chat **pch)
{
	struct chat *ch = *pch;

	*pch = NULL;
	if (!ch)
		return;
	json_decref(ch->calls);
	json_decref(ch->call);
	json_decref(ch->logprobs);
	buf_fini(&ch->reasoning);
	buf_fini(&ch->content);
	buf_fini(&ch->arguments);
	buf_fini(&ch->detail);
	error_fini(&ch->error);
	free(ch->id);
	free(ch);
}

static void chat_begin_call(struct chat *ch, const struct gen_event *ev)
{
	json_decref(ch->call);
	buf_clear(&ch->arguments);
	ch->call = json_pack("{s:s, s:s, s:{s:o}}", "id", ev->tool_id ? ev->tool_id : "", "type", "function",
			     "function", "name", error_text(ev->text, ev->len));
	must(ch->call);
}

static void chat_end_call(struct chat *ch)
{
	must(ch->call);
	must_zero(json_object_set_new(json_object_get(ch->call, "function"), "arguments",
				      error_text(buf_str(&ch->arguments), ch->arguments.len)));
	must_zero(json_array_append_new(ch->calls, ch->call));
	ch->call = NULL;
}

static void chat_end(struct chat *ch, const struct gen_event *ev)
{
	/* A call that was cut off stays out: whoever gets a whole answer may run what stands in tool_calls. */
	ch->finish = ev->finish;
	buf_add(&ch->detail, ev->text, ev->len);
	if (!chat_json_finish(ev->finish))
		chat_json_error(ev, &ch->error);
}

bool chat_add(struct chat *ch, const struct gen_event *ev)
{
	switch (ev->kind) {
	case GEN_EV_REASONING: buf_add(&ch->reasoning, ev->text, ev->len); break;
	case GEN_EV_CONTENT: buf_add(&ch->content, ev->text, ev->len); break;
	case GEN_EV_TOOL_BEGIN: chat_begin_call(ch, ev); break;
	case GEN_EV_TOOL_ARGS: buf_add(&ch->arguments, ev->text, ev->len); break;
	case GEN_EV_TOOL_END: chat_end_call(ch); break;
	case GEN_EV_LOGPROB:
		chat_json_add_logprob(&ch->logprobs, engine_tokenizer(ch->head.engine), ev);
		break;
	case GEN_EV_FINISH: chat_end(ch, ev); return true;
	}
	return false;
}

static json_t *chat_message(const struct chat *ch)
{
	bool calls = json_array_size(ch->calls) > 0;
	json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content",
			      calls && !ch->content.len ? json_null()
							: error_text(buf_str(&ch->content), ch->content.len));

	must(m);
	if (ch->reasoning.len)
		must_zero(json_object_set_new(m, "reasoning_content",
					      error_text(buf_str(&ch->reasoning), ch->reasoning.len)));
	if (calls)
		must_zero(json_object_set(m, "tool_calls", ch->calls));
	return m;
}

int chat_response(const struct chat *ch, const struct gen_usage *usage, json_t **ret_response,
		  struct error *err)
{
	json_t *o, *choices;

	if (ch->error.rc)
		return error_set(err, ch->error.rc, NULL, "%s", buf_str(&ch->error.why));
	choices = json_pack("[{s:i, s:o, s:O?, s:s, s:s}]", "index", 0, "message", chat_message(ch),
			    "logprobs", ch->logprobs, "finish_reason", chat_json_finish(ch->finish),
			    "finish_detail", buf_str(&ch->detail));
	must(choices);
	o = chat_json_head(&ch->head, "chat.completion");
	must_zero(json_object_set_new(o, "choices", choices));
	must_zero(json_object_set_new(o, "usage", chat_json_usage(usage)));
	*ret_response = o;
	return 0;
}

/* ---- without a socket ---- */

static int chat_run_events(struct generation *g, chat_event_f *cb, void *arg, struct chat *ch,
			   struct error *err)
{
	bool done = false, cancelled = false;

	while (!done) {
		struct gen_event ev;

		must_zero(generation_wait(g, &ev, -1));
		if (cb && !cancelled && cb(arg, &ev)) {
			cancelled = true;
			generation_cancel(g);
		}
		done = chat_add(ch, &ev);
		gen_event_fini(&ev);
	}
	return cancelled ? error_set(err, RC_CANCELLED, NULL, "cancelled by the caller") : 0;
}

static int chat_run_generation(struct engine *e, struct chat_request *r, chat_event_f *cb, void *arg,
			       json_t **ret_response, struct error *err)
{
	struct generation *g;
	struct gen_usage usage;
	struct buf why = { 0 };
	struct chat *ch;
	int rc;

	r->spec.label = "probe";
	rc = engine_submit(e, &r->spec, &g, &why);
	if (rc) {
		error_from_engine(err, rc, &why);
		buf_fini(&why);
		return rc;
	}
	ch = chat_new(e, generation_id(g));
	rc = chat_run_events(g, cb, arg, ch, err);
	generation_usage(g, &usage);
	if (!rc)
		rc = chat_response(ch, &usage, ret_response, err);
	generation_unref(&g);
	chat_free(&ch);
	buf_fini(&why);
	return rc;
}

int chat_run(struct engine *e, json_t *body, chat_event_f *cb, void *arg, json_t **ret_response,
	     struct buf *why)
{
	struct chat_request r;
	struct error err = { 0 };
	int rc = chat_request_parse(e, body, &r, &err);

	if (!rc) {
		rc = chat_run_generation(e, &r, cb, arg, ret_response, &err);
		chat_request_fini(&r);
	}
	if (rc)
		buf_why(why, rc, "%s", buf_str(&err.why));
	error_fini(&err);
	return rc;
}
