/* SPDX-License-Identifier: MIT
 * engine_cache_live.c - tests of the prefix cache beside what goes on while it is used: requests side by side,
 * deadlines, a restart, recomputing; and of what a request tells of it.
 * Threads: this one and the engine's; made for the sanitizer builds, too. */
#include "engine/base/rc.h"
#include "tests/unit/warmkit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct engine *cold;

static int test_init(void **state)
{
	struct engine_options o = { 0 };

	(void)state;
	cold = warm_open(&o);
	return 0;
}

static int test_fini(void **state)
{
	(void)state;
	engine_close(&cold);
	return 0;
}

static struct engine *test_open(size_t cache_bytes)
{
	struct engine_options o = { .cache_bytes = cache_bytes, .prefill_chunk = 96 };

	return warm_open(&o);
}

static struct warm_answer test_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct warm_answer a = warm_ask(e, p, max_tokens), b = warm_ask_cold(cold, p, max_tokens);

	warm_same(&a, &b);
	return a;
}

/* ---- side by side ---- */

#define TEST_CLIENTS 8

/* All are submitted before any is read. */
static void test_wave(struct engine *e, const struct warm_prompt *p, struct warm_answer *ret_a)
{
	struct generation *g[TEST_CLIENTS];

	for (int i = 0; i < TEST_CLIENTS; i++) {
		struct generation_spec s = warm_spec(&p[i], 4);

		g[i] = warm_submit(e, &s);
	}
	for (int i = 0; i < TEST_CLIENTS; i++) {
		ret_a[i] = warm_read(e, &g[i]);
		assert_int_equal(ret_a[i].finish, GEN_LENGTH);
	}
	warm_idle(e);
}

static void requests_with_a_common_beginning_share_it(void **state)
{
	static const size_t budget[] = { WARM_ENOUGH, 1 << 20, 300 << 10 };
	struct warm_prompt p[TEST_CLIENTS] = { { .n = 0 } };
	struct warm_answer want[TEST_CLIENTS], a[TEST_CLIENTS];

	(void)state;
	for (int i = 0; i < TEST_CLIENTS; i++) {
		warm_grow(&p[i], 7, 200);
		warm_grow(&p[i], 20 + (uint32_t)i, 90);
		want[i] = warm_ask(cold, &p[i], 4);
	}
	for (size_t b = 0; b < sizeof budget / sizeof *budget; b += WARM_STEP) {
		struct engine *e = test_open(budget[b]);
		struct cache_stats c;

		for (int wave = 0; wave < 2; wave++) {
			test_wave(e, p, a);
			for (int i = 0; i < TEST_CLIENTS; i++) {
				warm_same(&a[i], &want[i]);
				if (wave == 1 && budget[b] == WARM_ENOUGH)
					assert_int_equal(a[i].usage.cached_tokens, 256);
			}
		}
		cache_stats(engine_cache(e), &c);
		if (budget[b] == WARM_ENOUGH)
			assert_int_equal(c.blocks, 1 + TEST_CLIENTS); /* the common one once */
		engine_close(&e);
	}
}

/* What a waiting request found is still there when its turn comes, whatever those before it publish. */
static void what_waits_keeps_what_it_found(void **state)
{
	struct engine_options o = { .cache_bytes = 1 << 20, .max_running = 1, .prefill_chunk = 96 };
	struct warm_prompt mine = { .n = 0 };
	struct warm_answer want, a;
	struct generation *before[4], *g;
	struct generation_spec s;
	struct cache_stats c;
	struct engine *e = warm_open(&o);

	(void)state;
	warm_grow(&mine, 8, 300);
	want = warm_ask(e, &mine, 3);
	for (uint32_t i = 0; i < 4; i++) {
		struct warm_prompt p = { .n = 0 };

		warm_grow(&p, 30 + i, 700);
		s = warm_spec(&p, 2);
		before[i] = warm_submit(e, &s);
	}
	s = warm_spec(&mine, 3);
	g = warm_submit(e, &s);
	for (int i = 0; i < 4; i++)
		warm_read(e, &before[i]);
	a = warm_read(e, &g);
	warm_same(&a, &want);
	assert_int_equal(a.usage.cached_tokens, 256);
	cache_stats(engine_cache(e), &c);
	assert_true(c.evicted_blocks + c.evicted_states + c.refused > 0);
	warm_idle(e);
	engine_close(&e);
}

/* ---- what a request tells ---- */

static struct warm_answer test_chat(struct engine *e, const char *first, const char *last, struct buf *ret_prompt,
	struct token_ids *ret_ids)
{
	struct generation_spec s = { .max_tokens = 2, .parse = true };
	struct generation *g;
	struct warm_answer a;
	struct record *r;

	s.messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "system", "content", first,
		"role", "user", "content", "Grüße, 世界! 🙂", "role", "assistant", "content", last, "role", "user",
		"content", first);
	s.sampling.top_p = s.sampling.repetition_penalty = 1;
	g = warm_submit(e, &s);
	r = engine_record(e, generation_id(g));
	a = warm_read(e, &g);
	buf_clear(ret_prompt);
	record_prompt(r, ret_prompt);
	free(ret_ids->id);
	*ret_ids = (struct token_ids){ 0 };
	record_tokens(r, &ret_ids->id, &ret_ids->n);
	record_unref(&r);
	json_decref(s.messages);
	return a;
}

