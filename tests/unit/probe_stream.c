/* SPDX-License-Identifier: MIT
 * probe_stream.c - streamed answers of other servers: put together however they are cut, refused when none.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe_stream.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK(delta, finish) \
	"data: {\"id\":\"c\",\"model\":\"m\",\"created\":1,\"choices\":[{\"index\":0,\"delta\":" delta \
	",\"finish_reason\":" finish "}]}\n\n"
#define ROLE CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "null")
#define STOP CHUNK("{}", "\"stop\"")
#define DONE "data: [DONE]\n\n"

/* Reads text in pieces of `step` bytes. */
static int read_in(struct probe_stream *s, const char *text, size_t step, struct buf *why)
{
	size_t len = strlen(text);
	int r = 0;

	for (size_t at = 0; at < len && !r; at += step)
		r = probe_stream_add(s, text + at, len - at < step ? len - at : step, why);
	return r ? r : probe_stream_end(s, why);
}

static void the_answer_is_the_same_however_it_is_cut(void **state)
{
	static const char text[] = ": a comment\r\n\r\nevent: x\n" ROLE CHUNK("{\"reasoning_content\":\"h\xc3\xa4\"}",
									      "null")
		CHUNK("{\"reasoning\":\"m\"}", "null") CHUNK("{\"content\":\"\\u00e9\\n\"}", "null")
		CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
		      "null")
		CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}]}", "null")
		CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}", "null")
		CHUNK("{}", "\"tool_calls\"") "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n" DONE;

	(void)state;
	for (size_t step = 1; step < sizeof text; step++) {
		struct probe_stream s;
		struct buf why = { 0 };
		json_t *reply, *expected = json_pack(
			"{s:s, s:s, s:s, s:i, s:[{s:i, s:s, s:{s:s, s:s, s:s, s:[{s:s, s:s, s:{s:s, s:s}}]}}], "
			"s:{s:i}}",
			"object", "chat.completion", "id", "c", "model", "m", "created", 1, "choices", "index", 0,
			"finish_reason", "tool_calls", "message", "role", "assistant", "content", "\xc3\xa9\n",
			"reasoning_content", "h\xc3\xa4m", "tool_calls", "id", "a", "type", "function", "function",
			"name", "f", "arguments", "{\"x\":1}", "usage", "completion_tokens", 7);

		assert_non_null(expected);
		probe_stream_init(&s);
		assert_int_equal(read_in(&s, text, step, &why), 0);
		reply = probe_stream_reply(&s);
		assert_true(json_equal(reply, expected));
		assert_true(s.role_first && s.done && !s.after_done && !s.after_finish);
		assert_int_equal(s.chunks, 8);
		assert_int_equal(s.texts, 6);
		assert_int_equal(s.finishes, 1);
		assert_int_equal(s.sse.comments, 1);
		json_decref(reply);
		json_decref(expected);
		probe_stream_fini(&s);
		buf_fini(&why);
	}
}

