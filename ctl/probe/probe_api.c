/* SPDX-License-Identifier: MIT
 * probe_api.c - does the server speak OpenAI's chat protocol: a report of checks that all run.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_api.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_TOKENS 1000      /* of an answer that may think first */
#define API_PIECES_FROM 4    /* an answer of so many tokens has more than one piece */
#define API_BURST_S 1.0      /* a shorter stream cannot be told from one that was held back */
#define API_BURST 0.9        /* its first text comes later than this share of it */
#define API_WRONG_KEY "sk-a-wrong-key"

void probe_api_found(struct api *a, enum probe_verdict v, const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	a->ok = false;
	probe_verdict(a->run, v, "%s: %s", a->check, buf_str(&text));
	buf_fini(&text);
}

/* ---- asking ---- */

json_t *probe_api_body(struct api *a, const char *question, bool thinking, bool tools)
{
	json_t *messages = json_array(), *body;

	probe_say(messages, "user", question);
	body = probe_body(messages, thinking, tools, API_TOKENS);
	must_zero(json_object_set_new(body, "temperature", json_integer(0)));
	if (a->run->peer->model)
		json_object_set_new(body, "model", json_string(a->run->peer->model));
	return body;
}

/* Its id is one of the run's requests. */
static void api_note(struct api *a, json_t *answer)
{
	json_t *id = json_object_get(answer, "id");

	if (json_is_string(id))
		json_array_append(a->run->result->requests, id);
}

json_t *probe_api_whole(struct api *a, json_t *body)
{
	struct probe_reply reply = { 0 };
	struct buf why = { 0 };
	json_t *o = NULL;
	int r = probe_chat_send(&a->chat, body, NULL, &reply, &why);

	if (!r)
		o = json_loadb(buf_str(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
	if (r)
		probe_api_found(a, PROBE_FAIL, "%s", buf_str(&why));
	else if (!json_is_object(o))
		probe_api_found(a, PROBE_FAIL, "the answer is no JSON object: \"%.60s\"", buf_str(&reply.body));
	if (json_is_object(o)) {
		api_note(a, o);
		probe_audit_completion(&a->audit, o);
	} else {
		json_decref(o);
		o = NULL;
	}
	probe_reply_fini(&reply);
	buf_fini(&why);
	json_decref(body);
	return o;
}

static void api_chunk(void *arg, json_t *chunk)
{
	struct api *a = arg;

	probe_audit_chunk(&a->audit, chunk);
}

bool probe_api_stream(struct api *a, json_t *body, struct probe_stream *ret_s)
{
	struct probe_reply reply = { 0 };
	struct buf why = { 0 };
	int r;

	must_zero(json_object_set_new(body, "stream", json_true()));
	must_zero(json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1)));
	probe_stream_init(ret_s);
	ret_s->chunk = api_chunk;
	ret_s->chunk_arg = a;
	r = probe_chat_send(&a->chat, body, ret_s, &reply, &why);
	if (r)
		probe_api_found(a, PROBE_FAIL, "%s", buf_str(&why));
	if (ret_s->head)
		api_note(a, ret_s->head);
	probe_reply_fini(&reply);
	buf_fini(&why);
	json_decref(body);
	return r == 0;
}

/* One exchange whose status is what matters; takes over body. 0 when no whole answer came, which is a finding. */
static int api_status(struct api *a, json_t *body, const char *authorization, struct probe_reply *ret_r)
{
	char *text = json_dumps(body, JSON_COMPACT);
	json_t *headers = json_pack("{s:s}", "Content-Type", "application/json");
	struct probe_request q = { .method = "POST", .path = "/chat/completions", .headers = headers, .body = text,
				   .patience = a->chat.patience };
	struct buf why = { 0 };

	must(text && headers);
	q.len = strlen(text);
	if (authorization)
		json_object_set_new(headers, "Authorization", json_string(authorization));
	if (a->run->peer->http(a->run->peer->arg, &q, ret_r, &why)) {
		probe_api_found(a, PROBE_FAIL, "%s", buf_str(&why));
		ret_r->status = 0;
	}
	buf_fini(&why);
	json_decref(headers);
	free(text);
	json_decref(body);
	return ret_r->status;
}

/* ---- parts of an answer ---- */

