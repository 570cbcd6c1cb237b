/* SPDX-License-Identifier: MIT
 * completion.c - unit tests of the completion parser: events, recoveries, splits, leaks.
 * Threads: main only. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/completion.h"
#include "engine/text/jsonprefix.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define END "<｜end▁of▁sentence｜>"
#define CALLS "\n\n<｜DSML｜tool_calls>\n"
#define CALLS_END "</｜DSML｜tool_calls>"
#define INVOKE(name) "<｜DSML｜invoke name=\"" name "\">\n"
#define INVOKE_END "</｜DSML｜invoke>\n"
#define STRING(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"true\">" value "</｜DSML｜parameter>\n"
#define JSON(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"false\">" value "</｜DSML｜parameter>\n"
#define F_OSLO INVOKE("f") STRING("city", "Oslo") INVOKE_END

static struct tokenizer *tok;

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

/* ---- writing down what a stream brings: R(..) C(..) B(name) A(..) E, equal neighbours joined ---- */

struct trace {
	struct buf text;
	enum completion_kind kind;
	int n_events;
};

/* Whole ones: the text does not begin with a continuation byte, and the last character has all of its own. */
static void check_characters(const unsigned char *s, size_t len)
{
	size_t i = len, want;

	assert_true((s[0] & 0xc0) != 0x80);
	while (i > 0 && (s[i - 1] & 0xc0) == 0x80)
		i--;
	assert_true(i > 0);
	want = s[i - 1] < 0x80 ? 1 : s[i - 1] < 0xe0 ? 2 : s[i - 1] < 0xf0 ? 3 : 4;
	assert_int_equal(len - i + 1, want);
}

static void trace_event(void *arg, const struct completion_event *ev)
{
	static const char letters[] = "RCBAE";
	struct trace *t = arg;

	if (ev->len)
		check_characters((const unsigned char *)ev->text, ev->len);
	else
		assert_int_equal(ev->kind, COMPLETION_TOOL_END);
	if (t->n_events++ && t->kind == ev->kind && ev->kind != COMPLETION_TOOL_BEGIN)
		t->text.data[--t->text.len] = '\0';
	else
		buf_printf(&t->text, "%c(", letters[ev->kind]);
	buf_add(&t->text, ev->text, ev->len);
	buf_addc(&t->text, ')');
	t->kind = ev->kind;
}

struct play {
	enum completion_mode mode;
	const char *stop[GEN_MAX_STOPS];
	int n_stop;
	bool spelled, no_tools;
	enum completion_why why;
	size_t chunk;              /* bytes at a time; 0: by the tiny tokenizer's tokens */
};

static void play_tokens(struct completion *c, const char *text)
{
	struct token_ids ids = { 0 };
	int i;

	tokenizer_encode(tok, text, strlen(text), true, &ids);
	for (i = 0; i < ids.n; i++) {
		struct completion_token t = { .added = tokenizer_is_added(tok, ids.id[i]),
			.special = tokenizer_is_special(tok, ids.id[i]) };

		t.bytes = tokenizer_bytes(tok, ids.id[i], &t.len);
		if (completion_put(c, &t))
			break;
	}
	token_ids_fini(&ids);
}

static void play_chunks(struct completion *c, const char *text, size_t chunk)
{
	size_t len = strlen(text), i;

	for (i = 0; i < len; i += chunk) {
		struct completion_token t = { .bytes = text + i, .len = len - i < chunk ? len - i : chunk };

		if (completion_put(c, &t))
			break;
	}
}

static void play(const struct play *p, const char *text, struct trace *ret_t,
	struct completion_verdict *ret_v)
{
	struct completion_options o = { .mode = p->mode, .stop = p->stop, .n_stop = p->n_stop,
		.spelled = p->spelled, .no_tools = p->no_tools, .emit = trace_event, .arg = ret_t };
	struct completion *c = NULL;

	buf_clear(&ret_t->text);
	ret_t->n_events = 0;
	assert_int_equal(completion_new(&o, &c, NULL), 0);
	if (p->chunk)
		play_chunks(c, text, p->chunk);
	else
		play_tokens(c, text);
	completion_end(c, p->why, ret_v);
	completion_free(&c);
}

