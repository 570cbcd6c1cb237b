/* SPDX-License-Identifier: MIT
 * dsml_stream.c - what a client of a stream puts together is what a client of the whole answer gets: for every case of
 * markup, good and damaged, cut into pieces at every byte, and ended at every byte.
 * Threads: main only, and an idle engine's. Locks: none. */
#include "api/chat/chat.h"
#include "api/chat/chat_stream.h"
#include "engine/base/mem.h"
#include "engine/serve/generation_put.h"
#include "engine/text/completion.h"
#include "tests/unit/play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct engine *engine;

/* An answer's text: all of it at once, in two pieces, or byte by byte; ended by the model or cut off. */
struct answer_text {
	const char *text;
	size_t len;
	bool thinking, no_tools, ended;
};

/* ---- from bytes to events, as the engine does it ---- */

static void emit(void *arg, const struct completion_event *ev)
{
	static const enum gen_event_kind kinds[] = {
		[COMPLETION_REASONING] = GEN_EV_REASONING,
		[COMPLETION_CONTENT] = GEN_EV_CONTENT,
		[COMPLETION_TOOL_ARGS] = GEN_EV_TOOL_ARGS,
	};
	char id[GENERATION_ID_MAX];

	if (ev->kind == COMPLETION_TOOL_BEGIN)
		generation_put_tool(arg, ev->call, ev->text, ev->len, id);
	else if (ev->kind == COMPLETION_TOOL_END)
		generation_put_tool_end(arg, ev->call);
	else
		generation_put_text(arg, kinds[ev->kind], ev->call, ev->text, ev->len);
}

/* Takes what is there; true after the last event. */
typedef bool drain_f(void *arg, struct generation *g);

/* `piece` bytes at a time; 0: `at` bytes, then the rest. Drained after each. */
static void run(const struct answer_text *a, size_t piece, size_t at, drain_f *drain, void *arg)
{
	struct generation *g = generation_new(&(struct generation_setup){ .id = "chatcmpl-1" }), *ours = g;
	struct completion_options o = { .mode = a->thinking ? COMPLETION_THINKING : COMPLETION_CHAT, .spelled = true,
		.no_tools = a->no_tools, .emit = emit, .arg = g };
	struct completion_verdict v;
	struct completion *c = NULL;

	assert_int_equal(completion_new(&o, &c, NULL), 0);
	for (size_t i = 0, n; i < a->len; i += n) {
		n = piece ? piece : i < at ? at : a->len;
		n = n < a->len - i ? n : a->len - i;
		completion_put(c, &(struct completion_token){ .bytes = a->text + i, .len = n });
		assert_false(drain(arg, g));
	}
	completion_end(c, a->ended ? COMPLETION_EOS : COMPLETION_MAX_TOKENS, &v);
	completion_free(&c);
	generation_finish(g, v.finish, 0, v.detail);
	assert_true(drain(arg, g));
	generation_release(&ours);
	generation_unref(&g);
}

static bool drain_to_stream(void *arg, struct generation *g)
{
	void **s = arg; /* the stream and its bytes */
	struct gen_event ev;
	bool end = false;

	while (!end && generation_next(g, &ev)) {
		end = ev.kind == GEN_EV_FINISH;
		chat_stream_event(s[0], 0, &ev, s[1]);
		gen_event_fini(&ev);
	}
	return end;
}

static bool drain_to_whole(void *arg, struct generation *g)
{
	struct gen_event ev;
	bool end = false;

	while (!end && generation_next(g, &ev))
		end = collect_add(arg, &ev);
	return end;
}

/* ---- what a client puts together of a stream ---- */

#define CLIENT_CALLS 8

struct client {
	struct buf content, reasoning, arguments[CLIENT_CALLS];
	json_t *said; /* {finish_reason, finish_detail, calls: [{name}]} */
	size_t n_calls;
};

static void take_text(struct buf *b, const json_t *o, const char *key)
{
	const json_t *more = json_object_get(o, key);

	buf_add(b, json_string_value(more), json_string_length(more));
}

