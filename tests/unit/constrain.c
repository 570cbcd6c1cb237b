/* SPDX-License-Identifier: MIT
 * constrain.c - tests of what answers must be: the grammar of JSON, tokens that fit it, random answers that are it.
 * Threads: main. */
#include "tests/unit/constrainkit.h"
#include "engine/base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct constraint_options any_object = { .calls = GEN_CALLS_NONE, .format = GEN_FORMAT_JSON_OBJECT };

/* Whole, and of every prefix at least that it can go on. */
static void accepted(const struct constraint_options *o, const char *text)
{
	bool end;
	size_t n = constrainkit_follow(o, text, strlen(text), &end);

	if (n != strlen(text) || !end)
		fail_msg("'%s' was taken up to '%s', %s", text, text + n, end ? "may end" : "may not end");
}

/* The text is good up to `good`, and the byte there is not. */
static void refused(const struct constraint_options *o, const char *good, const char *bad)
{
	struct buf text = { 0 };
	bool end;
	size_t n;

	buf_adds(&text, good);
	buf_adds(&text, bad);
	n = constrainkit_follow(o, text.data, text.len, &end);
	if (n != strlen(good))
		fail_msg("'%s' was taken up to '%s', not '%s'", text.data, text.data + n, bad);
	buf_fini(&text);
}

static void any_json_object_is_accepted(void **state)
{
	static const char *const good[] = {
		"{}", "{ }", "{\"a\":1}", "{\"a\": -1.5e+10, \"b\": [], \"\": {}}",
			"{\"a\":[1, \"x\", null, true, false]}",
		"{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}", "{\"\\u00e9\\ud83d\\ude00\\n\\/\":\"é€😀\"}",
		"{\"a\":0,\"a\":-0.0,\"b\":1E2}", "{\"\\u0001\":\"\\u0fff\\uD7ff\\uE000\"}",
		"{\"a\":{\"b\":{\"c\":[[[[[[[[]]]]]]]]}}}",
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(good); i++)
		accepted(&any_object, good[i]);
}

static void a_byte_that_json_cannot_have_is_refused(void **state)
{
	static const struct { const char *good, *bad; } rows[] = {
		{ "", " {}" }, { "", "[]" }, { "", "\"" }, { "{", "a" }, { "{\"a\"", "}" }, { "{\"a\":1,", "}" },
		{ "{\"a\":0", "1}" }, { "{\"a\":", "+1" }, { "{\"a\":1.", "e1" }, { "{\"a\":-", "a" },
		{ "{\"a\":\"", "\n\"}" }, { "{\"a\":\"", "\x01" }, { "{\"a\":\"\\", "x" }, { "{\"a\":\"\\u00", "g" },
		{ "{\"a\":\"\\u000", "0" }, { "{\"a\":\"\\ud800", "x" }, { "{\"a\":\"\\uD", "c00" },
		{ "{\"a\":\"\\ud800\\u", "0041" }, { "{\"a\":\"\\ud800\\ud", "7ff" }, { "{\"a\":\"", "\x80" },
			{ "{\"a\":\"", "\xc0\x80" },
		{ "{\"a\":\"\xe0", "\x80" }, { "{\"a\":\"\xed", "\xa0\x80" }, { "{\"a\":\"\xf4", "\x90" },
		{ "{\"a\":\"\xe2\x82", "\"" }, { "{\"a\":t", "t" }, { "{}", " " }, { "{}", "{" }, { "{\"a\":[1", "}" },
		{ "{\"a\":[", ",1]" }, { "{'", "" }, { "{\"a\":NaN", "" },
	};

	(void)state;
	for (size_t i = 0; i + 2 < mem_countof(rows); i++)
		refused(&any_object, rows[i].good, rows[i].bad);
	refused(&any_object, "{", "'");
	refused(&any_object, "{\"a\":", "NaN");
}

