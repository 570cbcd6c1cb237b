/* SPDX-License-Identifier: MIT
 * tokenizer.c - vectors of the Hugging Face library, degenerate texts, hostile files, streaming.
 * Threads: main, and a few that encode at once. Locks: none. */
#include "engine/text/tokenizer.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "tests/vectors.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST_LONG 1000000

static struct tokenizer *test_tiny, *test_v4;

static const char *test_path(char out[512], const char *name)
{
	const char *top = getenv("top_srcdir");

	snprintf(out, 512, "%s/%s", top ? top : ".", name);
	return out;
}

static int test_setup(void **state)
{
	struct buf text = { 0 }, why = { 0 };
	char path[512];

	(void)state;
	assert_int_equal(tokenizer_open(test_path(path, "etc/tiny/tokenizer.json"), &test_tiny, &why), 0);
	assert_int_equal(
		vectors_read(test_path(path, "tests/data/tokenizer/deepseek_v4_tokenizer.json.gz"), &text),
		0);
	assert_int_equal(tokenizer_parse(buf_str(&text), text.len, "v4", &test_v4, &why), 0);
	buf_fini(&text);
	buf_fini(&why);
	return 0;
}

static int test_teardown(void **state)
{
	(void)state;
	tokenizer_free(&test_tiny);
	tokenizer_free(&test_v4);
	return 0;
}

/* ---- equal to the library ---- */

static void test_vectors_tiny(void **state)
{
	char tokenizer[512], file[512];

	(void)state;
	assert_int_equal(vectors_tokenizer(test_path(tokenizer, "etc/tiny/tokenizer.json"),
					   test_path(file, "tests/data/tokenizer/vectors_tiny.json.gz")),
			 0);
}

static void test_vectors_v4(void **state)
{
	char tokenizer[512], file[512];

	(void)state;
	assert_int_equal(
		vectors_tokenizer(test_path(tokenizer, "tests/data/tokenizer/deepseek_v4_tokenizer.json.gz"),
				  test_path(file, "tests/data/tokenizer/vectors_v4.json.gz")),
		0);
}

/* Encodes and checks against ids, which end with -1. */
static void test_ids(const struct tokenizer *t, const char *text, bool added, const int32_t *want)
{
	struct token_ids got = { 0 };
	int n = 0;

	assert_int_equal(tokenizer_encode(t, text, strlen(text), added, &got), 0);
	for (; want[n] >= 0; n++) {
		assert_true(n < got.n);
		assert_int_equal(got.id[n], want[n]);
	}
	assert_int_equal(got.n, n);
	token_ids_fini(&got);
}

/* From the library, version 0.23.3: characters that are newer than the Unicode of PCRE2 10.42, and U+180E,
 * which is a blank for PCRE2 alone. */
static void test_recent_unicode(void **state)
{
	(void)state;
	test_ids(test_v4, "a \xF0\x9F\xAB\xA8!", true, (const int32_t[]){ 67, 7351, 107, 104, 3, -1 });
	test_ids(test_v4, "hi \xF0\xB1\x8D\x90\xC3\xA9 x", true,
		 (const int32_t[]){ 6366, 86387, 112, 238, 241, 619, 1527, -1 });
	test_ids(test_v4, "x \xF0\x91\xBC\x82\xE4\xB8\xAD", true,
		 (const int32_t[]){ 90, 86387, 242, 123, 227, 525, -1 });
	test_ids(test_v4, "1\xF0\x90\xB5\x80\xD9\xA2 4", true,
		 (const int32_t[]){ 19, 120577, 116, 225, 76647, 223, 22, -1 });
	test_ids(test_v4, "\xE1\xA0\x8E a", true, (const int32_t[]){ 115522, 239, 260, -1 });
	test_ids(test_v4, "a \xE1\xA0\x8E\xE1\xA0\x8E b", true,
		 (const int32_t[]){ 67, 223, 115522, 239, 115522, 239, 291, -1 });
	test_ids(test_v4, ".\xE1\xAD\x8Ez", true, (const int32_t[]){ 16, 160, 258, 239, 92, -1 });
}

