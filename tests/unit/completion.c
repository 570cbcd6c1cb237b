/* SPDX-License-Identifier: MIT
 * completion.c - unit tests of the completion parser: events, splits, leaks, stop strings.
 * Threads: main only. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/completion.h"
#include "engine/text/jsonprefix.h"
#include "engine/text/stop.h"
#include "tests/unit/child.h"
#include "tests/unit/play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *load(const char *path)
{
	struct buf file = { 0 };
	json_t *v;

	buf_printf(&file, "%s/%s", getenv("top_srcdir") ? getenv("top_srcdir") : ".", path);
	v = json_load_file(buf_str(&file), JSON_ALLOW_NUL, NULL);
	buf_fini(&file);
	assert_non_null(v);
	return v;
}

/* ---- against the official parser ---- */

static void test_every_split_of_every_case(void **state)
{
	json_t *all = load("tests/data/encoding_vectors.json"), *c;
	size_t i, at;

	(void)state;
	json_array_foreach(json_object_get(all, "decode"), i, c) {
		const json_t *text = json_object_get(c, "text");
		bool think = strcmp(json_string_value(json_object_get(c, "thinking_mode")), "thinking") == 0;
		size_t len = json_string_length(text);
		struct completion_verdict whole, v;
		json_t *message = NULL, *again = NULL;

		completion_parse_text(json_string_value(text), len, think, 0, &message, &whole);
		if (json_is_true(json_object_get(c, "official_parser_refuses"))) {
			assert_int_not_equal(whole.flags, 0);
		} else {
			assert_int_equal(whole.flags, 0);
			assert_true(json_equal(message, json_object_get(c, "message")));
		}
		for (at = 1; at <= len; at++) {
			completion_parse_text(json_string_value(text), len, think, at, &again, &v);
			assert_true(json_equal(message, again));
			assert_int_equal(v.flags, whole.flags);
			assert_string_equal(v.detail, whole.detail);
			json_decref(again);
		}
		json_decref(message);
	}
	assert_int_equal(i, 16);
	json_decref(all);
}

static bool has_whole_calls_only(const json_t *message)
{
	const json_t *calls = json_object_get(message, "tool_calls"), *call;
	size_t i;

	json_array_foreach(calls, i, call) {
		const json_t *args = json_object_get(json_object_get(call, "function"), "arguments");
		struct jsonprefix s = { 0 };

		jsonprefix_put(&s, json_string_value(args), json_string_length(args));
		if (!jsonprefix_end(&s))
			return false;
	}
	return true;
}

/* Behaviours 70, 74, 75: wherever a text is cut, no markup leaks and no call is whole that was not. */
static void test_cut_anywhere(void **state)
{
	json_t *all = load("tests/data/encoding_vectors.json"), *c;
	size_t i, at;

	(void)state;
	json_array_foreach(json_object_get(all, "decode"), i, c) {
		const char *text = json_string_value(json_object_get(c, "text"));
		bool think = strcmp(json_string_value(json_object_get(c, "thinking_mode")), "thinking") == 0;
		const char *block_end = strstr(text, CALLS_END);

		for (at = 0; at < strlen(text); at++) {
			struct completion_verdict v;
			json_t *m = NULL;

			completion_parse_text(text, at, think, 1, &m, &v);
			if (!strstr(text, END) || at < strlen(text))
				assert_int_equal(v.finish, GEN_LENGTH);
			if (strstr(json_string_value(json_object_get(m, "content")), "DSML"))
				fail_msg("cut at %zu: %.*s", at, (int)at, text);
			assert_null(strstr(json_string_value(json_object_get(m, "reasoning_content")),
				"DSML"));
			assert_true(has_whole_calls_only(m));
			if (block_end && at < (size_t)(strstr(text, "</｜DSML｜invoke") - text))
				assert_int_equal(json_array_size(json_object_get(m, "tool_calls")), 0);
			json_decref(m);
		}
	}
	json_decref(all);
}

