/* SPDX-License-Identifier: MIT
 * probe_run.c - what the probes share: options, asking the peer, figures.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_run.h"
#include "engine/base/hexid.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/utf8.h"

#include <limits.h>
#include <stdlib.h>
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

void probe_figure_at(struct probe_run *r, const char *name, long long n, double value)
{
	struct buf b = { 0 };

	buf_printf(&b, "%s_%lld", name, n);
	probe_figure(r, buf_str(&b), value);
	buf_fini(&b);
}

void probe_verdict(struct probe_run *r, enum probe_verdict v, const char *fmt, ...)
{
	struct probe_result *res = r->result;
	struct buf said = { 0 };
	va_list ap;

	res->verdict = probe_worse(res->verdict, v);
	if (res->why.len)
		buf_adds(&res->why, "; ");
	va_start(ap, fmt);
	buf_vprintf(&said, fmt, ap);
	va_end(ap);
	/* What was quoted of an answer may end within a character, and then would be no text of a reply. */
	utf8_repair(buf_str(&said), said.len, &res->why);
	buf_fini(&said);
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
					      "Get the weather for a city", "parameters", "type", "object",
					      "properties", "city", "type", "string", "required", "city"));
	return body;
}

static const char *probe_text(json_t *message, const char *field)
{
	const char *s = json_string_value(json_object_get(message, field));

	return s ? s : "";
}

/* 0 where it is missing, -1 where it is no count. */
static int probe_count(json_t *usage, const char *name)
{
	json_t *v = json_object_get(usage, name);
	json_int_t n = json_integer_value(v);

	return !v || json_is_null(v) ? 0 : json_is_integer(v) && n >= 0 && n <= INT_MAX ? (int)n : -1;
}

/* Splits the reply; false when it is no chat.completion. */
static bool probe_answer_read(struct probe_answer *a)
{
	json_t *choice = json_array_get(json_object_get(a->reply, "choices"), 0), *calls;
	json_t *message = json_object_get(choice, "message"), *usage = json_object_get(a->reply, "usage"), *details;

	if (!json_is_object(message))
		return false;
	a->reasoning = probe_text(message, "reasoning_content");
	a->content = probe_text(message, "content");
	a->finish = probe_text(choice, "finish_reason");
	calls = json_object_get(message, "tool_calls");
	a->tool_calls = json_is_array(calls) && json_array_size(calls) > 0 ? calls : NULL;
	a->prompt_tokens = probe_count(usage, "prompt_tokens");
	a->completion_tokens = probe_count(usage, "completion_tokens");
	details = json_object_get(usage, "prompt_tokens_details");
	a->cached_tokens = json_is_integer(json_object_get(details, "cached_tokens")) ?
		probe_count(details, "cached_tokens") : -1;
	return true;
}

void probe_request(struct probe_run *r, const char *id)
{
	json_array_append_new(r->result->requests, json_string(id));
}

void probe_step(struct probe_run *r)
{
	r->asked++;
	if (r->peer->progress)
		r->peer->progress(r->peer->arg, r->name, r->asked, r->total);
}

bool probe_try(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a,
	       struct buf *why)
{
	const char *id;
	int rc;

	*ret_a = (struct probe_answer){ 0 };
	must(body != NULL);
	if (r->peer->model)
		json_object_set_new(body, "model", json_string(r->peer->model));
	if (!json_object_get(body, "temperature"))
		json_object_set_new(body, "temperature", json_real(0));
	rc = r->peer->chat(r->peer->arg, body, delta, arg, &ret_a->reply, why);
	json_decref(body);
	if (rc == 0 && !probe_answer_read(ret_a))
		rc = buf_why(why, -1, "the reply is no chat completion");
	id = json_string_value(json_object_get(ret_a->reply, "id"));
	if (id)
		probe_request(r, id);
	probe_step(r);
	if (rc)
		probe_answer_fini(ret_a);
	return rc == 0;
}

bool probe_ask(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a)
{
	struct buf why = { 0 };
	bool ok = probe_try(r, body, delta, arg, ret_a, &why);

	if (!ok)
		probe_verdict(r, PROBE_INCONCLUSIVE, "request %d failed: %s", r->asked, buf_str(&why));
	buf_fini(&why);
	return ok;
}

