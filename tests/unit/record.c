/* SPDX-License-Identifier: MIT
 * record.c - tests of record.c and ring.c: what is kept, in which order, and what must go.
 * Threads: one. */
#include "engine/serve/record_put.h"
#include "engine/serve/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct record *record_make(const char *id, size_t prompt_bytes)
{
	struct record_setup s = { 0 };
	struct buf messages = { 0 }, prompt = { 0 };
	struct token_ids tokens = { 0 };

	snprintf(s.view.id, sizeof s.view.id, "%s", id);
	s.kset = "ref";
	s.messages = &messages;
	s.prompt = &prompt;
	s.tokens = &tokens;
	buf_adds(&messages, "[]");
	while (prompt.len < prompt_bytes) {
		static const char many[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
		size_t n = prompt_bytes - prompt.len;

		buf_add(&prompt, many, n < sizeof many - 1 ? n : sizeof many - 1);
	}
	token_ids_add(&tokens, 5);
	token_ids_add(&tokens, 6);
	return record_new(&s);
}

/* Put, finished and left to the ring. */
static void ring_pass(struct ring *g, const char *id, size_t bytes)
{
	struct record *r = record_make(id, bytes);

	assert_true(ring_put(g, r));
	record_finished(r, GEN_STOP, 0, "eos");
	ring_finished(g, r);
	record_unref(&r);
}

static void ring_expect(struct ring *g, const char *ids)
{
	struct record *r[16];
	struct buf got = { 0 };
	int i, n = ring_list(g, r, 16);

	for (i = 0; i < n; i++) {
		buf_printf(&got, "%s ", record_id(r[i]));
		record_unref(&r[i]);
	}
	assert_string_equal(buf_str(&got), ids);
	buf_fini(&got);
}

static void a_record_holds_prompt_and_output(void **state)
{
	struct record *r = record_make("a", 3);
	struct gen_usage u = { .prompt_tokens = 2, .completion_tokens = 2 };
	struct record_view v;
	struct buf b = { 0 };
	uint64_t *digest;
	int32_t *ids;
	int n_prompt;

	(void)state;
	record_admitted(r);
	record_token(r, &(struct record_token){ 7, "\xc3", 1, 70 }, &u);
	record_output(r, &b);
	assert_string_equal(buf_str(&b), ""); /* half a character is not shown */
	record_token(r, &(struct record_token){ 8, "\xa9!", 2, 80 }, &u);
	record_output(r, &b);
	assert_string_equal(buf_str(&b), "\xc3\xa9!");
	assert_int_equal(record_tokens(r, &ids, &n_prompt), 4);
	assert_int_equal(n_prompt, 2);
	assert_int_equal(ids[3], 8);
	free(ids);
	assert_int_equal(record_digests(r, &digest), 2);
	assert_true(digest[0] == 70 && digest[1] == 80);
	free(digest);
	record_finished(r, GEN_LENGTH, 0, "max_tokens");
	record_view(r, &v);
	assert_int_equal(v.finish, GEN_LENGTH);
	assert_string_equal(v.detail, "max_tokens");
	assert_string_equal(v.miss_reason, "no prefix cache");
	assert_int_equal(v.usage.completion_tokens, 2);
	assert_true(v.t_submit > 0 && v.t_submit <= v.t_admit && v.t_admit <= v.t_first);
	assert_true(v.t_first <= v.t_last && v.t_last <= v.t_end);
	buf_clear(&b);
	record_prompt(r, &b);
	assert_string_equal(buf_str(&b), "xxx");
	buf_fini(&b);
	record_unref(&r);
}

static void the_oldest_finished_go_first(void **state)
{
	struct ring *g = ring_new(2, 1 << 20);
	struct record *running = record_make("run", 1), *found;

	(void)state;
	assert_true(ring_put(g, running));
	ring_pass(g, "a", 1);
	ring_pass(g, "b", 1);
	ring_expect(g, "b a run ");
	ring_pass(g, "c", 1);
	ring_expect(g, "c b run ");
	assert_null(ring_find(g, "a"));
	found = ring_find(g, "run");
	assert_ptr_equal(found, running);
	record_unref(&found);
	record_finished(running, GEN_CANCELLED, 0, "cancelled");
	ring_finished(g, running);
	ring_expect(g, "c run ");
	record_unref(&running);
	ring_free(&g);
}

static void bytes_are_bounded(void **state)
{
	struct ring *g = ring_new(100, 64 << 10);
	struct record *kept;
	int i;

	(void)state;
	ring_pass(g, "first", 10 << 10);
	kept = ring_find(g, "first");
	for (i = 0; i < 50; i++) {
		ring_pass(g, "next", 10 << 10);
		assert_true(ring_bytes(g) <= 64 << 10);
	}
	assert_true(ring_bytes(g) > 20 << 10);
	assert_null(ring_find(g, "first"));
	assert_string_equal(record_id(kept), "first"); /* whoever holds a reference keeps it */
	record_unref(&kept);
	ring_pass(g, "huge", 65 << 10); /* larger than all there is: nothing is left */
	ring_expect(g, "");
	assert_int_equal(ring_bytes(g), 0);
	ring_free(&g);
}

/* As many as wait and run may each have a long prompt. */
static void running_records_are_bounded(void **state)
{
	struct ring *g = ring_new(10, 1 << 20);
	struct record *small = record_make("small", 1), *huge = record_make("huge", RING_MAX_LIVE / 2 + 1);
	struct record *other = record_make("other", RING_MAX_LIVE / 2 + 1);

	(void)state;
	assert_true(ring_put(g, huge)); /* one alone may run, however large */
	assert_false(ring_put(g, other));
	ring_expect(g, "huge ");
	record_finished(huge, GEN_STOP, 0, "eos");
	ring_finished(g, huge);
	assert_true(ring_put(g, small));
	assert_false(ring_put(g, other));
	ring_remove(g, small);
	assert_true(ring_put(g, other));
	record_unref(&small);
	record_unref(&huge);
	record_unref(&other);
	ring_free(&g);
}

static void of_equal_ids_the_newest_is_found(void **state)
{
	struct ring *g = ring_new(10, 1 << 20);
	struct record *a = record_make("same", 1), *b = record_make("same", 2), *found;

	(void)state;
	assert_true(ring_put(g, a));
	assert_true(ring_put(g, b));
	found = ring_find(g, "same");
	assert_ptr_equal(found, b);
	record_unref(&found);
	record_unref(&a);
	record_unref(&b);
	ring_free(&g);
}

static void a_kept_text_counts_and_can_push_out_others(void **state)
{
	struct ring *g = ring_new(100, 64 << 10);
	struct record *running = record_make("run", 1), *r;
	struct buf text = { 0 }, got = { 0 };
	size_t before;

	(void)state;
	assert_true(ring_put(g, running));
	ring_pass(g, "a", 10 << 10);
	ring_pass(g, "b", 10 << 10);
	before = ring_bytes(g);
	r = ring_find(g, "b");
	buf_adds(&text, "kept");
	record_keep(r, &text);
	ring_changed(g, r);
	assert_true(ring_bytes(g) > before);
	record_kept(r, &got);
	assert_string_equal(buf_str(&got), "kept");
	ring_expect(g, "b a run ");
	while (text.len < 20 << 10)
		buf_addc(&text, 'x');
	record_keep(r, &text); /* in place of the one before; too much with a, so the oldest goes */
	ring_changed(g, r);
	assert_true(ring_bytes(g) <= 64 << 10);
	ring_expect(g, "b run ");
	record_keep(r, &text); /* which is empty by now: nothing is kept */
	ring_changed(g, r);
	assert_int_equal(ring_bytes(g), record_bytes(r));
	ring_changed(g, running); /* does not count before it has finished */
	assert_int_equal(ring_bytes(g), record_bytes(r));
	record_unref(&r);
	record_finished(running, GEN_STOP, 0, "eos");
	ring_finished(g, running);
	record_unref(&running);
	buf_fini(&got);
	ring_free(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_holds_prompt_and_output),
		cmocka_unit_test(the_oldest_finished_go_first),
		cmocka_unit_test(bytes_are_bounded),
		cmocka_unit_test(running_records_are_bounded),
		cmocka_unit_test(of_equal_ids_the_newest_is_found),
		cmocka_unit_test(a_kept_text_counts_and_can_push_out_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