static void white_space_and_digits_come_to_an_end(void **state)
{
	struct buf text = { 0 };

	(void)state;
	refused(&any_object, "{ ", " ");
	refused(&any_object, "{", "\t");
	refused(&any_object, "{\n", "\n");
	buf_adds(&text, "{\r\n");
	for (int i = 0; i < 64; i++)
		buf_adds(&text, i % 2 ? " " : "\t");
	refused(&any_object, buf_str(&text), " }");
	buf_adds(&text, "}");
	accepted(&any_object, buf_str(&text));
	buf_clear(&text);
	buf_adds(&text, "{\"a\":1");
	for (int i = 1; i < 18; i++)
		buf_adds(&text, "0");
	refused(&any_object, buf_str(&text), "0");
	buf_fini(&text);
}

static void nesting_comes_to_an_end(void **state)
{
	struct buf text = { 0 };

	(void)state;
	buf_adds(&text, "{\"a\":");
	for (int i = 0; i < 47; i++)
		buf_adds(&text, "[");
	refused(&any_object, buf_str(&text), "[");
	for (int i = 0; i < 47; i++)
		buf_adds(&text, "]");
	buf_adds(&text, "}");
	accepted(&any_object, buf_str(&text));
	buf_fini(&text);
}

/* ---- documents that others wrote ---- */

static json_t *random_value(unsigned *seed, int depth)
{
	static const char *const strings[] = { "", "a", "quote \" and \\", "tab\t, line\n, bell\x07",
		"é € 😀", "</｜DSML｜>", "\x7f" };
	json_t *v;

	switch (constrainkit_rand(seed, depth > 0 ? 8 : 5)) {
	case 0:
		return json_string(strings[constrainkit_rand(seed, mem_countof(strings))]);
	case 1:
		return json_integer((json_int_t)constrainkit_rand(seed, 1u << 24) - (1 << 23));
	case 2:
		return json_real(((double)constrainkit_rand(seed, 1u << 24) - (1 << 23)) / 1024);
	case 3:
		return json_boolean(constrainkit_rand(seed, 2));
	case 4:
		return json_null();
	case 5:
		v = json_array();
		for (unsigned n = constrainkit_rand(seed, 4); n > 0; n--)
			json_array_append_new(v, random_value(seed, depth - 1));
		return v;
	default:
		v = json_object();
		for (unsigned n = constrainkit_rand(seed, 4); n > 0; n--)
			json_object_set_new(v, strings[constrainkit_rand(seed, mem_countof(strings))],
					    random_value(seed, depth - 1));
		return v;
	}
}

static void what_a_json_library_writes_is_accepted(void **state)
{
	static const size_t how[] = { 0, JSON_COMPACT, JSON_INDENT(2), JSON_INDENT(8) | JSON_ENSURE_ASCII,
		JSON_ESCAPE_SLASH };
	unsigned seed = 5;

	(void)state;
	for (int i = 0; i < 300; i++) {
		json_t *v = json_object();
		char *text;

		json_object_set_new(v, "v", random_value(&seed, 4));
		text = json_dumps(v, how[(size_t)i % mem_countof(how)]);
		accepted(&any_object, text);
		free(text);
		json_decref(v);
	}
}

/* ---- tokens ---- */

static void random_objects(const struct constrainkit *k, int n)
{
	unsigned seed = 1;

	for (int i = 0; i < n; i++) {
		struct buf text = { 0 };
		json_error_t e;
		json_t *v;

		constrainkit_random(k, &any_object, &seed, 40, &text, NULL);
		v = json_loadb(buf_str(&text), text.len, 0, &e);
		if (!v)
			fail_msg("%s: %.*s", e.text, (int)text.len, text.data);
		json_decref(v);
		buf_fini(&text);
	}
}

static void random_tokens_of_the_tiny_model_make_objects(void **state)
{
	(void)state;
	random_objects(constrainkit_tiny(), 40);
}

static void random_tokens_of_flash_make_objects(void **state)
{
	(void)state;
	random_objects(constrainkit_flash(), 10);
}