bool probe_ask_logprobs(struct probe_run *r, json_t *body, struct probe_answer *ret_a)
{
	struct buf why = { 0 };
	json_t *with = r->no_logprobs ? NULL : json_deep_copy(body);
	bool ok = false;

	if (with) {
		json_object_set_new(with, "logprobs", json_true());
		ok = probe_try(r, with, NULL, NULL, ret_a, &why);
	}
	buf_fini(&why);
	if (ok) {
		json_decref(body);
		return true;
	}
	ok = probe_ask(r, body, NULL, NULL, ret_a);
	r->no_logprobs |= ok;
	return ok;
}

void probe_answer_fini(struct probe_answer *a)
{
	json_decref(a->reply);
	*a = (struct probe_answer){ 0 };
}

/* ---- what an answer shows ---- */

static bool probe_has_word(const char *text, const char *word, const char *alias)
{
	return strcasestr(text, word) || (alias && strcasestr(text, alias));
}

static bool probe_calls_have(json_t *calls, const char *word, const char *alias)
{
	char *text = json_dumps(calls, JSON_COMPACT);
	bool has = text && probe_has_word(text, word, alias);

	free(text);
	return has;
}

unsigned probe_where(const struct probe_answer *a, const char *word, const char *alias)
{
	return (probe_has_word(a->content, word, alias) ? PROBE_IN_CONTENT : 0u) |
	       (a->tool_calls && probe_calls_have(a->tool_calls, word, alias) ? PROBE_IN_CALLS : 0u) |
	       (probe_has_word(a->reasoning, word, alias) ? PROBE_IN_REASONING : 0u);
}

void probe_print_answer(const struct probe_answer *a, struct buf *out)
{
	json_t *f = json_object_get(json_array_get(a->tool_calls, 0), "function");
	const char *name = json_string_value(json_object_get(f, "name"));
	const char *args = json_string_value(json_object_get(f, "arguments"));
	const char *id = json_string_value(json_object_get(a->reply, "id"));

	if (*a->content || !a->tool_calls)
		buf_printf(out, "the answer was \"%.120s\"", a->content);
	else
		buf_printf(out, "the answer was the call %.40s(%.80s)", name ? name : "", args ? args : "");
	if (!*a->content && *a->finish)
		buf_printf(out, " (%.20s)", a->finish);
	if (id)
		buf_printf(out, " (%.64s)", id);
}

/* ---- words ---- */

static const char *const probe_people[] = { "Maria", "Felix", "Nadia", "Henry", "Paula", "Jonas", "Rosa", "Walter" };
static const char *const probe_things[] = { "bread", "soup", "cheese", "rice", "fruit", "coffee", "salad" };
static const char *const probe_places[] = { "market", "museum", "kitchen", "garden", "river", "square" };

void probe_sentence(struct buf *b, unsigned i)
{
	const char *who = probe_people[i * 5 % mem_countof(probe_people)];
	const char *what = probe_things[i * 3 % mem_countof(probe_things)];
	const char *where = probe_places[(i + i / 7) % mem_countof(probe_places)];

	if (i % 3 == 0)
		buf_printf(b, " %s bought %s near the %s.", who, what, where);
	else if (i % 3 == 1)
		buf_printf(b, " %s walked to the bright %s.", who, where);
	else
		buf_printf(b, " %s lives in Berlin and likes %s.", who, what);
}

void probe_small_talk(json_t *messages, int turns)
{
	static const char *const talk[][2] = {
		{ "Hello", "Hello! How can I help you?" },
		{ "What is 7 + 1?", "7 + 1 = 8." },
		{ "What is the capital of Greece?", "The capital of Greece is Athens." },
		{ "Repeat the word heron.", "Heron." },
		{ "What is 2 + 5?", "2 + 5 = 7." },
		{ "What is the capital of Egypt?", "The capital of Egypt is Cairo." },
	};

	for (int i = 0; i < turns; i++) {
		probe_say(messages, "user", talk[(size_t)i % mem_countof(talk)][0]);
		probe_say(messages, "assistant", talk[(size_t)i % mem_countof(talk)][1]);
	}
}

void probe_nonce(char out[PROBE_NONCE])
{
	char id[HEXID_DIGITS + 1];

	hexid_make(id, sizeof id, "");
	memcpy(out, id, PROBE_NONCE - 1);
	out[PROBE_NONCE - 1] = '\0';
}