/* The byte is where the first token that differs begins, in the text as it was rendered. */
static void the_first_differing_byte_is_in_the_rendered_text(void **state)
{
	static const char *const last[] = { "Wie heißt die Stadt? Oslo 🏔", "Wie heißt die Stadt? Osaka 🏯",
					    "Wie heißen die Städte?", "日本語で答えて" };
	struct engine *e = test_open(WARM_ENOUGH);
	struct buf first = { 0 }, a = { 0 }, b = { 0 }, text = { 0 };
	struct token_ids ia = { 0 }, ib = { 0 };

	(void)state;
	for (int i = 0; i < 40; i++)
		buf_printf(&first, "Zeile %d: naïve façade, ελληνικά, 🙂. ", i);
	test_chat(e, buf_str(&first), last[0], &a, &ia);
	for (size_t i = 1; i < sizeof last / sizeof *last; i++) {
		struct warm_answer w = test_chat(e, buf_str(&first), last[i], &b, &ib);
		int64_t at = w.view.first_diff_byte;
		int k = 0;

		assert_string_equal(w.view.miss_reason, "no-state"); /* as yet nothing had branched off there */
		assert_true(at > 128 && at < (int64_t)b.len);
		assert_memory_equal(a.data, b.data, (size_t)at);
		while (ia.id[k] == ib.id[k])
			k++;
		buf_clear(&text);
		tokenizer_decode(engine_tokenizer(e), ib.id, k, false, &text);
		assert_int_equal(text.len, at);
		assert_memory_equal(text.data, b.data, (size_t)at);
		/* Else the next would be compared with this one, too. */
		cache_clear(engine_cache(e));
		test_chat(e, buf_str(&first), last[0], &a, &ia);
	}
	free(ia.id);
	free(ib.id);
	buf_fini(&first);
	buf_fini(&a);
	buf_fini(&b);
	buf_fini(&text);
	engine_close(&e);
}

/* ---- deadlines ---- */

static void a_deadline_ends_what_runs_and_what_waits(void **state)
{
	struct engine_options o = { .max_running = 1, .cache_bytes = WARM_ENOUGH };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct generation *g[2]; /* one runs, one waits */
	struct kset *slow;
	struct engine_status st;
	struct gen_event ev = { .kind = GEN_EV_CONTENT };

	(void)state;
	warm_grow(&p, 9, 40);
	assert_int_equal(kset_build(NULL, 0, &slow, NULL), 0);
	assert_int_equal(engine_activate(e, &slow, NULL, false, NULL), 0);
	s = warm_spec(&p, 0); /* all that fits: far more than a second's of ref */
	s.sampling.logprobs = false;
	s.deadline = 1;
	g[0] = warm_submit(e, &s);
	g[1] = warm_submit(e, &s);
	for (int i = 0; i < 2; i++) {
		do {
			gen_event_fini(&ev);
			assert_int_equal(generation_wait(g[i], &ev, -1), 0);
		} while (ev.kind != GEN_EV_FINISH);
		assert_int_equal(ev.finish, GEN_ERROR);
		assert_int_equal(ev.rc, RC_TIMEOUT);
		assert_string_equal(ev.text, "not done within 1 s");
		gen_event_fini(&ev);
		generation_unref(&g[i]);
	}
	warm_idle(e);
	engine_status(e, &st);
	assert_int_equal(st.errors, 2);
	engine_close(&e);
}

/* ---- disk ---- */

static void test_remove(const char *dir)
{
	struct buf cmd = { 0 };

	buf_printf(&cmd, "rm -rf '%s'", dir);
	assert_int_equal(system(buf_str(&cmd)), 0);
	buf_fini(&cmd);
}

static void a_conversation_goes_on_after_a_restart(void **state)
{
	char dir[] = "/tmp/engine_cache.XXXXXX";
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .cache_disk_bytes = 1 << 30, .prefill_chunk = 96 };
	struct warm_prompt p = { .n = 0 };
	struct cache_stats c;
	struct warm_answer a;
	struct engine *e;

	(void)state;
	assert_non_null(mkdtemp(dir));
	o.cache_dir = dir;
	for (int run = 0; run < 3; run++) {
		int before = (p.n - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;

		e = warm_open(&o);
		assert_non_null(engine_cache_disk(e));
		warm_grow(&p, 40 + (uint32_t)run, 200);
		a = test_ask(e, &p, 5);
		assert_int_equal(a.usage.cached_tokens, run ? before : 0);
		cache_stats(engine_cache(e), &c);
		assert_int_equal(c.fetched, a.usage.cached_tokens / SEQUENCE_BLOCK);
		warm_grow_answer(&p, &a);
		warm_idle(e);
		engine_close(&e);
	}
	test_remove(dir);
}