static void test_control_tokens(void **state)
{
	const char *text = "a<\xEF\xBD\x9CUser\xEF\xBD\x9C>b</think>";
	struct token_ids ids = { 0 };
	int32_t user = tokenizer_added(test_v4, "<\xEF\xBD\x9CUser\xEF\xBD\x9C>");
	size_t len;

	(void)state;
	assert_int_equal(user, 128803);
	assert_int_equal(tokenizer_added(test_v4, "</think>"), 128822);
	assert_int_equal(tokenizer_added(test_v4, "</thin"), -1);
	assert_true(tokenizer_is_added(test_v4, user));
	assert_false(tokenizer_is_special(test_v4, user));
	assert_true(tokenizer_is_special(test_v4, 0));
	assert_false(tokenizer_is_added(test_v4, 100));
	assert_int_equal(tokenizer_encode(test_v4, text, strlen(text), true, &ids), 0);
	assert_int_equal(ids.n, 4);
	assert_int_equal(ids.id[1], user);
	assert_int_equal(ids.id[3], 128822);
	ids.n = 0;
	assert_int_equal(tokenizer_encode(test_v4, text, strlen(text), false, &ids), 0);
	for (int i = 0; i < ids.n; i++)
		assert_false(tokenizer_is_added(test_v4, ids.id[i]));
	assert_string_equal(tokenizer_bytes(test_v4, -1, &len), "");
	assert_int_equal(len, 0);
	assert_string_equal(tokenizer_bytes(test_v4, tokenizer_vocab(test_v4), &len), "");
	token_ids_fini(&ids);
}

/* ---- long texts of one kind: none may take quadratic time, and all must come back as they went in ---- */

static void test_round_trip(const struct tokenizer *t, const char *text, size_t len)
{
	struct token_ids ids = { 0 };
	struct buf back = { 0 }, want = { 0 };

	assert_int_equal(tokenizer_encode(t, text, len, false, &ids), 0);
	tokenizer_decode(t, ids.id, ids.n, false, &back);
	utf8_repair(text, len, &want);
	assert_int_equal(back.len, want.len);
	assert_memory_equal(buf_str(&back), buf_str(&want), want.len);
	token_ids_fini(&ids);
	buf_fini(&back);
	buf_fini(&want);
}

static void test_degenerate(void **state)
{
	static const char *const unit[] = { "a",    " ", "\n",   "7",         "ab", "!",
					    "\x01", "<", " \n",  "a\xCC\x81", "'s", "\xE4\xB8\xAD",
					    "\xFF", "<\xEF\xBD\x9C",           "\xF0\x9F\x98\x80" };
	struct buf text = { 0 };

	(void)state;
	for (size_t i = 0; i < mem_countof(unit); i++) {
		buf_clear(&text);
		while (text.len < TEST_LONG)
			buf_adds(&text, unit[i]);
		test_round_trip(test_v4, buf_str(&text), text.len);
	}
	buf_fini(&text);
}

static uint32_t test_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Bytes that are often the beginnings, middles and ends of characters. */
static size_t test_bytes(uint32_t *seed, char out[64])
{
	static const unsigned char pick[] = { 'a',  ' ',  '\n', '1',  0x80, 0xBF, 0xC2, 0xC3, 0xE0,
					      0xA0, 0xE4, 0xB8, 0xAD, 0xED, 0x9F, 0xF0, 0x90, 0x9F,
					      0x98, 0xF4, 0x8F, 0xF5, 0xFF, 0xC0, 0,    '<' };
	size_t n = test_random(seed) % 24;

	for (size_t i = 0; i < n; i++)
		out[i] = (char)pick[test_random(seed) % sizeof pick];
	return n;
}

/* One tokenizer, several threads at once. */
static void *test_thread(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg;
	char s[64];

	for (int i = 0; i < 500; i++) {
		struct token_ids ids = { 0 };
		struct buf back = { 0 };
		size_t n = test_bytes(&seed, s);

		must(tokenizer_encode(test_v4, s, n, i % 2, &ids) == 0);
		tokenizer_decode(test_v4, ids.id, ids.n, true, &back);
		token_ids_fini(&ids);
		buf_fini(&back);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t thread[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		must_zero(pthread_create(&thread[i], NULL, test_thread, (void *)(i + 1)));
	for (int i = 0; i < 4; i++)
		must_zero(pthread_join(thread[i], NULL));
}

static void test_any_bytes(void **state)
{
	uint32_t seed = 1;
	char s[64];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		size_t n = test_bytes(&seed, s);

		test_round_trip(test_tiny, s, n);
	}
}

/* ---- UTF-8 ---- */

/* Every way to cut the bytes in two, and byte by byte, gives what the whole gives. */
static void test_stream_splits(void **state)
{
	uint32_t seed = 7;
	char s[64];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t n = test_bytes(&seed, s);
		struct buf whole = { 0 };

		utf8_repair(s, n, &whole);
		assert_int_equal(utf8_valid(buf_str(&whole), whole.len), whole.len);
		for (size_t cut = 0; cut <= n + 1; cut++) {
			struct utf8_stream stream = { 0 };
			struct buf got = { 0 };

			for (size_t i = 0; cut > n && i < n; i++)
				utf8_stream_put(&stream, s + i, 1, &got);
			if (cut <= n) {
				utf8_stream_put(&stream, s, cut, &got);
				assert_int_equal(utf8_valid(buf_str(&got), got.len), got.len);
				utf8_stream_put(&stream, s + cut, n - cut, &got);
			}
			utf8_stream_end(&stream, &got);
			assert_string_equal(buf_str(&got), buf_str(&whole));
			assert_int_equal(got.len, whole.len);
			buf_fini(&got);
		}
		buf_fini(&whole);
	}
}