/* Does the grammar take the text and then the token? */
static bool fits(const struct constrainkit *k, const struct constraint_options *o, const char *at, int32_t t)
{
	struct buf text = { 0 };
	size_t len;
	const char *b = tokenizer_bytes(k->tokenizer, t, &len);
	bool end, is;

	/* Of added tokens only the marker of tags, here that of the value's closing tag. */
	if (tokenizer_is_added(k->tokenizer, t))
		return t == tokenizer_added(k->tokenizer, "｜DSML｜") && o->tools &&
			strcmp(at + strlen(at) - 2, "</") == 0;
	buf_adds(&text, at);
	buf_add(&text, b, len);
	is = len > 0 && constrainkit_follow(o, text.data, text.len, &end) == text.len;
	buf_fini(&text);
	return is;
}

static void check_mask(const struct constrainkit *k, const struct constraint_options *o, const char *at)
{
	struct constraint *c = NULL;
	struct token_ids ids = { 0 };
	struct buf why = { 0 };
	const uint64_t *mask;
	int n_allowed = 0;

	assert_int_equal(constraint_new(k->vocab, o, &c, &why), 0);
	assert_int_equal(tokenizer_encode(k->tokenizer, at, strlen(at), true, &ids), 0);
	for (int i = 0; i < ids.n; i++)
		constraint_take(c, ids.id[i]);
	assert_int_equal(constraint_mask(c, &mask, &why), 0);
	for (int32_t t = 2; t < k->n; t++) {
		bool allowed = mask[t / 64] >> (t % 64) & 1;

		if (fits(k, o, at, t) != allowed)
			fail_msg("after '%s' token %d: %d", at, t, allowed);
		n_allowed += allowed;
	}
	assert_true(n_allowed > 1);
	token_ids_fini(&ids);
	constraint_free(&c);
}

/* Every token alone: it is in the mask if and only if the grammar takes all its bytes. */
static void the_mask_is_what_the_grammar_takes_token_by_token(void **state)
{
	static const char *const object[] = { "", "{", "{\"a", "{\"a\\", "{\"a\":[1", "{\"a\":\"x" };
	static const char *const counted[] = { "\"", "\"a", "\"abcdefg", "\"éé" };
	static const char *const lengths[] = { "", "\"", "\"abc", "\"abcd", "\"abcdefgh" };
	static const char call[] = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
		"<｜DSML｜parameter name=\"s\" string=\"true\">";
	static const char *const text[] = { "", "x", "x<", "x</", "abcdefgh" };
	json_t *schema = constrainkit_json("{'type':'string','minLength':2,'maxLength':9}");
	json_t *several = constrainkit_json("{'anyOf':[{'type':'string','maxLength':4},{'type':'string','maxLength':9},"
		"{'type':'string','minLength':3,'maxLength':5},{'type':'integer'}]}");
	json_t *tools = constrainkit_json("[{'function':{'name':'f','parameters':{'properties':{'s':{'type':'string',"
		"'maxLength':9}},"
		"'required':['s']}}}]");
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint_options overlap = constrainkit_schema(several);
	struct constraint_options calls = { .calls = GEN_CALLS_REQUIRED, .tools = tools };

	(void)state;
	for (size_t i = 0; i < mem_countof(object); i++)
		check_mask(constrainkit_tiny(), &any_object, object[i]);
	for (size_t i = 0; i < mem_countof(counted); i++)
		check_mask(constrainkit_tiny(), &o, counted[i]);
	for (size_t i = 0; i < mem_countof(lengths); i++)
		check_mask(constrainkit_tiny(), &overlap, lengths[i]);
	for (size_t i = 0; i < mem_countof(text); i++) {
		struct buf at = { 0 };

		buf_printf(&at, "%s%s", call, text[i]);
		check_mask(constrainkit_tiny(), &calls, buf_str(&at));
		buf_fini(&at);
	}
	json_decref(schema);
	json_decref(several);
	json_decref(tools);
}

/* A string of so many counted characters that states are forgotten on the way: the masks stay those of a constraint
 * that was never asked before. */