static void take_call(struct client *c, const json_t *delta)
{
	const json_t *f = json_object_get(delta, "function");
	size_t index = (size_t)json_integer_value(json_object_get(delta, "index"));

	if (json_object_get(delta, "id")) {
		assert_int_equal(index, c->n_calls++);
		json_array_append_new(json_object_get(c->said, "calls"),
			json_pack("{s:O}", "name", json_object_get(f, "name")));
	}
	assert_true(index < c->n_calls && index < CLIENT_CALLS);
	take_text(&c->arguments[index], f, "arguments");
}

static void take_chunk(struct client *c, const json_t *chunk)
{
	const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0), *call;
	const json_t *delta = json_object_get(choice, "delta");
	size_t i;

	assert_null(json_object_get(c->said, "finish_reason")); /* nothing comes after it */
	take_text(&c->content, delta, "content");
	take_text(&c->reasoning, delta, "reasoning_content");
	json_array_foreach (json_object_get(delta, "tool_calls"), i, call)
		take_call(c, call);
	if (json_is_string(json_object_get(choice, "finish_reason"))) {
		json_object_set(c->said, "finish_reason", json_object_get(choice, "finish_reason"));
		json_object_set(c->said, "finish_detail", json_object_get(choice, "finish_detail"));
	}
}

static void take_stream(struct client *c, const struct buf *sse)
{
	const char *at = buf_str(sse), *end;

	for (; strncmp(at, "data: [DONE]\n\n", 14) != 0; at = end + 2) {
		json_t *chunk;

		assert_memory_equal(at, "data: ", 6);
		end = memchr(at, '\n', sse->len - (size_t)(at - sse->data));
		assert_true(end && end[1] == '\n');
		chunk = json_loadb(at + 6, (size_t)(end - at) - 6, 0, NULL);
		assert_non_null(chunk);
		take_chunk(c, chunk);
		json_decref(chunk);
	}
	assert_string_equal(at, "data: [DONE]\n\n");
}

static void set_text(json_t *o, const char *key, struct buf *b)
{
	json_object_set_new(o, key, json_stringn(buf_str(b), b->len));
	buf_fini(b);
}

/* {content, reasoning_content, calls: [{name, arguments}], finish_reason, finish_detail} */
static json_t *client_of(const struct buf *sse)
{
	struct client c = { .said = json_pack("{s:[]}", "calls") };

	take_stream(&c, sse);
	set_text(c.said, "content", &c.content);
	set_text(c.said, "reasoning_content", &c.reasoning);
	for (size_t i = 0; i < c.n_calls; i++)
		set_text(json_array_get(json_object_get(c.said, "calls"), i), "arguments", &c.arguments[i]);
	return c.said;
}

static json_t *streamed(const struct answer_text *a, size_t piece, size_t at)
{
	struct chat_stream s = { .head = { engine, "chatcmpl-1", 0 }, .n = 1 };
	struct buf out = { 0 };
	json_t *o;

	chat_stream_begin(&s, &out);
	run(a, piece, at, drain_to_stream, (void *[]){ &s, &out });
	chat_stream_end(&s, &(struct gen_usage){ 0 }, &out);
	o = client_of(&out);
	chat_stream_fini(&s);
	buf_fini(&out);
	return o;
}

/* ---- the comparison ---- */