static void test_repair_maximal_parts(void **state)
{
	/* The example of the Unicode standard, table 3-8; split where a letter would go on with the escape. */
	const char *in = "a\xF1\x80\x80\xE1\x80\xC2" "b\x80" "c\x80\xBF" "d";
	struct buf out = { 0 };

	(void)state;
	utf8_repair(in, strlen(in), &out);
	assert_string_equal(buf_str(&out), "a" UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT
					   "b" UTF8_REPLACEMENT "c" UTF8_REPLACEMENT UTF8_REPLACEMENT "d");
	buf_fini(&out);
}

static void test_every_character(void **state)
{
	char s[4];
	size_t len;

	(void)state;
	for (uint32_t c = 0; c <= 0x10FFFF; c++) {
		size_t n = (size_t)utf8_put(c, s);
		bool surrogate = c >= 0xD800 && c <= 0xDFFF;

		assert_int_equal(utf8_step(s, n, &len) == UTF8_VALID, !surrogate);
		assert_int_equal(len, surrogate ? 1 : n);
		assert_int_equal(utf8_get(s, n), c);
		if (n > 1 && !surrogate)
			assert_int_equal(utf8_step(s, n - 1, &len), UTF8_CUT);
	}
}

/* Too long for their character, or beyond the last one: each byte is replaced. */
static void test_overlong(void **state)
{
	static const char *const bad[] = { "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",
					   "\xE0\x9F\xBF",     "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
					   "\xF5\x80\x80\x80", "\xED\xA0\x80",     "\xFE\xFF" };

	(void)state;
	for (size_t i = 0; i < mem_countof(bad); i++) {
		struct buf out = { 0 };

		utf8_repair(bad[i], strlen(bad[i]), &out);
		assert_int_equal(out.len, 3 * strlen(bad[i]));
		buf_fini(&out);
	}
}

/* ---- hostile files ---- */

/* A whole small file: the 256 bytes, then what the case adds. */
struct test_file {
	const char *vocab, *merges, *added, *pre_tokenizer, *rest;
};

