/* SPDX-License-Identifier: MIT
 * probe_api.c - the probe api where only a script can say when pieces come and who can reach the server.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sound server, but for this. */
struct server {
	double first, last; /* seconds to the first and to the last piece of a stream */
	bool open;          /* no key is needed */
	bool thoughtless;   /* no reasoning, whatever is asked */
	bool eaten;         /* nor that, but it is counted */
	bool gone;
	int asked;
};

static void reply(struct probe_reply *r, int status, json_t *body)
{
	char *text = json_dumps(body, JSON_COMPACT);

	assert_non_null(text);
	r->status = status;
	buf_adds(&r->body, text);
	free(text);
	json_decref(body);
}

static void refuse(struct probe_reply *r, int status, const char *message)
{
	reply(r, status, json_pack("{s:{s:s, s:s, s:n, s:s}}", "error", "message", message, "type", "x", "param",
				   "code", "y"));
}

static json_t *head(const char *object)
{
	return json_pack("{s:s, s:s, s:i, s:s}", "id", "c-1", "object", object, "created", 1, "model", "m");
}

static json_t *usage(void)
{
	return json_pack("{s:i, s:i, s:i}", "prompt_tokens", 5, "completion_tokens", 6, "total_tokens", 11);
}

static bool thinks(const struct server *s, json_t *body)
{
	json_t *type = json_object_get(json_object_get(body, "thinking"), "type");

	return !s->thoughtless && json_is_string(type) && !strcmp(json_string_value(type), "enabled");
}

static json_t *whole(const struct server *s, json_t *body)
{
	json_t *o = head("chat.completion"),
		*message = json_pack("{s:s, s:s}", "role", "assistant", "content", "Athens.");
	bool calls = json_object_get(body, "tools") != NULL;

	if (thinks(s, body))
		json_object_set_new(message, "reasoning_content", json_string("I know."));
	if (calls)
		json_object_set_new(message, "tool_calls",
				    json_pack("[{s:s, s:s, s:{s:s, s:s}}]", "id", "t", "type", "function", "function",
					      "name", "get_weather", "arguments", "{\"city\":\"Berlin\"}"));
	json_object_set_new(o, "choices",
			    json_pack("[{s:i, s:o, s:s}]", "index", 0, "message", message, "finish_reason",
				      calls ? "tool_calls" : "stop"));
	json_object_set_new(o, "usage", usage());
	if (s->eaten)
		json_object_set_new(json_object_get(o, "usage"), "completion_tokens_details",
				    json_pack("{s:i}", "reasoning_tokens", 3));
	return o;
}

static void piece(const struct probe_request *q, const char *field, json_t *value, const char *finish, double at)
{
	json_t *o = head("chat.completion.chunk"), *delta = json_pack("{s:o}", field, value);
	struct buf event = { 0 };
	char *line;

	json_object_set_new(o, "choices", json_pack("[{s:i, s:o, s:s?}]", "index", 0, "delta", delta, "finish_reason",
						    finish));
	if (finish)
		json_object_set_new(o, "usage", usage());
	line = json_dumps(o, JSON_COMPACT);
	buf_printf(&event, "data: %s\n\n%s", line, finish ? "data: [DONE]\n\n" : "");
	assert_int_equal(q->piece(q->arg, event.data, event.len, at), 0);
	buf_fini(&event);
	free(line);
	json_decref(o);
}

static void stream(const struct server *s, json_t *body, const struct probe_request *q, struct probe_reply *r)
{
	json_t *call;

	r->status = 200;
	r->headers = json_pack("{s:s}", "content-type", "text/event-stream");
	piece(q, "role", json_string("assistant"), NULL, 0.01);
	if (json_object_get(body, "tools")) {
		call = json_pack("[{s:i, s:s, s:s, s:{s:s, s:s}}]", "index", 0, "id", "t", "type", "function",
				 "function", "name", "get_weather", "arguments", "{\"city\":\"Berlin\"}");
		piece(q, "tool_calls", call, NULL, 0.02);
		piece(q, "content", json_string(""), "tool_calls", 0.02);
		return;
	}
	piece(q, thinks(s, body) ? "reasoning_content" : "content", json_string("I know. "), NULL, s->first);
	piece(q, "content", json_string("Athens."), NULL, s->last);
	piece(q, "content", json_string(""), "stop", s->last);
}

