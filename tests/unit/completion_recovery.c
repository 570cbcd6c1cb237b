/* SPDX-License-Identifier: MIT
 * completion_recovery.c - unit tests of what the completion parser makes of damaged and cut output: its recoveries,
 * as completion.h lists them.
 * Threads: main only. Locks: none. */
#include "engine/text/completion.h"
#include "tests/unit/play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_no_end(void **state)
{
	(void)state;
	play_expect(play_chat_cut, "Hi." CALLS F_OSLO CALLS_END, "C(Hi.)B(f)A({\"city\": \"Oslo\"})E()", "max_tokens",
		COMPLETION_NO_END);
}

static void test_open_think(void **state)
{
	(void)state;
	play_expect(play_thinking, "only thought", "R(only thought)", "only_reasoning", COMPLETION_OPEN_THINK);
}

static void test_stray_markers(void **state)
{
	(void)state;
	play_expect(play_chat, "a</think>b", "C(ab)", "eos", COMPLETION_STRAY_MARKER);
	play_expect(play_thinking, "<think>a</think>b", "R(a)C(b)", "eos", COMPLETION_STRAY_MARKER);
	play_expect(play_chat, "<think>a</think>b", "R(a)C(b)", "eos", COMPLETION_STRAY_MARKER);
	play_expect(play_thinking, "a</think>b</think>c<think>d</think>e", "R(a)C(bc)R(d)C(e)", "eos",
		COMPLETION_STRAY_MARKER);
}

static void test_call_without_tools_is_dropped(void **state)
{
	static const struct play none = { .mode = COMPLETION_CHAT, .no_tools = true };
	static const struct play cut = { .mode = COMPLETION_CHAT, .no_tools = true,
		.why = COMPLETION_MAX_TOKENS };
	static const struct play think = { .mode = COMPLETION_THINKING, .no_tools = true };
	const unsigned flag = COMPLETION_UNOFFERED_CALL;

	(void)state;
	play_expect(none, "Look." CALLS F_OSLO CALLS_END, "C(Look.)", "tool_call_without_tools", flag);
	play_expect(none, CALLS F_OSLO F_OSLO CALLS_END, "", "tool_call_without_tools", flag);
	play_expect(none, "a" CALLS F_OSLO, "C(a)", "tool_call_without_tools", flag);
	play_expect(none, "\n\n" F_OSLO, "", "tool_call_without_tools", flag | COMPLETION_LOOSE);
	play_expect(none, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">x", "",
		"tool_call_without_tools", flag);
	play_expect(cut, "a" CALLS F_OSLO CALLS_END, "C(a)", "max_tokens", flag | COMPLETION_NO_END);
	play_expect(cut, "a" CALLS INVOKE("f"), "C(a)", "max_tokens", flag | COMPLETION_NO_END);
	play_expect(think, "why" CALLS F_OSLO CALLS_END "</think>Hi", "R(why)C(Hi)", "tool_call_without_tools",
		flag | COMPLETION_CALL_IN_THINK | COMPLETION_TEXT_AFTER_CALL);
	play_expect(none, "Hi", "C(Hi)", "eos", 0);
}