/* ---- events ---- */

static void test_reasoning_and_content(void **state)
{
	(void)state;
	play_expect(play_thinking, "\nwhy\n</think>\nHi.\n", "R(\nwhy\n)C(\nHi.\n)", "eos", 0);
	play_expect(play_chat, "Hi.", "C(Hi.)", "eos", 0);
	play_expect(play_chat, "a < b </ c\n\n<d> é日😀", "C(a < b </ c\n\n<d> é日😀)", "eos", 0);
	play_expect(play_thinking, "a\n\n<", "R(a\n\n<)", "only_reasoning", COMPLETION_OPEN_THINK);
	play_expect(play_chat, "", "", "empty", 0);
	play_expect(play_chat_cut, "Hi", "C(Hi)", "max_tokens", COMPLETION_NO_END);
}

static void test_calls(void **state)
{
	(void)state;
	play_expect(play_thinking, "r</think>Look." CALLS F_OSLO INVOKE("g") JSON("n", "[1, {\"a\": \"b\"}]")
		STRING("s", "x\"\n\t\\é") INVOKE_END CALLS_END,
		"R(r)C(Look.)B(f)A({\"city\": \"Oslo\"})E()"
		"B(g)A({\"n\": [1, {\"a\": \"b\"}], \"s\": \"x\\\"\\n\\t\\\\é\"})E()",
		"tool_calls", 0);
	play_expect(play_chat, CALLS INVOKE("f") INVOKE_END CALLS_END, "B(f)A({})E()", "tool_calls", 0);
	play_expect(play_chat, CALLS INVOKE("f") "\n" INVOKE_END CALLS_END, "B(f)A({})E()", "tool_calls", 0);
	play_expect(play_chat, "a\n" CALLS INVOKE("f")
		STRING("a\" b>", "</｜DSML｜invoke> <｜DSML｜parameter name=\"")
		INVOKE_END CALLS_END,
		"C(a\n)B(f)A({\"a\\\" b>\": \"</｜DSML｜invoke> <｜DSML｜parameter name=\\\"\"})E()",
			"tool_calls", 0);
	play_expect(play_chat, CALLS INVOKE("f") STRING("a", "<think></think>|DSML|</|DSML|parameter>")
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"<think></think>|DSML|</|DSML|parameter>\"})E()", "tool_calls", 0);
}

/* Behaviour 67: an argument is passed on while it is generated. */
static void test_arguments_stream(void **state)
{
	struct play p = { .mode = COMPLETION_CHAT };
	struct buf text = { 0 };
	struct completion_verdict v;
	struct play_trace t = { 0 };
	int i;

	(void)state;
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">");
	for (i = 0; i < 1000; i++)
		buf_adds(&text, "some words ");
	play_run(&p, buf_str(&text), &t, &v);
	assert_true(t.n_events > 1000);
	assert_string_equal(v.detail, "incomplete_tool_call");
	/* So is long JSON, once it has gone on for a while. */
	buf_clear(&text);
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">[");
	for (i = 0; i < 2000; i++)
		buf_adds(&text, "\"some words\", ");
	play_run(&p, buf_str(&text), &t, &v);
	assert_true(t.n_events > 1000);
	buf_fini(&text);
	buf_fini(&t.text);
}

/* An answer that loops is cut off: neither a whole call before the loop nor one in it makes it calls. */
static void test_repetition(void **state)
{
	static const char *const text[] = { "no no no", CALLS F_OSLO CALLS_END, CALLS F_OSLO F_OSLO,
					    CALLS F_OSLO INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">no "
								     "no" };
	struct play p = { .mode = COMPLETION_CHAT, .why = COMPLETION_REPETITION };
	struct play_trace t = { 0 };

	(void)state;
	for (size_t i = 0; i < mem_countof(text); i++) {
		struct completion_verdict v;

		play_run(&p, text[i], &t, &v);
		assert_int_equal(v.finish, GEN_LENGTH);
		assert_string_equal(v.detail, "repetition");
		assert_true(v.flags & COMPLETION_NO_END);
	}
	buf_fini(&t.text);
}