/* By tokens, and spelled in chunks of all small sizes: always the same. */
static void expect(struct play p, const char *text, const char *want, const char *detail, unsigned flags)
{
	struct completion_verdict v;
	struct trace t = { 0 };

	for (p.chunk = 0; p.chunk < 12; p.chunk++) {
		p.spelled = p.chunk > 0;
		play(&p, text, &t, &v);
		assert_string_equal(buf_str(&t.text), want);
		assert_string_equal(v.detail, detail);
		assert_int_equal(v.flags, flags);
	}
	buf_fini(&t.text);
}

static const struct play chat = { .mode = COMPLETION_CHAT }, thinking = { .mode = COMPLETION_THINKING };
static const struct play chat_cut = { .mode = COMPLETION_CHAT, .why = COMPLETION_MAX_TOKENS };

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
	expect(thinking, "\nwhy\n</think>\nHi.\n", "R(\nwhy\n)C(\nHi.\n)", "eos", 0);
	expect(chat, "Hi.", "C(Hi.)", "eos", 0);
	expect(chat, "a < b </ c\n\n<d> é日😀", "C(a < b </ c\n\n<d> é日😀)", "eos", 0);
	expect(thinking, "a\n\n<", "R(a\n\n<)", "only_reasoning", COMPLETION_OPEN_THINK);
	expect(chat, "", "", "empty", 0);
	expect(chat_cut, "Hi", "C(Hi)", "max_tokens", COMPLETION_NO_END);
}

static void test_calls(void **state)
{
	(void)state;
	expect(thinking, "r</think>Look." CALLS F_OSLO INVOKE("g") JSON("n", "[1, {\"a\": \"b\"}]")
		STRING("s", "x\"\n\t\\é") INVOKE_END CALLS_END,
		"R(r)C(Look.)B(f)A({\"city\": \"Oslo\"})E()"
		"B(g)A({\"n\": [1, {\"a\": \"b\"}], \"s\": \"x\\\"\\n\\t\\\\é\"})E()",
		"tool_calls", 0);
	expect(chat, CALLS INVOKE("f") INVOKE_END CALLS_END, "B(f)A({})E()", "tool_calls", 0);
	expect(chat, CALLS INVOKE("f") "\n" INVOKE_END CALLS_END, "B(f)A({})E()", "tool_calls", 0);
	expect(chat, "a\n" CALLS INVOKE("f") STRING("a\" b>", "</｜DSML｜invoke> <｜DSML｜parameter name=\"")
		INVOKE_END CALLS_END,
		"C(a\n)B(f)A({\"a\\\" b>\": \"</｜DSML｜invoke> <｜DSML｜parameter name=\\\"\"})E()",
			"tool_calls", 0);
	expect(chat, CALLS INVOKE("f") STRING("a", "<think></think>|DSML|</|DSML|parameter>")
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"<think></think>|DSML|</|DSML|parameter>\"})E()", "tool_calls", 0);
}

/* Behaviour 67: an argument is passed on while it is generated. */
static void test_arguments_stream(void **state)
{
	struct play p = { .mode = COMPLETION_CHAT };
	struct buf text = { 0 };
	struct completion_verdict v;
	struct trace t = { 0 };
	int i;

	(void)state;
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">");
	for (i = 0; i < 1000; i++)
		buf_adds(&text, "some words ");
	play(&p, buf_str(&text), &t, &v);
	assert_true(t.n_events > 1000);
	assert_string_equal(v.detail, "incomplete_tool_call");
	/* So is long JSON, once it has gone on for a while. */
	buf_clear(&text);
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">[");
	for (i = 0; i < 2000; i++)
		buf_adds(&text, "\"some words\", ");
	play(&p, buf_str(&text), &t, &v);
	assert_true(t.n_events > 1000);
	buf_fini(&text);
	buf_fini(&t.text);
}

/* ---- recoveries: completion.h lists them ---- */