static void test_model_id(const char *dir, char id[80])
{
	struct engine_options o = { .model_dir = dir };
	struct engine *e = NULL;
	struct buf why = { 0 };

	if (engine_open(&o, &e, &why))
		fail_msg("%s", buf_str(&why));
	snprintf(id, 80, "%s", cache_model_id(engine_cache(e)));
	engine_close(&e);
}

/* A copy with its times is the same model; with one bit of its last weight another, it is another. */
static void another_model_has_another_id(void **state)
{
	char dir[] = "/tmp/engine_cache.XXXXXX", a[80], b[80], byte;
	struct buf text = { 0 };
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	buf_printf(&text, "cp -p '%s'/etc/tiny/*.json '%s'/etc/tiny/*.safetensors %s", getenv("top_srcdir"),
		getenv("top_srcdir"), dir);
	assert_int_equal(system(buf_str(&text)), 0);
	test_model_id(dir, b);
	snprintf(a, sizeof a, "%s", cache_model_id(engine_cache(cold)));
	assert_string_equal(a, b);
	buf_clear(&text);
	buf_printf(&text, "%s/model-00002-of-00002.safetensors", dir);
	assert_int_equal(chmod(buf_str(&text), 0600), 0);
	assert_non_null(f = fopen(buf_str(&text), "r+b"));
	assert_int_equal(fseek(f, -1, SEEK_END), 0);
	byte = (char)(fgetc(f) ^ 1);
	assert_int_equal(fseek(f, -1, SEEK_END), 0);
	assert_int_equal(fwrite(&byte, 1, 1, f), 1);
	assert_int_equal(fclose(f), 0);
	test_model_id(dir, b);
	assert_string_not_equal(a, b);
	buf_fini(&text);
	test_remove(dir);
}

/* No disk is no reason not to serve; it is told. */
static void an_unusable_cache_directory_is_told_and_left_out(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .cache_dir = "/dev/null/cache" };
	struct warm_prompt p = { .n = 0 };
	struct engine *e = warm_open(&o);

	(void)state;
	assert_null(engine_cache_disk(e));
	assert_non_null(strstr(engine_cache_disk_why(e), "/dev/null/cache"));
	warm_grow(&p, 1, 200);
	test_ask(e, &p, 2);
	assert_int_equal(test_ask(e, &p, 2).usage.cached_tokens, 128);
	engine_close(&e);
}

/* ---- computing afresh ---- */

static void recomputed_blocks_have_the_cached_bits(void **state)
{
	struct engine *e = test_open(WARM_ENOUGH);
	struct sequence_layout l;
	struct warm_prompt p = { .n = 0 };
	struct cache_entry *entry;
	struct cache_copy copy;
	struct sequence *s = NULL;
	atomic_bool cancel = true;
	struct buf why = { 0 };
	int n, compared = 0;

	(void)state;
	sequence_layout_init(&l, engine_config(e));
	warm_grow(&p, 11, 300);
	test_ask(e, &p, 2);
	n = cache_tree(engine_cache(e), &entry, 10);
	assert_int_equal(n, 2);
	assert_int_equal(cache_get(engine_cache(e), &entry[1].key, &copy), 0);
	assert_int_equal(engine_recompute(e, copy.token, copy.n_token, &cancel, &s, &why), RC_CANCELLED);
	assert_null(s);
	assert_int_equal(engine_recompute(e, copy.token, copy.n_token, NULL, &s, &why), 0);
	assert_int_equal(sequence_pos(s), 256);
	for (int64_t i = 0; i < copy.n_block; i++) {
		struct sequence_block *b = sequence_share(s, i);

		assert_ptr_not_equal(b, copy.block[i]);
		for (int y = 0; y < l.n_layer; y++)
			for (int k = 0; k < SEQUENCE_N_ROWS; k++) {
				const float *x = sequence_block_rows(&l, b, y, (enum sequence_rows)k);

				if (!x)
					continue;
				assert_memory_equal(x, sequence_block_rows(&l, copy.block[i], y, (enum sequence_rows)k),
					(size_t)(SEQUENCE_BLOCK / l.layer[y].ratio * l.layer[y].dim[k]) * sizeof *x);
				compared++;
			}
		sequence_block_unref(&b);
	}
	assert_true(compared >= 2);
	sequence_free(&s);
	cache_copy_fini(&copy);
	free(entry);
	buf_fini(&why);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest together[] = {
		cmocka_unit_test(requests_with_a_common_beginning_share_it),
		cmocka_unit_test(what_waits_keeps_what_it_found),
		cmocka_unit_test(a_deadline_ends_what_runs_and_what_waits),
		cmocka_unit_test(a_conversation_goes_on_after_a_restart),
	};
	/* One request after the other: nothing there to race. */
	const struct CMUnitTest alone[] = {
		cmocka_unit_test(another_model_has_another_id),
		cmocka_unit_test(the_first_differing_byte_is_in_the_rendered_text),
		cmocka_unit_test(an_unusable_cache_directory_is_told_and_left_out),
		cmocka_unit_test(recomputed_blocks_have_the_cached_bits),
	};
	int failed = cmocka_run_group_tests(together, test_init, test_fini);

	return WARM_RACES_ONLY ? failed : failed + cmocka_run_group_tests(alone, test_init, test_fini);
}