static int http(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why)
{
	struct server *s = arg;
	json_t *authorization = json_object_get(q->headers, "Authorization"), *body;

	s->asked++;
	if (s->gone)
		return buf_why(why, -ECONNREFUSED, "nobody there");
	if (!strcmp(q->path, "/models")) {
		reply(ret_r, 200,
		      json_pack("{s:s, s:[{s:s, s:i}]}", "object", "list", "data", "id", "m", "context_length", 4096));
		return 0;
	}
	body = json_loadb(q->body, q->len, 0, NULL);
	assert_non_null(body);
	if (authorization && !s->open)
		refuse(ret_r, 401, "no");
	else if (!json_is_array(json_object_get(body, "messages")))
		refuse(ret_r, 400, "messages: no array");
	else if (json_is_true(json_object_get(body, "stream")))
		stream(s, body, q, ret_r);
	else
		reply(ret_r, 200, whole(s, body));
	json_decref(body);
	return 0;
}

static void expect(struct server *s, bool local, enum probe_verdict verdict, const char *zero, const char *said)
{
	struct probe_peer peer = { .http = http, .arg = s, .model = "m", .local = local };
	struct probe_result r;
	struct buf why = { 0 };

	assert_int_equal(probe_run("api", NULL, &peer, &r, &why), 0);
	if (r.verdict != verdict || !strstr(buf_str(&r.why), said))
		fail_msg("%s, not %s: %s", probe_verdict_name(r.verdict), probe_verdict_name(verdict), buf_str(&r.why));
	if (zero)
		assert_true(json_number_value(json_object_get(r.figures, zero)) == 0);
	probe_result_fini(&r);
	buf_fini(&why);
}

static void a_sound_server_passes(void **state)
{
	struct server s = { .first = 0.1, .last = 30 };

	(void)state;
	expect(&s, false, PROBE_PASS, NULL, "8 of 8 checks found nothing wrong");
	assert_int_equal(s.asked, 8);
}

static void a_stream_that_was_held_back_is_a_warning(void **state)
{
	struct server held = { .first = 29, .last = 29.1 }, short_one = { .first = 0.5, .last = 0.5 };

	(void)state;
	expect(&held, false, PROBE_WARN, "check_stream", "held back on the way?");
	expect(&short_one, false, PROBE_PASS, NULL, "nothing wrong");
}

static void an_open_server_is_a_warning_where_others_can_reach_it(void **state)
{
	struct server s = { .first = 0.1, .last = 3, .open = true };

	(void)state;
	expect(&s, true, PROBE_PASS, NULL, "auth: open, no key is needed; only this machine can reach it");
	expect(&s, false, PROBE_WARN, "check_auth", "auth: open, no key is needed, and other machines can reach it");
}

static void no_reasoning_is_a_warning(void **state)
{
	struct server s = { .first = 0.1, .last = 3, .thoughtless = true };

	(void)state;
	expect(&s, false, PROBE_WARN, "check_reasoning", "reasoning: none came, though thinking was turned on");
}

static void reasoning_that_is_counted_and_not_shown_fails(void **state)
{
	struct server s = { .first = 0.1, .last = 3, .thoughtless = true, .eaten = true };

	(void)state;
	expect(&s, false, PROBE_FAIL, "check_reasoning", "reasoning: none came, though 3 tokens of it are counted");
}

static void nobody_there_says_nothing_about_a_server(void **state)
{
	struct server s = { .gone = true };

	(void)state;
	expect(&s, false, PROBE_INCONCLUSIVE, "check_model", "model: nobody there");
	assert_int_equal(s.asked, 1);
}

static void without_http_there_is_nothing_to_look_at(void **state)
{
	struct probe_peer peer = { .http_why = "this daemon listens nowhere" };
	struct probe_result r;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(probe_run("api", NULL, &peer, &r, &why), 0);
	assert_int_equal(r.verdict, PROBE_INCONCLUSIVE);
	assert_string_equal(buf_str(&r.why), "there is no HTTP to look at: this daemon listens nowhere");
	probe_result_fini(&r);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_server_passes),
		cmocka_unit_test(a_stream_that_was_held_back_is_a_warning),
		cmocka_unit_test(an_open_server_is_a_warning_where_others_can_reach_it),
		cmocka_unit_test(no_reasoning_is_a_warning),
		cmocka_unit_test(reasoning_that_is_counted_and_not_shown_fails),
		cmocka_unit_test(nobody_there_says_nothing_about_a_server),
		cmocka_unit_test(without_http_there_is_nothing_to_look_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