static void test_write(struct buf *out, const struct test_file *f)
{
	buf_printf(out, "{\"added_tokens\":[%s],\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":%s,",
		   f->added ? f->added : "",
		   f->pre_tokenizer ? f->pre_tokenizer
				    : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
	buf_printf(out, "%s\"model\":{\"type\":\"BPE\",\"merges\":[%s],\"vocab\":{", f->rest ? f->rest : "",
		   f->merges ? f->merges : "");
	for (unsigned b = 0, letter = 0x100; b < 256; b++) {
		bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;

		buf_printf(out, "\"\\u%04x\":%u%s", prints ? b : letter, b, b < 255 ? "," : "");
		letter += !prints;
	}
	buf_printf(out, "%s}}}", f->vocab ? f->vocab : "");
}

/* Parses; on failure the message must contain `says`. */
static struct tokenizer *test_parse(const struct test_file *f, const char *says)
{
	struct buf text = { 0 }, why = { 0 };
	struct tokenizer *t = NULL;
	int rc;

	test_write(&text, f);
	rc = tokenizer_parse(buf_str(&text), text.len, "t.json", &t, &why);
	assert_int_equal(rc, says ? RC_MODEL : 0);
	if (says && !strstr(buf_str(&why), says))
		fail_msg("\"%s\" does not say \"%s\"", buf_str(&why), says);
	if (says)
		assert_memory_equal(buf_str(&why), "t.json: ", 8);
	buf_fini(&text);
	buf_fini(&why);
	return t;
}

#define STEP(more) \
	"{\"type\":\"Sequence\",\"pretokenizers\":[" more ",{\"type\":\"ByteLevel\",\"use_regex\":false}]}"
#define SPLIT(regex) \
	STEP("{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"" regex "\"}}")

static void test_refused(void **state)
{
	static const struct {
		struct test_file f;
		const char *says;
	} c[] = {
		{ { .vocab = ",\"zz\":5" }, "model.vocab: id 5" },
		{ { .vocab = ",\"a\":300" }, "model.vocab: id 300" },
		{ { .vocab = ",\"zz\":99999999" }, "model.vocab: id 99999999" },
		{ { .vocab = ",\"zz\":-1" }, "model.vocab: expected a count" },
		{ { .vocab = ",\"zz\":\"1\"" }, "model.vocab: expected a count" },
		{ { .vocab = ",\"zz\":1e3" }, "model.vocab" },
		{ { .vocab = ",\"\\ud800\":300" }, "model.vocab: bad escape" },
		{ { .vocab = ",\"\xFF\":300" }, "not UTF-8" },
		{ { .merges = "\"ab\"" }, "model.merges[0]: expected" },
		{ { .merges = "[\"a\"]" }, "model.merges[0]: expected" },
		{ { .merges = "[\"a\",\"b\",\"c\"]" }, "model.merges[0]: expected" },
		{ { .merges = "7" }, "model.merges[0]: expected" },
		{ { .merges = "\"a b\"" }, "model.merges[0]: the result is not" },
		{ { .merges = "\"qq b\"" }, "model.merges[0]: its left side" },
		{ { .merges = "[\"a\",\"\"]" }, "model.merges[0]: its right side" },
		{ { .added = "7" }, "added_tokens[0]" },
		{ { .added = "{\"id\":300}" }, "added_tokens[0].content: missing" },
		{ { .added = "{\"content\":\"x\"}" }, "added_tokens[0].id: missing" },
		{ { .added = "{\"id\":300,\"content\":\"\"}" }, "added_tokens[0].content: 0 bytes" },
		{ { .added = "{\"id\":300,\"content\":7}" }, "added_tokens[0].content: expected a string" },
		{ { .added = "{\"id\":300,\"content\":\"q!\",\"special\":1}" },
		  "added_tokens[0].special: expected true" },
		{ { .added = "{\"id\":300,\"content\":\"q!\",\"lstrip\":true}" },
		  "added_tokens[0].lstrip: true is not" },
		{ { .added = "{\"id\":5,\"content\":\"q!\"}" },
		  "added_tokens[0].id: 5 is the id of another" },
		{ { .added = "{\"id\":97,\"content\":\"b\"}" },
		  "added_tokens[0].content: the token has id 98" },
		{ { .added = "{\"id\":97,\"content\":\"a\"}" }, "no plain token for byte 0x61" },
		{ { .added = "{\"id\":300,\"content\":\"q!\"},{\"id\":300,\"content\":\"q!\"}" },
		  "added_tokens[1].content" },
		{ { .added = "{\"id\":300,\"id\":300,\"content\":\"q!\"}" },
		  "added_tokens[0].*: a second member" },
		{ { .rest = "\"normalizer\":{\"type\":\"NFC\"}," }, "normalizer.type: only \"Sequence\"" },
		{ { .rest = "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}," },
		  "normalizing" },
		{ { .rest = "\"model\":7," }, "a second member" },
		{ { .pre_tokenizer = "null" }, "pre_tokenizer: missing" },
		{ { .pre_tokenizer = "{\"type\":\"Whitespace\"}" }, "pre_tokenizer.type: only" },
		{ { .pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[]}" }, "only byte-level" },
		{ { .pre_tokenizer = SPLIT("(") }, "pre_tokenizer.pattern: missing closing parenthesis" },
		{ { .pre_tokenizer = SPLIT("a*") }, "can match nothing" },
		{ { .pre_tokenizer = SPLIT("[a[b]]") }, "class inside a class" },
		{ { .pre_tokenizer = SPLIT("\\\\h") }, "this escape" },
		{ { .pre_tokenizer = SPLIT("(*UTF)a") }, "(* is not supported" },
		{ { .pre_tokenizer = SPLIT("\\\\p{L") }, "\\p without a name" },
		{ { .pre_tokenizer = SPLIT("\\\\p{Nonsense}") }, "pre_tokenizer.pattern" },
		{ { .pre_tokenizer = STEP(
			    "{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{\"String\":\" \"}}") },
		  "Isolated" },
		{ { .pre_tokenizer = STEP("{\"type\":\"Split\",\"behavior\":\"Isolated\"}") },
		  "pre_tokenizer.pattern: missing" },
		{ { .pre_tokenizer = STEP("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}") },
		  "a step after ByteLevel" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(c); i++)
		assert_null(test_parse(&c[i].f, c[i].says));
}

static void test_not_a_tokenizer(void **state)
{
	static const char *const text[] = {
		"", "{", "[]", "{}", "null", "{\"model\":{}}", "{\"a\":1}x", "{\"a\":\"\x01\"}"
	};
	struct buf deep = { 0 }, why = { 0 };
	struct tokenizer *t = NULL;

	(void)state;
	for (size_t i = 0; i < mem_countof(text); i++)
		assert_int_equal(tokenizer_parse(text[i], strlen(text[i]), "t.json", &t, NULL), RC_MODEL);
	buf_adds(&deep, "{\"a\":");
	for (int i = 0; i < 100000; i++)
		buf_addc(&deep, '[');
	assert_int_equal(tokenizer_parse(buf_str(&deep), deep.len, "t.json", &t, &why), RC_MODEL);
	assert_string_equal(buf_str(&why), "t.json: JSON: nested too deeply (byte 37)");
	assert_true(tokenizer_open("/nonexistent/tokenizer.json", &t, &why) < 0);
	buf_fini(&deep);
	buf_fini(&why);
}

/* A merge that ends in an added token is never made in plain text. */
static void test_merge_into_control(void **state)
{
	const struct test_file f = { .vocab = ",\"<x\":256,\"<x>\":257",
				     .merges = "\"< x\",[\"<x\",\">\"]",
				     .added = "{\"id\":257,\"content\":\"<x>\",\"special\":true}",
				     .pre_tokenizer = SPLIT("~") };
	struct tokenizer *t = test_parse(&f, NULL);

	(void)state;
	test_ids(t, "<x>", false, (const int32_t[]){ 256, '>', -1 });
	test_ids(t, "<x>", true, (const int32_t[]){ 257, -1 });
	tokenizer_free(&t);
}

/* Of several added tokens the leftmost wins, and there the longest; those to be matched after normalising
 * come last. */
static void test_added_order(void **state)
{
	const struct test_file f = {
		.added = "{\"id\":300,\"content\":\"ab\"},{\"id\":301,\"content\":\"abc\"},"
			 "{\"id\":302,\"content\":\"bcd\"},{\"id\":303,\"content\":\"zabc\",\"normalized\":"
			 "true}",
		.pre_tokenizer = SPLIT("~")
	};
	struct tokenizer *t = test_parse(&f, NULL);

	(void)state;
	test_ids(t, "abcd", true, (const int32_t[]){ 301, 'd', -1 });
	test_ids(t, "abbcd", true, (const int32_t[]){ 300, 302, -1 });
	test_ids(t, "zabc", true, (const int32_t[]){ 'z', 301, -1 });
	test_ids(t, "zab", true, (const int32_t[]){ 'z', 300, -1 });
	test_ids(t, "abc", false, (const int32_t[]){ 'a', 'b', 'c', -1 });
	tokenizer_free(&t);
}

/* A pattern that needs a deep stack: beyond the JIT's the interpreter goes on, beyond its own is an error. */
static void test_deep_pattern(void **state)
{
	const struct test_file f = { .pre_tokenizer = SPLIT("(?:(a|b)(?=.))+b") };
	struct tokenizer *t = test_parse(&f, NULL);
	struct buf text = { 0 };
	struct token_ids ids = { 0 };

	(void)state;
	for (int i = 0; i < 100000; i++)
		buf_addc(&text, 'a');
	buf_adds(&text, "bb");
	test_round_trip(t, buf_str(&text), text.len);
	while (text.len < TEST_LONG)
		buf_addc(&text, 'a');
	buf_adds(&text, "bb");
	token_ids_add(&ids, 7);
	assert_int_equal(tokenizer_encode(t, buf_str(&text), text.len, false, &ids), RC_TOO_LARGE);
	assert_int_equal(ids.n, 1);
	token_ids_fini(&ids);
	buf_fini(&text);
	tokenizer_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors_tiny),
		cmocka_unit_test(test_vectors_v4),
		cmocka_unit_test(test_recent_unicode),
		cmocka_unit_test(test_control_tokens),
		cmocka_unit_test(test_degenerate),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_stream_splits),
		cmocka_unit_test(test_repair_maximal_parts),
		cmocka_unit_test(test_every_character),
		cmocka_unit_test(test_overlong),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_not_a_tokenizer),
		cmocka_unit_test(test_merge_into_control),
		cmocka_unit_test(test_added_order),
		cmocka_unit_test(test_deep_pattern),
	};

	return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