static void what_is_no_answer_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
		int rc;
	} row[] = {
		{ "<html>\n", "a line that no event stream has: \"<html>\"", RC_INVALID },
		{ "datum: {}\n\n", "a line that no event stream has: \"datum: {}\"", RC_INVALID },
		{ "data: a\rdata: b\n\n", "a line that no event stream has", RC_INVALID },
		{ "data: {\"choices\":\n\n", "an event is no JSON object", RC_INVALID },
		{ "data: []\n\n", "an event is no JSON object", RC_INVALID },
		{ "data: {\"choices\":[],\"choices\":[]}\n\n", "an event is no JSON object", RC_INVALID },
		{ "data: {}\n\n", "choices in a chunk is no array", RC_INVALID },
		{ "data: {\"choices\":[{\"index\":0}]}\n\n", "choices[].delta in a chunk is no object", RC_INVALID },
		{ CHUNK("{\"content\":1}", "null"), "content in a chunk is no string", RC_INVALID },
		{ CHUNK("{\"content\":\"\"}", "true"), "finish_reason in a chunk is no string", RC_INVALID },
		{ CHUNK("{\"tool_calls\":{}}", "null"), "tool_calls in a chunk is no array", RC_INVALID },
		{ CHUNK("{\"tool_calls\":[{\"index\":-1}]}", "null"), "is no small number", RC_INVALID },
		{ CHUNK("{\"tool_calls\":[{\"index\":64}]}", "null"), "is no small number", RC_INVALID },
		{ CHUNK("{\"tool_calls\":[{\"index\":1}]}", "null"), "jumps from -1 to 1", RC_INVALID },
		{ ROLE "data: {\"error\":{\"message\":\"full\"}}\n\n", "the server broke off: full", RC_INTERNAL },
		{ ROLE "data: {\"choices\":[]}", "the last event is cut off", RC_INVALID },
		{ ROLE DONE, "without a finish_reason", RC_INVALID },
		{ "", "without a finish_reason", RC_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(row); i++) {
		struct probe_stream s;
		struct buf why = { 0 };

		probe_stream_init(&s);
		assert_int_equal(read_in(&s, row[i].text, 5, &why), row[i].rc);
		if (!strstr(buf_str(&why), row[i].why))
			fail_msg("\"%s\" instead of \"%s\"", buf_str(&why), row[i].why);
		probe_stream_fini(&s);
		buf_fini(&why);
	}
}

static void an_event_without_end_is_too_large(void **state)
{
	char *piece = mem_new(1 << 20);
	struct probe_stream s;
	struct buf why = { 0 };
	int r = 0;

	(void)state;
	memset(piece, 'x', 1 << 20);
	probe_stream_init(&s);
	for (int i = 0; i < 5 && !r; i++)
		r = probe_stream_add(&s, piece, 1 << 20, &why);
	assert_int_equal(r, RC_TOO_LARGE);
	probe_stream_fini(&s);
	buf_fini(&why);
	free(piece);
}

static void oddities_are_counted(void **state)
{
	struct probe_stream s;
	struct buf why = { 0 };

	(void)state;
	probe_stream_init(&s);
	assert_int_equal(read_in(&s, CHUNK("{\"content\":\"a\"}", "null") STOP
				 CHUNK("{\"content\":\"b\"}", "\"length\"") DONE STOP, 1000, &why), 0);
	assert_false(s.role_first);
	assert_int_equal(s.finishes, 3);
	assert_int_equal(s.after_finish, 1);
	assert_true(s.done && s.after_done);
	probe_stream_fini(&s);
	buf_fini(&why);
}

static int stop_at_once(void *arg, bool reasoning, const char *text, size_t len)
{
	(void)reasoning;
	buf_add(arg, text, len);
	return 1;
}

static void who_has_seen_enough_ends_it(void **state)
{
	struct probe_stream s;
	struct buf why = { 0 }, seen = { 0 };
	json_t *reply;

	(void)state;
	probe_stream_init(&s);
	s.delta = stop_at_once;
	s.delta_arg = &seen;
	assert_int_equal(read_in(&s, ROLE CHUNK("{\"content\":\"a\"}", "null")
				 CHUNK("{\"content\":\"b\"}", "null"), 1000, &why), RC_CANCELLED);
	assert_true(s.stopped);
	assert_string_equal(buf_str(&seen), "a");
	reply = probe_stream_reply(&s);
	assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(reply, "choices"), 0),
							      "finish_reason")), "stopped_by_probe");
	json_decref(reply);
	probe_stream_fini(&s);
	buf_fini(&why);
	buf_fini(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_is_the_same_however_it_is_cut),
		cmocka_unit_test(what_is_no_answer_is_refused),
		cmocka_unit_test(an_event_without_end_is_too_large),
		cmocka_unit_test(oddities_are_counted),
		cmocka_unit_test(who_has_seen_enough_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