static const char *string_at(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* A whole answer has whole calls only; a stream has begun those too that were cut off, and then never says
 * tool_calls. */
static void expect_like_whole(const struct answer_text *a, const json_t *got)
{
	struct collect c = { 0 };
	json_t *whole, *choice, *m, *calls, *all = json_object_get(got, "calls");
	size_t seen = 0;

	run(a, 0, a->len, drain_to_whole, &c);
	whole = chat_response(&(struct openai_head){ engine, "chatcmpl-1", 0 }, &c, 1, &(struct gen_usage){ 0 });
	choice = json_array_get(json_object_get(whole, "choices"), 0);
	m = json_object_get(choice, "message");
	calls = json_object_get(m, "tool_calls");
	assert_string_equal(string_at(got, "content"), string_at(m, "content"));
	assert_string_equal(string_at(got, "reasoning_content"), string_at(m, "reasoning_content"));
	assert_string_equal(string_at(got, "finish_reason"), string_at(choice, "finish_reason"));
	assert_string_equal(string_at(got, "finish_detail"), string_at(choice, "finish_detail"));
	for (size_t i = 0; i < json_array_size(all) && seen < json_array_size(calls); i++) {
		const json_t *f = json_object_get(json_array_get(calls, seen), "function");

		seen += json_equal(f, json_array_get(all, i));
	}
	assert_int_equal(seen, json_array_size(calls));
	if (json_array_size(all) > seen)
		assert_string_not_equal(string_at(got, "finish_reason"), "tool_calls");
	assert_null(strstr(string_at(got, "content"), "｜DSML｜"));
	assert_null(strstr(string_at(got, "reasoning_content"), "｜DSML｜"));
	json_decref(whole);
	collect_fini(&c);
}

/* Sanitizers make it ten times slower: then fewer of the places where it is cut. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUT_STEP 5
#else
#define CUT_STEP 1
#endif

/* At once, byte by byte, and in two pieces cut at every step-th byte. */
static void expect_same_in_pieces(const struct answer_text *a, size_t step)
{
	json_t *once = streamed(a, 0, a->len), *again = streamed(a, 1, 0);

	expect_like_whole(a, once);
	assert_true(json_equal(once, again));
	json_decref(again);
	for (size_t at = 1; at < a->len; at += step * CUT_STEP) {
		again = streamed(a, 0, at);
		if (!json_equal(once, again))
			fail_msg("cut at %zu: %.*s", at, (int)a->len, a->text);
		json_decref(again);
	}
	json_decref(once);
}

/* And the same for what is left when it ends at any byte. */
static void expect_same_cut_off(struct answer_text a)
{
	size_t len = a.len;

	a.ended = false;
	for (a.len = 1; a.len < len; a.len += CUT_STEP)
		expect_same_in_pieces(&a, a.len);
}

static void test_official_cases(void **state)
{
	struct buf path = { 0 };
	json_t *all, *c;
	size_t i;

	(void)state;
	buf_printf(&path, "%s/tests/data/encoding_vectors.json", getenv("top_srcdir") ? getenv("top_srcdir") : ".");
	all = json_load_file(buf_str(&path), 0, NULL);
	json_array_foreach (json_object_get(all, "decode"), i, c) {
		struct answer_text a = { .text = string_at(c, "text"),
			.thinking = !strcmp(string_at(c, "thinking_mode"), "thinking") };
		const char *end = strstr(a.text, END);

		a.len = end ? (size_t)(end - a.text) : strlen(a.text);
		a.ended = end != NULL;
		expect_same_in_pieces(&a, 1);
		expect_same_cut_off(a);
	}
	assert_int_equal(i, 16);
	json_decref(all);
	buf_fini(&path);
}

static void test_damaged_cases(void **state)
{
	static const struct answer_text cases[] = {
#define CASE(text, thinking, no_tools) { text, sizeof text - 1, thinking, no_tools, true },
		CASE("a</think>b", false, false)
		CASE("<think>a</think>b</think>c<think>d</think>e", true, false)
		CASE("Look." CALLS F_OSLO CALLS_END, false, true)
		CASE("why" CALLS F_OSLO CALLS_END, true, false)
		CASE("why" CALLS F_OSLO CALLS_END "</think>" CALLS F_OSLO CALLS_END, true, false)
		CASE("a" CALLS F_OSLO CALLS_END "tail", false, false)
		CASE(CALLS INVOKE("f") STRING("a", "1") STRING("a", "2") JSON("b", "3") INVOKE_END CALLS_END, false,
			false)
		CASE(CALLS F_OSLO INVOKE("g") STRING("b", "1"), false, false)
		CASE("a\n\n<｜DSML｜tool_calls\n" F_OSLO CALLS_END, false, false)
		CASE("a\n\n｜DSML｜tool_calls>\n" F_OSLO CALLS_END, false, false)
		CASE("a <｜DSML｜function_calls> " F_OSLO "</｜DSML｜function_calls>", false, false)
		CASE("a\n\n" F_OSLO, false, false)
		CASE(CALLS INVOKE("f") STRING("a", "1") F_OSLO CALLS_END, false, false)
		CASE(CALLS INVOKE("f") "words\n" INVOKE_END INVOKE("g") INVOKE_END CALLS_END, false, false)
		CASE("a<｜DSML｜nonsense x=\"1\">b</｜DSML｜parameter>c", false, false)
		CASE(CALLS "words", false, false)
		CASE(CALLS CALLS_END, false, false)
		CASE(CALLS INVOKE("f") JSON("a", "True") JSON("b", "") JSON("c", "[1,]") INVOKE_END CALLS_END, false,
			false)
		CASE("a\n\n<|DSML|tool_calls>\n<|DSML|invoke name=\"f\">\n<|DSML|parameter name=\"a\" string=\"true\">"
			"1</|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>", false, false)
		CASE("ď日😀 a\xf0\x9f\x98", false, false)
		CASE("why ď</think>日" CALLS INVOKE("f") STRING("ď", "日😀\"\\\n") JSON("n", "[1, {\"a\": null}]")
			INVOKE_END CALLS_END, true, false)
#undef CASE
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(cases); i++) {
		expect_same_in_pieces(&cases[i], 1);
		expect_same_cut_off(cases[i]);
	}
}

/* Every text that is a byte short of a good one, or has one twice. */
static void test_a_byte_too_few_or_too_many(void **state)
{
	static const char good[] = "Hm." CALLS INVOKE("f") STRING("a", "x<y") JSON("n", "2") INVOKE_END CALLS_END;

	(void)state;
	for (size_t i = 0; i < 2 * strlen(good); i++) {
		struct buf b = { 0 };
		size_t at = i / 2;

		buf_add(&b, good, at + i % 2);
		buf_adds(&b, good + at + !(i % 2));
		expect_same_in_pieces(&(struct answer_text){ .text = b.data, .len = b.len, .ended = true }, 23);
		buf_fini(&b);
	}
}

/* Behaviour 67: a long argument comes as it is generated, not when it closes. */
static void test_a_long_argument_comes_in_many_deltas(void **state)
{
	struct chat_stream s = { .head = { engine, "chatcmpl-1", 0 }, .n = 1 };
	struct buf text = { 0 }, out = { 0 };
	json_t *got;
	int deltas = 0;

	(void)state;
	buf_adds(&text, CALLS INVOKE("write") "<｜DSML｜parameter name=\"body\" string=\"true\">");
	while (text.len < 50 << 10)
		buf_adds(&text, "int main(void) { return \"ď\"[0]; }\n");
	buf_adds(&text, "</｜DSML｜parameter>\n" INVOKE_END CALLS_END);
	chat_stream_begin(&s, &out);
	run(&(struct answer_text){ .text = text.data, .len = text.len, .ended = true }, 4, 0, drain_to_stream,
		(void *[]){ &s, &out });
	chat_stream_end(&s, &(struct gen_usage){ 0 }, &out);
	for (const char *at = buf_str(&out); (at = strstr(at, "\"arguments\"")); at++)
		deltas++;
	assert_true(deltas > 50 * 1024 / 4 * 9 / 10); /* nearly every token makes one */
	got = client_of(&out);
	assert_string_equal(string_at(got, "finish_reason"), "tool_calls");
	assert_true(strlen(string_at(json_array_get(json_object_get(got, "calls"), 0), "arguments")) > 50 << 10);
	json_decref(got);
	chat_stream_fini(&s);
	buf_fini(&text);
	buf_fini(&out);
}

static int setup(void **state)
{
	struct buf dir = { 0 };
	int rc;

	(void)state;
	buf_printf(&dir, "%s/etc/tiny", getenv("top_srcdir") ? getenv("top_srcdir") : ".");
	rc = engine_open(&(struct engine_options){ .model_dir = buf_str(&dir), .n_threads = 1 }, &engine, NULL);
	buf_fini(&dir);
	return rc;
}

static int teardown(void **state)
{
	(void)state;
	engine_close(&engine);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_official_cases),
		cmocka_unit_test(test_damaged_cases),
		cmocka_unit_test(test_a_byte_too_few_or_too_many),
		cmocka_unit_test(test_a_long_argument_comes_in_many_deltas),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
