/* SPDX-License-Identifier: MIT
 * recall.c - tests of recall.c: whose reasoning is given back, and how much of it.
 * Threads: one. */
#include "engine/base/must.h"
#include "engine/serve/recall_put.h"
#include "engine/serve/record_put.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tokenizer *tokenizer;

static int begin(void **state)
{
	const char *top = getenv("top_srcdir");
	char path[4096];

	(void)state;
	snprintf(path, sizeof path, "%s/etc/tiny/tokenizer.json", top ? top : ".");
	return tokenizer_open(path, &tokenizer, NULL);
}

static int end(void **state)
{
	(void)state;
	tokenizer_free(&tokenizer);
	return 0;
}

/* An answer that thought "hm" `hms` times, and made the calls whose ids are separated by blanks. Returns the tokens of
 * its output. */
static int answered(struct ring *g, const char *id, const char *label, int hms, const char *calls)
{
	struct record_setup s = { .kset = "ref" };
	struct buf messages = { 0 }, prompt = { 0 }, text = { 0 };
	struct token_ids tokens = { 0 }, out = { 0 };
	struct gen_usage u = { 0 };
	struct record *r;
	char *list = strdup(calls), *save = NULL;
	int n;

	snprintf(s.view.id, sizeof s.view.id, "%s", id);
	snprintf(s.view.label, sizeof s.view.label, "%s", label);
	s.messages = &messages;
	s.prompt = &prompt;
	s.tokens = &tokens;
	token_ids_add(&tokens, tokenizer_added(tokenizer, "<think>"));
	r = record_new(&s);
	for (int i = 0; i < hms; i++)
		buf_adds(&text, "hm");
	must(tokenizer_encode(tokenizer, text.data, text.len, false, &out) >= 0);
	token_ids_add(&out, tokenizer_added(tokenizer, "</think>"));
	for (int i = 0; i < out.n; i++)
		record_token(r, &(struct record_token){ out.id[i], "", 0, 0 }, &u);
	for (char *c = strtok_r(list, " ", &save); c; c = strtok_r(NULL, " ", &save))
		record_call(r, c);
	ring_put(g, r);
	record_finished(r, GEN_STOP, 0, "eos");
	ring_finished(g, r);
	record_unref(&r);
	n = out.n;
	token_ids_fini(&out);
	buf_fini(&text);
	free(list);
	return n;
}

static void expect(struct recall *r, const char *call, const char *want)
{
	struct buf got = { 0 };

	assert_int_equal(recall_reasoning(r, call, &got), want != NULL);
	assert_string_equal(buf_str(&got), want ? want : "");
	buf_fini(&got);
}

static void reasoning_is_not_told_to_another_key(void **state)
{
	static const char *const others[] = { "http:bob", "http", "http:alic", "probe", "" };
	struct ring *g = ring_new(8, 1 << 20);
	struct recall *r;

	(void)state;
	answered(g, "a", "http:alice", 2, "call_a");
	answered(g, "b", "http", 1, "call_open");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		r = recall_new(g, tokenizer, others[i], 1000);
		expect(r, "call_a", NULL);
		expect(r, "call_open", strcmp(others[i], "http") ? NULL : "hm");
		recall_free(&r);
	}
	r = recall_new(g, tokenizer, "http:alice", 1000);
	expect(r, "call_open", NULL);
	expect(r, "call_a", "hmhm");
	recall_free(&r);
	ring_free(&g);
}

/* Thousands of messages that named one call were each given the whole answer: gigabytes of a body of megabytes. */
static void naming_one_call_many_times_fills_it_once(void **state)
{
	struct ring *g = ring_new(8, 1 << 20);
	struct buf got = { 0 };
	struct recall *r;
	int found = 0;

	(void)state;
	answered(g, "a", "http", 100, "call_1 call_2");
	r = recall_new(g, tokenizer, "http", 1000);
	for (int i = 0; i < 8000; i++)
		found += recall_reasoning(r, "call_1", &got);
	assert_int_equal(found, 1);
	assert_int_equal(got.len, 200);
	/* Its other calls have their own. */
	assert_true(recall_reasoning(r, "call_2", &got));
	assert_int_equal(got.len, 400);
	buf_fini(&got);
	recall_free(&r);
	ring_free(&g);
}

static void no_more_is_filled_than_a_context_holds(void **state)
{
	struct ring *g = ring_new(8, 1 << 20);
	struct recall *r;
	int n;

	(void)state;
	n = answered(g, "a", "http", 3, "call_1 call_2 call_3");
	answered(g, "b", "http", 9000, "call_long");
	r = recall_new(g, tokenizer, "http", 2 * n + 1);
	expect(r, "call_long", NULL);
	expect(r, "call_1", "hmhmhm");
	expect(r, "call_2", "hmhmhm");
	expect(r, "call_3", NULL);
	recall_free(&r);
	ring_free(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasoning_is_not_told_to_another_key),
		cmocka_unit_test(naming_one_call_many_times_fills_it_once),
		cmocka_unit_test(no_more_is_filled_than_a_context_holds),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
