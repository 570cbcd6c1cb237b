/* SPDX-License-Identifier: MIT
 * probe_run.c - what the probes share: options, asking the peer, figures.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe_run.h"
#include "engine/base/must.h"

#include <string.h>

int64_t probe_int(const struct probe_run *r, const char *option)
{
	return json_integer_value(json_object_get(r->options, option));
}

double probe_real(const struct probe_run *r, const char *option)
{
	return json_number_value(json_object_get(r->options, option));
}

int64_t probe_list_int(const struct probe_run *r, const char *option, size_t i)
{
	json_t *v = json_array_get(json_object_get(r->options, option), i);

	return v ? json_integer_value(v) : -1;
}

void probe_figure(struct probe_run *r, const char *name, double value)
{
	json_object_set_new(r->result->figures, name, json_real(value));
}

void probe_verdict(struct probe_run *r, enum probe_verdict v, const char *fmt, ...)
{
	struct probe_result *res = r->result;
	va_list ap;

	if (v == PROBE_INCONCLUSIVE ? res->verdict == PROBE_PASS
				    : res->verdict == PROBE_INCONCLUSIVE ? v != PROBE_PASS : v > res->verdict)
		res->verdict = v;
	if (res->why.len)
		buf_adds(&res->why, "; ");
	va_start(ap, fmt);
	buf_vprintf(&res->why, fmt, ap);
	va_end(ap);
}

void probe_say(json_t *messages, const char *role, const char *content)
{
	json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", content));
}

json_t *probe_body(json_t *messages, bool thinking, bool tools, int max_tokens)
{
	json_t *body = json_pack("{s:o, s:{s:s}, s:i}", "messages", messages, "thinking", "type",
				 thinking ? "enabled" : "disabled", "max_tokens", max_tokens);

	if (tools)
		json_object_set_new(body, "tools",
				    json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}}]", "type", "function",
					      "function", "name", "get_weather", "description",
					      "Get the weather for a city", "parameters", "type", "object", "properties",
					      "city", "type", "string", "required", "city"));
	return body;
}

static const char *probe_text(json_t *message, const char *field)
{
	const char *s = json_string_value(json_object_get(message, field));

	return s ? s : "";
}

/* Splits the reply; false when it is no chat.completion. */
static bool probe_answer_read(struct probe_answer *a)
{
	json_t *choice = json_array_get(json_object_get(a->reply, "choices"), 0), *calls;
	json_t *message = json_object_get(choice, "message"), *usage = json_object_get(a->reply, "usage");

	if (!json_is_object(message))
		return false;
	a->reasoning = probe_text(message, "reasoning_content");
	a->content = probe_text(message, "content");
	a->finish = probe_text(choice, "finish_reason");
	calls = json_object_get(message, "tool_calls");
	a->tool_calls = json_is_array(calls) && json_array_size(calls) > 0 ? calls : NULL;
	a->prompt_tokens = (int)json_integer_value(json_object_get(usage, "prompt_tokens"));
	a->completion_tokens = (int)json_integer_value(json_object_get(usage, "completion_tokens"));
	return true;
}

bool probe_ask(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a)
{
	struct buf why = { 0 };
	const char *id;
	int rc;

	*ret_a = (struct probe_answer){ 0 };
	must(body != NULL);
	if (r->peer->model)
		json_object_set_new(body, "model", json_string(r->peer->model));
	if (!json_object_get(body, "temperature"))
		json_object_set_new(body, "temperature", json_real(0));
	rc = r->peer->chat(r->peer->arg, body, delta, arg, &ret_a->reply, &why);
	json_decref(body);
	if (rc == 0 && !probe_answer_read(ret_a))
		rc = buf_why(&why, -1, "the reply is no chat completion");
	if (rc)
		probe_verdict(r, PROBE_INCONCLUSIVE, "request %d failed: %s", r->asked + 1, buf_str(&why));
	id = json_string_value(json_object_get(ret_a->reply, "id"));
	if (id)
		json_array_append_new(r->result->requests, json_string(id));
	buf_fini(&why);
	r->asked++;
	if (r->peer->progress)
		r->peer->progress(r->peer->arg, r->name, r->asked, r->total);
	if (rc)
		probe_answer_fini(ret_a);
	return rc == 0;
}

void probe_answer_fini(struct probe_answer *a)
{
	json_decref(a->reply);
	*a = (struct probe_answer){ 0 };
}