static void what_is_forgotten_changes_no_mask(void **state)
{
	const struct constrainkit *k = constrainkit_tiny();
	json_t *schema = constrainkit_json("{'items':{'type':'string','minLength':9000,'maxLength':9990}}");
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint *asked = NULL, *fresh = NULL;
	struct token_ids ids = { 0 };
	struct buf why = { 0 };
	const uint64_t *a, *b;
	int n = 0;

	(void)state;
	for (const char *p = "[\"a]"; *p; p++)
		assert_int_equal(tokenizer_encode(k->tokenizer, p, 1, false, &ids), 0);
	assert_int_equal(ids.n, 4);
	assert_int_equal(constraint_new(k->vocab, &o, &asked, &why), 0);
	assert_int_equal(constraint_new(k->vocab, &o, &fresh, &why), 0);
	for (int i = 0; i < 9980; i++) {
		int32_t t = ids.id[i < 2 ? i : 2];

		assert_int_equal(constraint_mask(asked, &a, &why), 0);
		if (i % 300 == 299 || i > 9970) {
			assert_int_equal(constraint_mask(fresh, &b, &why), 0);
			assert_memory_equal(a, b, (size_t)(k->n / 64) * sizeof *a);
			n++;
		}
		assert_true(a[t / 64] >> (t % 64) & 1);
		constraint_take(asked, t);
		constraint_take(fresh, t);
	}
	assert_true(n > 30);
	/* And what is around the string is still known. */
	constraint_take(asked, ids.id[1]);
	assert_int_equal(constraint_mask(asked, &a, &why), 0);
	assert_true(a[ids.id[3] / 64] >> (ids.id[3] % 64) & 1);
	assert_false(a[0] >> 1 & 1);
	constraint_free(&asked);
	constraint_free(&fresh);
	token_ids_fini(&ids);
	json_decref(schema);
}

/* Reasoning may be anything but an end or a tag; the answer begins after </think>. */
static void the_answer_begins_after_the_reasoning(void **state)
{
	const struct constrainkit *k = constrainkit_tiny();
	struct constraint_options o = any_object;
	int32_t close = tokenizer_added(k->tokenizer, "</think>"), open = tokenizer_added(k->tokenizer, "<think>");
	int32_t dsml = tokenizer_added(k->tokenizer, "｜DSML｜"), brace = -1;
	struct constraint *c = NULL;
	struct buf why = { 0 };
	const uint64_t *m;

	(void)state;
	o.thinking = true;
	assert_int_equal(constraint_new(k->vocab, &o, &c, &why), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(constraint_mask(c, &m, &why), 0);
		assert_true(m[close / 64] >> (close % 64) & 1);
		assert_false(m[0] >> 1 & 1);
		assert_false(m[open / 64] >> (open % 64) & 1);
		assert_false(m[dsml / 64] >> (dsml % 64) & 1);
		for (int32_t t = 0; t < k->n; t++)
			if (!tokenizer_is_added(k->tokenizer, t) && !(m[t / 64] >> (t % 64) & 1))
				fail_msg("token %d is not allowed in reasoning", t);
		constraint_take(c, 300 + i);
	}
	constraint_take(c, close);
	assert_int_equal(constraint_mask(c, &m, &why), 0);
	for (int32_t t = 0; t < k->n; t++) {
		size_t len;
		const char *b = tokenizer_bytes(k->tokenizer, t, &len);

		brace = len == 1 && *b == '{' ? t : brace;
		assert_false((m[t / 64] >> (t % 64) & 1) && *b != '{');
	}
	assert_true(m[brace / 64] >> (brace % 64) & 1);
	constraint_free(&c);
}

static int test_done(void **state)
{
	(void)state;
	constrainkit_done();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_json_object_is_accepted),
		cmocka_unit_test(a_byte_that_json_cannot_have_is_refused),
		cmocka_unit_test(white_space_and_digits_come_to_an_end),
		cmocka_unit_test(nesting_comes_to_an_end),
		cmocka_unit_test(what_a_json_library_writes_is_accepted),
		cmocka_unit_test(the_mask_is_what_the_grammar_takes_token_by_token),
		cmocka_unit_test(what_is_forgotten_changes_no_mask),
		cmocka_unit_test(the_answer_begins_after_the_reasoning),
		cmocka_unit_test(random_tokens_of_the_tiny_model_make_objects),
		cmocka_unit_test(random_tokens_of_flash_make_objects),
	};

	return cmocka_run_group_tests(tests, NULL, test_done);
}