static void test_no_end(void **state)
{
	(void)state;
	expect(chat_cut, "Hi." CALLS F_OSLO CALLS_END, "C(Hi.)B(f)A({\"city\": \"Oslo\"})E()", "max_tokens",
		COMPLETION_NO_END);
}

static void test_open_think(void **state)
{
	(void)state;
	expect(thinking, "only thought", "R(only thought)", "only_reasoning", COMPLETION_OPEN_THINK);
}

static void test_stray_markers(void **state)
{
	(void)state;
	expect(chat, "a</think>b", "C(ab)", "eos", COMPLETION_STRAY_MARKER);
	expect(thinking, "<think>a</think>b", "R(a)C(b)", "eos", COMPLETION_STRAY_MARKER);
	expect(chat, "<think>a</think>b", "R(a)C(b)", "eos", COMPLETION_STRAY_MARKER);
	expect(thinking, "a</think>b</think>c<think>d</think>e", "R(a)C(bc)R(d)C(e)", "eos",
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
	expect(none, "Look." CALLS F_OSLO CALLS_END, "C(Look.)", "tool_call_without_tools", flag);
	expect(none, CALLS F_OSLO F_OSLO CALLS_END, "", "tool_call_without_tools", flag);
	expect(none, "a" CALLS F_OSLO, "C(a)", "tool_call_without_tools", flag);
	expect(none, "\n\n" F_OSLO, "", "tool_call_without_tools", flag | COMPLETION_LOOSE);
	expect(none, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">x", "",
		"tool_call_without_tools", flag);
	expect(cut, "a" CALLS F_OSLO CALLS_END, "C(a)", "max_tokens", flag | COMPLETION_NO_END);
	expect(cut, "a" CALLS INVOKE("f"), "C(a)", "max_tokens", flag | COMPLETION_NO_END);
	expect(think, "why" CALLS F_OSLO CALLS_END "</think>Hi", "R(why)C(Hi)", "tool_call_without_tools",
		flag | COMPLETION_CALL_IN_THINK | COMPLETION_TEXT_AFTER_CALL);
	expect(none, "Hi", "C(Hi)", "eos", 0);
}

/* Behaviours 64, 65: one call, never lost, never twice. */
static void test_call_in_think(void **state)
{
	(void)state;
	expect(thinking, "why" CALLS F_OSLO CALLS_END, "R(why)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_CALL_IN_THINK | COMPLETION_OPEN_THINK);
	expect(thinking, "why" CALLS F_OSLO CALLS_END "</think>", "R(why)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls",
		COMPLETION_CALL_IN_THINK);
	expect(thinking, "why" CALLS F_OSLO CALLS_END "</think>" CALLS F_OSLO CALLS_END,
		"R(why)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", COMPLETION_CALL_IN_THINK | COMPLETION_SECOND_BLOCK);
}

static void test_text_after_call(void **state)
{
	(void)state;
	expect(chat, "a" CALLS F_OSLO CALLS_END "tail", "C(a)B(f)A({\"city\": \"Oslo\"})E()C(tail)",
		"tool_calls",
		COMPLETION_TEXT_AFTER_CALL);
	expect(chat, CALLS F_OSLO CALLS_END "\n ", "B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_LOOSE);
}

static void test_duplicate_parameter(void **state)
{
	(void)state;
	expect(chat, CALLS INVOKE("f") STRING("a", "1") STRING("a", "2") JSON("b", "3") INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"1\", \"b\": 3})E()", "tool_calls", COMPLETION_DUP_PARAM);
}

/* Behaviour 74. */
static void test_cut_call(void **state)
{
	static const char head[] = CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"true\">Par";
	struct completion_verdict v;
	struct play p = chat_cut;
	struct trace t = { 0 };

	(void)state;
	expect(chat_cut, head, "B(f)A({\"a\": \"Par)", "incomplete_tool_call",
		COMPLETION_NO_END | COMPLETION_CUT_CALL);
	play(&p, head, &t, &v);
	assert_int_equal(v.finish, GEN_LENGTH);
	p.why = COMPLETION_EOS;
	play(&p, head, &t, &v);
	assert_int_equal(v.finish, GEN_STOP);
	/* A whole call before it does not make it one. */
	play(&p, CALLS F_OSLO INVOKE("g") STRING("b", "1"), &t, &v);
	assert_int_equal(v.finish, GEN_STOP);
	assert_int_equal(v.n_calls, 1);
	assert_string_equal(buf_str(&t.text), "B(f)A({\"city\": \"Oslo\"})E()B(g)A({\"b\": \"1\")");
	buf_fini(&t.text);
	expect(chat, "a" CALLS F_OSLO, "C(a)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		COMPLETION_OPEN_BLOCK);
	expect(chat_cut, "a\n\n<｜DSML｜tool", "C(a)", "incomplete_tool_call",
		COMPLETION_NO_END | COMPLETION_CUT_CALL);
}

/* Behaviour 61: damaged markup is repaired or reported, neither shown nor silently lost. */
static void test_damaged_markup(void **state)
{
	const unsigned loose = COMPLETION_LOOSE;

	(void)state;
	expect(chat, "a\n\n<｜DSML｜tool_calls\n" F_OSLO CALLS_END, "C(a)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	expect(chat, "a\n\n｜DSML｜tool_calls>\n" F_OSLO CALLS_END, "C(a)B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	expect(chat, "a <｜DSML｜function_calls> " F_OSLO "</｜DSML｜function_calls>",
		"C(a )B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	expect(chat, "a\n\n" F_OSLO, "C(a)B(f)A({\"city\": \"Oslo\"})E()", "tool_calls",
		loose | COMPLETION_OPEN_BLOCK);
	expect(chat, CALLS INVOKE("f") STRING("a", "1") CALLS_END, "B(f)A({\"a\": \"1\"})E()", "tool_calls",
		loose);
	expect(chat, CALLS INVOKE("f") STRING("a", "1") F_OSLO CALLS_END,
		"B(f)A({\"a\": \"1\"})E()B(f)A({\"city\": \"Oslo\"})E()",
		"tool_calls", loose);
	expect(chat, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\">1</｜DSML｜parameter>\n"
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"1\"})E()", "tool_calls", loose);
	expect(chat, CALLS INVOKE("f") "words\n" INVOKE_END INVOKE("g") INVOKE_END CALLS_END,
		"B(f)B(g)A({})E()",
		"incomplete_tool_call", COMPLETION_BAD_CALL);
	expect(chat, "a<｜DSML｜nonsense x=\"1\">b</｜DSML｜parameter>c", "C(abc)", "eos",
		COMPLETION_BAD_MARKUP | loose);
	expect(chat, CALLS "words", "C(words)", "eos", COMPLETION_BAD_MARKUP);
	expect(chat, CALLS CALLS_END, "", "empty", 0);
}

static void test_value_that_is_no_json(void **state)
{
	struct play p = { .mode = COMPLETION_CHAT };
	struct completion_verdict v;
	struct buf text = { 0 };
	struct trace t = { 0 };
	int i;

	(void)state;
	expect(chat, CALLS INVOKE("f") JSON("a", "True") JSON("b", "") JSON("c", "[1,]") JSON("d", " 1.5e3 ")
		INVOKE_END CALLS_END,
		"B(f)A({\"a\": \"True\", \"b\": \"\", \"c\": \"[1,]\", \"d\":  1.5e3 })E()", "tool_calls",
			COMPLETION_BAD_JSON);
	/* Found out too late: the call is not whole. */
	buf_adds(&text, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">[");
	for (i = 0; i < 1000; i++)
		buf_adds(&text, "123456789, ");
	buf_adds(&text, "]</｜DSML｜parameter>\n" INVOKE_END CALLS_END);
	play(&p, buf_str(&text), &t, &v);
	assert_int_equal(v.flags, COMPLETION_BAD_CALL);
	assert_int_equal(v.n_calls, 0);
	assert_string_equal(v.detail, "incomplete_tool_call");
	buf_fini(&text);
	buf_fini(&t.text);
}

/* Behaviour 70: the same with ASCII bars, which only plain tokens can spell. */
static void test_ascii_bars(void **state)
{
	(void)state;
	expect(chat,
		"a\n\n<|DSML|tool_calls>\n<|DSML|invoke name=\"f\">\n<|DSML|parameter name=\"city\" string=\"true\">"
		"</｜DSML｜parameter></|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>",
		"C(a)B(f)A({\"city\": \"</｜DSML｜parameter>\"})E()", "tool_calls", COMPLETION_LOOSE);
	expect(chat, "|DSML| |DSM || a|", "C(|DSML| |DSM || a|)", "eos", 0);
}

/* Plain text that spells a marker is not the marker when tokens say so. */
static void test_quoted_think_marker(void **state)
{
	struct completion_token quoted = { .bytes = "the </think> tag", .len = 16 },
		real = { .bytes = "</think>", .len = 8,
		.added = true };
	struct trace t = { 0 };
	struct completion_options o = { .mode = COMPLETION_THINKING, .emit = trace_event, .arg = &t };
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
	struct trace t = { 0 };

	(void)state;
	play(&p, "a<｜User｜>b", &t, &v);
	assert_string_equal(buf_str(&t.text), "C(ab)");
	assert_int_equal(v.flags, COMPLETION_CONTROL);
	p.mode = COMPLETION_RAW;
	play(&p, "a<｜User｜>b</think>" CALLS, &t, &v);
	assert_string_equal(buf_str(&t.text), "C(ab</think>" CALLS ")");
	buf_fini(&t.text);
}

/* Behaviour 97. */
static void test_characters_over_tokens(void **state)
{
	(void)state;
	expect(chat, "ď日😀", "C(ď日😀)", "eos", 0);
	expect(chat, "a\xf0\x9f\x98", "C(a\xef\xbf\xbd)", "eos", 0);
}

/* ---- stop strings ---- */

static void expect_stop(enum completion_mode mode, const char *stop1, const char *stop2, const char *text,
	const char *want,
	const char *detail)
{
	struct play p = { .mode = mode, .stop = { stop1, stop2 }, .n_stop = stop2 ? 2 : 1 };
	struct completion_verdict v;
	struct trace t = { 0 };

	for (p.chunk = 0; p.chunk < 12; p.chunk++) {
		p.spelled = p.chunk > 0;
		play(&p, text, &t, &v);
		assert_string_equal(buf_str(&t.text), want);
		assert_string_equal(v.detail, detail);
	}
	buf_fini(&t.text);
}

/* Behaviours 99, 100, 101. */
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
	struct completion_options o = { .stop = many, .n_stop = 17, .emit = trace_event };
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

static int setup(void **state)
{
	struct buf path = { 0 };
	int rc;

	(void)state;
	buf_printf(&path, "%s/etc/tiny/tokenizer.json", getenv("top_srcdir") ? getenv("top_srcdir") : ".");
	rc = tokenizer_open(buf_str(&path), &tok, NULL);
	buf_fini(&path);
	return rc;
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

static int teardown(void **state)
{
	(void)state;
	tokenizer_free(&tok);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_split_of_every_case),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_reasoning_and_content),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_arguments_stream),
		cmocka_unit_test(test_no_end),
		cmocka_unit_test(test_no_token_after_the_end),
		cmocka_unit_test(test_open_think),
		cmocka_unit_test(test_stray_markers),
		cmocka_unit_test(test_call_without_tools_is_dropped),
		cmocka_unit_test(test_call_in_think),
		cmocka_unit_test(test_text_after_call),
		cmocka_unit_test(test_duplicate_parameter),
		cmocka_unit_test(test_cut_call),
		cmocka_unit_test(test_damaged_markup),
		cmocka_unit_test(test_value_that_is_no_json),
		cmocka_unit_test(test_ascii_bars),
		cmocka_unit_test(test_quoted_think_marker),
		cmocka_unit_test(test_control_tokens_are_not_shown),
		cmocka_unit_test(test_characters_over_tokens),
		cmocka_unit_test(test_stop_strings),
		cmocka_unit_test(test_stop_limits),
		cmocka_unit_test(test_remarks_have_names),
		cmocka_unit_test(test_json_prefix),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