json_t *probe_api_message(json_t *answer)
{
	return json_object_get(json_array_get(json_object_get(answer, "choices"), 0), "message");
}

const char *probe_api_text(json_t *object, const char *name)
{
	const char *s = json_string_value(json_object_get(object, name));

	return s ? s : "";
}

const char *probe_api_finish(json_t *answer)
{
	return probe_api_text(json_array_get(json_object_get(answer, "choices"), 0), "finish_reason");
}

const char *probe_api_reasoning(json_t *message)
{
	const char *s = probe_api_text(message, "reasoning_content");

	return *s ? s : probe_api_text(message, "reasoning");
}

const char *probe_api_markup(const char *content)
{
	static const char *const marks[] = { "<think>", "</think>", "DSML", "<tool_call>", "<｜tool" };

	for (size_t i = 0; i < mem_countof(marks); i++)
		if (strstr(content, marks[i]))
			return marks[i];
	return NULL;
}

/* ---- the checks ---- */

static void api_check_model(struct api *a)
{
	const struct probe_peer *p = a->run->peer;
	struct buf model = { 0 }, why = { 0 };
	int context = 0, r = probe_chat_model(&a->chat, p->model, &model, &context, &why);

	a->gone = r == -ECONNREFUSED;
	if (a->gone)
		probe_api_found(a, PROBE_INCONCLUSIVE, "%s", buf_str(&why));
	else if (r)
		probe_api_found(a, PROBE_FAIL, "%s", buf_str(&why));
	else
		probe_figure(a->run, "context", context);
	buf_fini(&model);
	buf_fini(&why);
}

static void api_check_chat(struct api *a)
{
	json_t *answer = probe_api_whole(a, probe_api_body(a, "What is the capital of Greece?", false, false)),
		*message;

	if (!answer)
		return;
	message = probe_api_message(answer);
	a->answered = json_is_object(message);
	if (strcmp(probe_api_text(answer, "object"), "chat.completion"))
		probe_api_found(a, PROBE_FAIL, "object is \"%.40s\", not chat.completion",
				probe_api_text(answer, "object"));
	if (!a->answered)
		probe_api_found(a, PROBE_FAIL, "there is no choices[0].message");
	else if (strcmp(probe_api_text(message, "role"), "assistant"))
		probe_api_found(a, PROBE_FAIL, "the role is \"%.40s\", not assistant", probe_api_text(message, "role"));
	else if (!*probe_api_text(message, "content"))
		probe_api_found(a, PROBE_FAIL, "the content is empty (finish_reason \"%.40s\")",
				probe_api_finish(answer));
	if (a->answered && strcmp(probe_api_finish(answer), "stop") && strcmp(probe_api_finish(answer), "length"))
		probe_api_found(a, PROBE_FAIL, "finish_reason is \"%.40s\", neither stop nor length",
				probe_api_finish(answer));
	if (!json_is_object(json_object_get(answer, "usage")))
		probe_api_found(a, PROBE_FAIL, "there is no usage");
	if (a->answered && *probe_api_reasoning(message) && !a->chat.plain)
		probe_api_found(a, PROBE_WARN, "reasoning came, though thinking was turned off");
	json_decref(answer);
}