/* ---- stop strings ---- */

static void expect_stop(enum completion_mode mode, const char *stop1, const char *stop2, const char *text,
	const char *want,
	const char *detail)
{
	struct play p = { .mode = mode, .stop = { stop1, stop2 }, .n_stop = stop2 ? 2 : 1 };
	struct completion_verdict v;
	struct play_trace t = { 0 };

	for (p.chunk = 0; p.chunk < 12; p.chunk++) {
		p.spelled = p.chunk > 0;
		play_run(&p, text, &t, &v);
		assert_string_equal(buf_str(&t.text), want);
		assert_string_equal(v.detail, detail);
	}
	buf_fini(&t.text);
}

/* Behaviours 99, 100, 101. */
static void test_which_stop_string(void **state)
{
	static const char *const stop[] = { "abc", "b", "bcd" };
	static const struct { const char *text; int which; } cases[] = {
		{ "xxb", 1 }, { "aabc", 1 }, { "xyz", -1 }, { "ab", 1 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < mem_countof(cases); i++) {
		struct stop_match *m;
		struct buf out = { 0 };

		assert_int_equal(stop_match_new(stop, 3, &m, NULL), 0);
		stop_match_put(m, cases[i].text, strlen(cases[i].text), &out);
		assert_int_equal(stop_match_found(m), cases[i].which);
		stop_match_free(&m);
		buf_fini(&out);
	}
	/* Two that end at once: the longer. */
	for (i = 0; i < 2; i++) {
		const char *const two[] = { i ? "bc" : "abc", i ? "abc" : "bc" };
		struct stop_match *m;
		struct buf out = { 0 };

		assert_int_equal(stop_match_new(two, 2, &m, NULL), 0);
		assert_true(stop_match_put(m, "abc", 3, &out));
		assert_int_equal(stop_match_found(m), (int)i);
		assert_int_equal(out.len, 0);
		stop_match_free(&m);
		buf_fini(&out);
	}
}

static void test_stop_strings(void **state)
{
	(void)state;
	expect_stop(COMPLETION_CHAT, "DEFGHIJ", NULL, "DEFGHIJ", "", "stop_string");
	expect_stop(COMPLETION_CHAT, "DEFGHIJ", NULL, "DEFGHI", "C(DEFGHI)", "eos");
	expect_stop(COMPLETION_CHAT, "DEFGHIJ", NULL, "abcDEFGHIJklm", "C(abc)", "stop_string");
	expect_stop(COMPLETION_CHAT, "\n", "Alice:", " Alice! and", "C( Alice! and)", "eos");
	expect_stop(COMPLETION_CHAT, "aab", NULL, "aaaaab", "C(aaa)", "stop_string");
	expect_stop(COMPLETION_CHAT, "abab", "ba", "aba", "C(a)", "stop_string");
	expect_stop(COMPLETION_CHAT, "bc", "abc", "xabcy", "C(x)", "stop_string");
	expect_stop(COMPLETION_CHAT, "é日", NULL, "xé日", "C(x)", "stop_string");
	expect_stop(COMPLETION_THINKING, "b", "c", "ab</think>ac", "R(ab)C(a)", "stop_string");
	expect_stop(COMPLETION_THINKING, "k>", "</th", "a</think>d", "R(a)C(d)", "eos");
	/* The blank line before a block is the block's. */
	expect_stop(COMPLETION_CHAT, "\n\n", NULL, "a" CALLS F_OSLO CALLS_END,
		"C(a)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls");
	expect_stop(COMPLETION_CHAT, "\n\n", NULL, "a\n\n", "C(a)", "stop_string");
	/* Not in arguments; and text around a block is not one text. */
	expect_stop(COMPLETION_CHAT, "Oslo", "ab", "a" CALLS F_OSLO CALLS_END "b",
		"C(a)B(f)A({\"city\": \"Oslo\"})E()C(b)",
		"tool_calls");
	expect_stop(COMPLETION_RAW, "</th", NULL, "a</think>", "C(a)", "stop_string");
}

static void test_remarks_have_names(void **state)
{
	struct buf b = { 0 };

	(void)state;
	completion_remarks(COMPLETION_NO_END | COMPLETION_DUP_PARAM | COMPLETION_CONTROL, &b);
	assert_string_equal(buf_str(&b), "no_end,dup_param,control");
	buf_fini(&b);
}

static void test_stop_limits(void **state)
{
	char long_one[1100];
	const char *many[17], *empty[] = { "a", "" }, *big[] = { long_one };
	struct completion_options o = { .stop = many, .n_stop = 17, .emit = play_event };
	struct completion *c = NULL;
	struct buf why = { 0 };
	int i;

	(void)state;
	for (i = 0; i < 17; i++)
		many[i] = "a";
	memset(long_one, 'a', sizeof long_one);
	long_one[sizeof long_one - 1] = '\0';
	assert_int_equal(completion_new(&o, &c, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "stop: 17 strings, at most 16 are allowed");
	o.stop = empty;
	o.n_stop = 2;
	assert_int_equal(completion_new(&o, &c, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "stop[1]: is empty");
	o.stop = big;
	o.n_stop = 1;
	assert_int_equal(completion_new(&o, &c, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "stop[0]: 1099 bytes, at most 1024 are allowed");
	buf_fini(&why);
}

/* ---- JSON as it grows ---- */

static void test_json_prefix(void **state)
{
	static const char *const good[] = { "1", "-0.5e+10", " {\"a\" : [ ] , \"b\":{}} ", "\"\\u00e9\\n\"",
		"[[1,2],[true,null]]", "0" };
	static const char *const bad[] = { "", "01", "[1,]", "{\"a\":}", "{,}", "{1:2}", "tru", "True", "1.",
		"-", "1e", "\"\n\"",
		"\"\\x\"", "[1}", "1 2", "{\"a\":1,}", "[,1]", "\"\\u12g4\"", "nul l", "]", ".5" };
	size_t i, k;

	(void)state;
	for (i = 0; i < mem_countof(good); i++) {
		struct jsonprefix s = { 0 };

		for (k = 0; k < strlen(good[i]); k++)
			assert_true(jsonprefix_put(&s, good[i] + k, 1));
		assert_true(jsonprefix_end(&s));
	}
	for (i = 0; i < mem_countof(bad); i++) {
		struct jsonprefix s = { 0 };

		if (jsonprefix_put(&s, bad[i], strlen(bad[i])) && jsonprefix_end(&s))
			fail_msg("%s was taken for JSON", bad[i]);
	}
}

static void ignore_event(void *arg, const struct completion_event *ev)
{
	(void)arg;
	(void)ev;
}

static void put_after_end(void)
{
	struct completion_options o = { .mode = COMPLETION_CHAT, .emit = ignore_event };
	struct completion_token t = { .bytes = "a", .len = 1 };
	struct completion_verdict v;
	struct completion *c = NULL;

	completion_new(&o, &c, NULL);
	completion_end(c, COMPLETION_EOS, &v);
	completion_put(c, &t);
}

static void test_no_token_after_the_end(void **state)
{
	(void)state;
	child_aborts(put_after_end, "!c->ended");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_split_of_every_case),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_reasoning_and_content),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_arguments_stream),
		cmocka_unit_test(test_repetition),
		cmocka_unit_test(test_no_token_after_the_end),
		cmocka_unit_test(test_which_stop_string),
		cmocka_unit_test(test_stop_strings),
		cmocka_unit_test(test_stop_limits),
		cmocka_unit_test(test_remarks_have_names),
		cmocka_unit_test(test_json_prefix),
	};

	return cmocka_run_group_tests(tests, play_setup, play_teardown);
}