/* Behaviours 64, 65: one call, never lost, never twice. */
static void test_call_in_think(void **state)
{
	(void)state;
	play_expect(play_thinking, "why" CALLS F_OSLO CALLS_END, "R(why)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_CALL_IN_THINK | COMPLETION_OPEN_THINK);
	play_expect(play_thinking, "why" CALLS F_OSLO CALLS_END "</think>", "R(why)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls",
		COMPLETION_CALL_IN_THINK);
	play_expect(play_thinking, "why" CALLS F_OSLO CALLS_END "</think>" CALLS F_OSLO CALLS_END,
		"R(why)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", COMPLETION_CALL_IN_THINK | COMPLETION_SECOND_BLOCK);
}

static void test_text_after_call(void **state)
{
	(void)state;
	play_expect(play_chat, "a" CALLS F_OSLO CALLS_END "tail", "C(a)B(f)A({\"city\": \"Oslo\"})E()C(tail)",
		"tool_calls",
		COMPLETION_TEXT_AFTER_CALL);
	play_expect(play_chat, CALLS F_OSLO CALLS_END "\n ", "B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_LOOSE);
}

static void test_duplicate_parameter(void **state)
{
	(void)state;
	play_expect(play_chat, CALLS INVOKE("f") STRING("a", "1") STRING("a", "2") JSON("b", "3")
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"1\", \"b\": 3})E()", "tool_calls", COMPLETION_DUP_PARAM);
}

/* Behaviour 74. */
static void test_cut_call(void **state)
{
	static const char head[] = CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">Par";
	struct completion_verdict v;
	struct play p = play_chat_cut;
	struct play_trace t = { 0 };

	(void)state;
	play_expect(play_chat_cut, head, "B(f)A({\"a\": \"Par)", "incomplete_tool_call",
		COMPLETION_NO_END | COMPLETION_CUT_CALL);
	play_run(&p, head, &t, &v);
	assert_int_equal(v.finish, GEN_LENGTH);
	p.why = COMPLETION_EOS;
	play_run(&p, head, &t, &v);
	assert_int_equal(v.finish, GEN_STOP);
	/* A whole call before it does not make it one. */
	play_run(&p, CALLS F_OSLO INVOKE("g") STRING("b", "1"), &t, &v);
	assert_int_equal(v.finish, GEN_STOP);
	assert_int_equal(v.n_calls, 1);
	assert_string_equal(buf_str(&t.text), "B(f)A({\"city\": \"Oslo\"})E()B(g)A({\"b\": \"1\")");
	buf_fini(&t.text);
	play_expect(play_chat, "a" CALLS F_OSLO, "C(a)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_OPEN_BLOCK);
	play_expect(play_chat_cut, "a\n\n<｜DSML｜tool", "C(a)", "incomplete_tool_call",
		COMPLETION_NO_END | COMPLETION_CUT_CALL);
}

/* Behaviour 61: damaged markup is repaired or reported, neither shown nor silently lost. */
static void test_damaged_markup(void **state)
{
	const unsigned loose = COMPLETION_LOOSE;

	(void)state;
	play_expect(play_chat, "a\n\n<｜DSML｜tool_calls\n" F_OSLO CALLS_END, "C(a)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	play_expect(play_chat, "a\n\n｜DSML｜tool_calls>\n" F_OSLO CALLS_END, "C(a)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	play_expect(play_chat, "a <｜DSML｜function_calls> " F_OSLO "</｜DSML｜function_calls>",
		"C(a )B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	play_expect(play_chat, "a\n\n" F_OSLO, "C(a)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		loose | COMPLETION_OPEN_BLOCK);
	play_expect(play_chat, CALLS INVOKE("f") STRING("a", "1") CALLS_END, "B(f)A({\"a\": \"1\"})E()", "tool_calls",
		loose);
	play_expect(play_chat, CALLS INVOKE("f") STRING("a", "1") F_OSLO CALLS_END,
		"B(f)A({\"a\": \"1\"})E()B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	play_expect(play_chat, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\">1</｜DSML｜parameter>\n"
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"1\"})E()", "tool_calls", loose);
	play_expect(play_chat, CALLS INVOKE("f") "words\n" INVOKE_END INVOKE("g") INVOKE_END CALLS_END,
		"B(f)B(g)A({})E()",
		"incomplete_tool_call", COMPLETION_BAD_CALL);
	play_expect(play_chat, "a<｜DSML｜nonsense x=\"1\">b</｜DSML｜parameter>c", "C(abc)", "eos",
		COMPLETION_BAD_MARKUP | loose);
	play_expect(play_chat, CALLS "words", "C(words)", "eos", COMPLETION_BAD_MARKUP);
	play_expect(play_chat, CALLS CALLS_END, "", "empty", 0);
}

static void test_value_that_is_no_json(void **state)
{
	struct play p = { .mode = COMPLETION_CHAT };
	struct completion_verdict v;
	struct buf text = { 0 };
	struct play_trace t = { 0 };
	int i;

	(void)state;
	play_expect(play_chat, CALLS INVOKE("f") JSON("a", "True") JSON("b", "")
		JSON("c", "[1,]") JSON("d", " 1.5e3 ")
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"True\", \"b\": \"\", \"c\": \"[1,]\", \"d\":  1.5e3 })E()", "tool_calls",
			COMPLETION_BAD_JSON);
	/* Whether it is a string is settled by the first 64 bytes. */
	play_expect(play_chat,
		CALLS INVOKE("f") JSON("a", "[\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", "
				       "\"k\", \"l\"; ]") INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"[\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\", \\\"e\\\", \\\"f\\\", \\\"g\\\", "
		"\\\"h\\\", \\\"i\\\", "
		"\\\"j\\\", \\\"k\\\", \\\"l\\\"; ]\"})E()", "tool_calls", COMPLETION_BAD_JSON);
	play_expect(play_chat,
		CALLS INVOKE("f") JSON("a", "[\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", "
				       "\"k\", \"l\", \"m\"; ]") INVOKE_END CALLS_END,
		"B(f)A({\"a\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", \"l\", "
		"\"m\")", "incomplete_tool_call", COMPLETION_BAD_CALL);
	/* Found out too late: the call is not whole. */
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">[");
	for (i = 0; i < 1000; i++)
		buf_adds(&text, "123456789, ");
	buf_adds(&text, "]</｜DSML｜parameter>\n" INVOKE_END CALLS_END);
	play_run(&p, buf_str(&text), &t, &v);
	assert_int_equal(v.flags, COMPLETION_BAD_CALL);
	assert_int_equal(v.n_calls, 0);
	assert_string_equal(v.detail, "incomplete_tool_call");
	buf_fini(&text);
	buf_fini(&t.text);
}

/* A list of 300 numbers came as one delta, since up to 4096 bytes of it were held. */
static void test_a_long_list_comes_as_it_is_generated(void **state)
{
	(void)state;
	for (int sure = 0; sure < 2; sure++) {
		struct play_trace t = { 0 };
		struct completion_options o = { .mode = COMPLETION_CHAT, .spelled = true, .sure_json = sure,
						.emit = play_event, .arg = &t };
		struct completion_verdict v;
		struct completion *c = NULL;
		struct buf text = { 0 };
		size_t from, held = 0, i;

		buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">");
		from = text.len;
		for (i = 0; i < 300; i++)
			buf_printf(&text, "%s%zu", i ? ", " : "[", i);
		assert_int_equal(completion_new(&o, &c, NULL), 0);
		for (i = 0; i < text.len; i++) {
			completion_put(c, &(struct completion_token){ .bytes = text.data + i, .len = 1 });
			if (i < from)
				continue;
			if (!strchr(buf_str(&t.text), '['))
				held++;
			else
				assert_int_equal(t.text.data[t.text.len - 2], text.data[i]); /* nothing is left
											      * behind */
		}
		assert_int_equal(held, sure ? 0 : 64);
		completion_end(c, COMPLETION_MAX_TOKENS, &v);
		completion_free(&c);
		buf_fini(&text);
		buf_fini(&t.text);
	}
}

/* Behaviour 70: the same with ASCII bars, which only plain tokens can spell. */
static void test_ascii_bars(void **state)
{
	(void)state;
	play_expect(play_chat,
		"a\n\n<|DSML|tool_calls>\n<|DSML|invoke name=\"f\">\n<|DSML|parameter name=\"city\" string=\"true\">"
		"</｜DSML｜parameter></|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>",
		"C(a)B(f)A({\"city\": \"</｜DSML｜parameter>\"})E()", "tool_calls", COMPLETION_LOOSE);
	play_expect(play_chat, "|DSML| |DSM || a|", "C(|DSML| |DSM || a|)", "eos", 0);
}

/* Plain text that spells a marker is not the marker when tokens say so. */
static void test_quoted_think_marker(void **state)
{
	struct completion_token quoted = { .bytes = "the </think> tag", .len = 16 },
		real = { .bytes = "</think>", .len = 8,
		.added = true };
	struct play_trace t = { 0 };
	struct completion_options o = { .mode = COMPLETION_THINKING, .emit = play_event, .arg = &t };
	struct completion_verdict v;
	struct completion *c = NULL;

	(void)state;
	assert_int_equal(completion_new(&o, &c, NULL), 0);
	assert_true(completion_in_reasoning(c));
	completion_put(c, &quoted);
	assert_true(completion_in_reasoning(c));
	completion_put(c, &real);
	assert_false(completion_in_reasoning(c));
	completion_put(c, &quoted);
	completion_end(c, COMPLETION_EOS, &v);
	completion_free(&c);
	assert_string_equal(buf_str(&t.text), "R(the </think> tag)C(the </think> tag)");
	assert_int_equal(v.flags, 0);
	buf_fini(&t.text);
}

static void test_control_tokens_are_not_shown(void **state)
{
	struct play p = { .mode = COMPLETION_CHAT };
	struct completion_verdict v;
	struct play_trace t = { 0 };

	(void)state;
	play_run(&p, "a<｜User｜>b", &t, &v);
	assert_string_equal(buf_str(&t.text), "C(ab)");
	assert_int_equal(v.flags, COMPLETION_CONTROL);
	p.mode = COMPLETION_RAW;
	play_run(&p, "a<｜User｜>b</think>" CALLS, &t, &v);
	assert_string_equal(buf_str(&t.text), "C(ab</think>" CALLS ")");
	buf_fini(&t.text);
}

/* Behaviour 97. */
static void test_characters_over_tokens(void **state)
{
	(void)state;
	play_expect(play_chat, "ď日😀", "C(ď日😀)", "eos", 0);
	play_expect(play_chat, "a\xf0\x9f\x98", "C(a\xef\xbf\xbd)", "eos", 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_end),
		cmocka_unit_test(test_open_think),
		cmocka_unit_test(test_stray_markers),
		cmocka_unit_test(test_call_without_tools_is_dropped),
		cmocka_unit_test(test_call_in_think),
		cmocka_unit_test(test_text_after_call),
		cmocka_unit_test(test_duplicate_parameter),
		cmocka_unit_test(test_cut_call),
		cmocka_unit_test(test_damaged_markup),
		cmocka_unit_test(test_a_long_list_comes_as_it_is_generated),
		cmocka_unit_test(test_value_that_is_no_json),
		cmocka_unit_test(test_ascii_bars),
		cmocka_unit_test(test_quoted_think_marker),
		cmocka_unit_test(test_control_tokens_are_not_shown),
		cmocka_unit_test(test_characters_over_tokens),
	};

	return cmocka_run_group_tests(tests, play_setup, play_teardown);
}