/* Tokens of reasoning that an answer's usage counts, whatever of them came. */
static json_int_t api_thought(json_t *answer)
{
	json_t *usage = json_object_get(answer, "usage");
	json_t *n = json_object_get(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens");

	return json_integer_value(n ? n : json_object_get(usage, "reasoning_tokens"));
}

/* A server that refuses the fields for thinking may hide what it thinks, as OpenAI's does. One that takes them, thinks
 * and shows nothing has lost it: its clients have nothing to send back. */
static void api_no_reasoning(struct api *a, json_int_t thought)
{
	if (a->chat.plain)
		probe_api_found(a, PROBE_WARN, "none came; the server refuses the fields that ask for it");
	else if (thought > 0)
		probe_api_found(a, PROBE_FAIL, "none came, though %lld tokens of it are counted", (long long)thought);
	else
		probe_api_found(a, PROBE_WARN, "none came, though thinking was turned on");
}

static void api_check_reasoning(struct api *a)
{
	json_t *answer = probe_api_whole(a, probe_api_body(a, "What is 7 + 1?", true, false));
	json_t *message = probe_api_message(answer);
	const char *mark = probe_api_markup(probe_api_text(message, "content"));

	a->reasoned = *probe_api_reasoning(message) != '\0';
	if (mark)
		probe_api_found(a, PROBE_FAIL, "reasoning stands inside the content: \"%s\"", mark);
	else if (answer && !a->reasoned)
		api_no_reasoning(a, api_thought(answer));
	probe_figure(a->run, "reasoning_bytes", (double)strlen(probe_api_reasoning(message)));
	json_decref(answer);
}

/* A stream that came to its end. */
static void api_judge_stream(struct api *a, const struct probe_stream *s)
{
	json_int_t tokens = json_integer_value(json_object_get(s->usage, "completion_tokens"));

	if (!s->role_first)
		probe_api_found(a, PROBE_FAIL, "the first chunk has no role");
	if (s->texts < 2 && (!s->usage || tokens >= API_PIECES_FROM))
		probe_api_found(a, PROBE_FAIL, "the answer is one chunk only");
	if (s->finishes > 1)
		probe_api_found(a, PROBE_FAIL, "%d chunks have a finish_reason", s->finishes);
	if (s->after_finish)
		probe_api_found(a, PROBE_FAIL, "text comes after the finish_reason");
	if (!s->usage)
		probe_api_found(a, PROBE_FAIL, "no usage came, though it was asked for");
	if (!s->done)
		probe_api_found(a, PROBE_FAIL, "no [DONE] ends the stream");
	if (s->after_done)
		probe_api_found(a, PROBE_FAIL, "something follows [DONE]");
	if (s->texts > 1 && s->last > API_BURST_S && s->first > API_BURST * s->last)
		probe_api_found(a, PROBE_WARN, "the first of %d pieces came after %.2f s, the last after %.2f s: "
				"held back on the way?", s->texts, s->first, s->last);
	if (a->reasoned && !s->reasoning.len)
		probe_api_found(a, PROBE_FAIL, "reasoning is lost in the stream");
	if (probe_api_markup(buf_str(&s->content)))
		probe_api_found(a, PROBE_FAIL, "markup stands inside the content: \"%s\"",
				probe_api_markup(buf_str(&s->content)));
}

static void api_check_stream(struct api *a)
{
	struct probe_stream s;

	if (probe_api_stream(a, probe_api_body(a, "What is the capital of Greece?", true, false), &s))
		api_judge_stream(a, &s);
	probe_figure(a->run, "stream_pieces", s.texts);
	probe_figure(a->run, "stream_first_s", s.first);
	probe_figure(a->run, "stream_total_s", s.last);
	probe_stream_fini(&s);
}

static void api_fields(struct api *a, enum probe_verdict v, json_t *found, const char *what)
{
	struct buf list = { 0 };

	probe_audit_list(found, &list);
	if (list.len && v == PROBE_PASS)
		probe_verdict(a->run, v, "%s: %s: %s", a->check, what, buf_str(&list));
	else if (list.len)
		probe_api_found(a, v, "%s: %s", what, buf_str(&list));
	buf_fini(&list);
}

static void api_check_fields(struct api *a)
{
	const struct probe_audit *f = &a->audit;

	api_fields(a, PROBE_FAIL, f->missing, "missing");
	api_fields(a, PROBE_FAIL, f->wrong, "of the wrong type");
	api_fields(a, PROBE_FAIL, f->untrue, "untrue");
	api_fields(a, PROBE_WARN, f->unknown, "unknown");
	api_fields(a, PROBE_PASS, f->known, "not OpenAI's, but known");
	if (!a->answered)
		probe_api_found(a, PROBE_FAIL, "there was no whole answer to look at");
	if (a->chat.plain)
		probe_verdict(a->run, PROBE_PASS,
			      "%s: asked without thinking and chat_template_kwargs, which the server refuses: %s",
			      a->check, buf_str(&a->chat.refusal));
	probe_figure(a->run, "fields_missing", (double)json_object_size(f->missing));
	probe_figure(a->run, "fields_mistyped", (double)json_object_size(f->wrong));
	probe_figure(a->run, "fields_unknown", (double)json_object_size(f->unknown));
}

/* The status of a request for one token that every server understands. */
static int api_knock(struct api *a, const char *authorization)
{
	json_t *body = probe_api_body(a, "Hello", false, false);
	struct probe_reply reply = { 0 };
	int status;

	json_object_set_new(body, "max_tokens", json_integer(1));
	json_object_del(body, "thinking");
	status = api_status(a, body, authorization, &reply);
	probe_reply_fini(&reply);
	return status;
}

static void api_check_auth(struct api *a)
{
	int wrong = api_knock(a, "Bearer " API_WRONG_KEY), none;

	if (!wrong || wrong == 401)
		return;
	if (wrong != 200) {
		probe_api_found(a, PROBE_FAIL, "a wrong key gets HTTP %d, not 401", wrong);
		return;
	}
	none = api_knock(a, "");
	if (none == 200 && a->run->peer->local)
		probe_verdict(a->run, PROBE_PASS, "%s: open, no key is needed; only this machine can reach it",
			      a->check);
	else if (none == 200)
		probe_api_found(a, PROBE_WARN, "open, no key is needed, and other machines can reach it");
	else if (none)
		probe_api_found(a, PROBE_FAIL, "a wrong key is accepted, while none gets HTTP %d", none);
}

static void api_check_errors(struct api *a)
{
	json_t *body = probe_api_body(a, "Hello", false, false), *o, *error;
	struct probe_reply reply = { 0 };
	struct probe_audit audit = { 0 };
	struct buf list = { 0 };
	int status;

	json_object_del(body, "thinking");
	json_object_set_new(body, "messages", json_string("no array"));
	status = api_status(a, body, NULL, &reply);
	o = json_loadb(buf_str(&reply.body), reply.body.len, 0, NULL);
	error = json_object_get(o, "error");
	probe_audit_error(&audit, error);
	if (status && (status < 400 || status >= 500))
		probe_api_found(a, PROBE_FAIL, "a bad request gets HTTP %d", status);
	else if (status && !json_is_object(error))
		probe_api_found(a, PROBE_FAIL, "a bad request gets no {\"error\": {}} but %.60s: \"%.60s\"",
			  probe_reply_header(&reply, "content-type"), buf_str(&reply.body));
	probe_audit_list(audit.missing, &list);
	probe_audit_list(audit.wrong, &list);
	if (list.len)
		probe_api_found(a, PROBE_FAIL, "an error is told wrongly: %s", buf_str(&list));
	else if (status && json_is_object(error) && !*probe_api_text(error, "message"))
		probe_api_found(a, PROBE_FAIL, "an error's message is empty");
	buf_fini(&list);
	probe_audit_fini(&audit);
	probe_reply_fini(&reply);
	json_decref(o);
}

/* ---- the report ---- */

/* In this order; each has a figure check_NAME in probe.def: 1 nothing to say, 0 `why` says what. */
static const struct api_check {
	const char *name;
	void (*run)(struct api *a);
} api_checks[] = {
	{ "model", api_check_model },
	{ "chat", api_check_chat },
	{ "reasoning", api_check_reasoning },
	{ "tools", probe_api_tools },
	{ "stream", api_check_stream },
	{ "fields", api_check_fields }, /* of what came until now */
	{ "auth", api_check_auth },
	{ "errors", api_check_errors },
};

static void api_run_check(struct api *a, const struct api_check *c)
{
	struct probe_run *r = a->run;
	char figure[48];

	a->check = c->name;
	a->ok = true;
	c->run(a);
	snprintf(figure, sizeof figure, "check_%s", c->name);
	probe_figure(r, figure, a->ok);
	r->asked++;
	if (r->peer->progress)
		r->peer->progress(r->peer->arg, r->name, r->asked, r->total);
}

void probe_api(struct probe_run *r)
{
	const struct probe_peer *p = r->peer;
	struct api a =
		{ .run = r, .chat = { .http = p->http, .arg = p->arg, .patience = (int)probe_int(r, "patience") } };

	if (!p->http) {
		probe_verdict(r, PROBE_INCONCLUSIVE, "there is no HTTP to look at%s%s", p->http_why ? ": " : "",
			      p->http_why ? p->http_why : "");
		return;
	}
	r->total = (int)mem_countof(api_checks);
	for (size_t i = 0; i < mem_countof(api_checks) && !a.gone; i++)
		api_run_check(&a, &api_checks[i]);
	if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d checks found nothing wrong", r->asked, r->total);
	probe_audit_fini(&a.audit);
	probe_chat_fini(&a.chat);
}
