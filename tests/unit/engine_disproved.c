/* SPDX-License-Identifier: MIT
 * engine_disproved.c - tests of requests under way while a kernel that shared ref's rows is found not to have ref's
 * bits: what was cached until then serves nobody any more, and is not written to the disk again.
 * Threads: this one, the engine's and the disk's. */
#include "engine/cache/cache_disk.h"
#include "engine/kernels/disproved.h"
#include "tests/unit/warmkit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static char dir[64];

static int test_init(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/engine_disproved.XXXXXX");
	return mkdtemp(dir) == NULL;
}

static int test_fini(void **state)
{
	struct buf cmd = { 0 };
	int rc;

	(void)state;
	buf_printf(&cmd, "rm -rf '%s'", dir);
	rc = system(buf_str(&cmd));
	buf_fini(&cmd);
	return rc;
}

static struct engine *test_open(void)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .cache_dir = dir, .cache_disk_bytes = 1 << 30,
				    .max_running = 1, .prefill_chunk = 100 };
	struct engine *e = warm_open(&o);

	assert_non_null(engine_cache_disk(e));
	return e;
}

/* ---- the disproof, at a token of a request ---- */

struct test_disproof {
	struct engine *e;
	const char *key;
	atomic_bool go;       /* those that are to wait in the queue do */
	bool done;
};

/* On the engine thread: what the daemon does then. */
static void test_disprove(void *arg)
{
	struct test_disproof *t = arg;

	if (t->done)
		return;
	while (!atomic_load(&t->go))
		sched_yield();
	assert_true(disproved_add("liar", t->key, "other bits", true));
	cache_clear(engine_cache(t->e));
	t->done = true;
}

/* Runs until it was submitted what else is to be; then, at its first token, the liar is found. */
static struct generation *test_run(struct test_disproof *t, const struct warm_prompt *p, int max_tokens)
{
	struct generation_spec s = warm_spec(p, max_tokens);

	s.notify = test_disprove;
	s.arg = t;
	return warm_submit(t->e, &s);
}

static void test_keys(struct engine *e, const struct warm_prompt *p, int n, struct cache_key *ret_k)
{
	struct cache_entry *entry;

	assert_int_equal(cache_tree(engine_cache(e), &entry, 10), n);
	for (int i = 0; i < n; i++)
		ret_k[i] = entry[i].key;
	assert_int_equal(entry[0].token[0], p->token[0]);
	free(entry);
}

/* Once all that was queued has been written. */
static bool test_on_disk(struct engine *e, const struct cache_key *k)
{
	struct cache_disk_stats st;
	bool state;

	do {
		sched_yield();
		cache_disk_stats(engine_cache_disk(e), &st);
	} while (st.queued);
	return cache_disk_has(engine_cache_disk(e), k, &state);
}

/* ---- tests ---- */

static void who_waits_in_the_queue_has_no_rows_of_a_liar(void **state)
{
	struct test_disproof t = { .e = test_open(), .key = "1" };
	struct warm_prompt p = { .n = 0 }, other = { .n = 0 };
	struct warm_answer want, a;
	struct generation *first, *second;
	struct generation_spec s;
	struct cache_key key[2];

	(void)state;
	warm_grow(&p, 1, 300);
	warm_grow(&other, 2, 100);
	want = warm_ask(t.e, &p, 4);
	test_keys(t.e, &p, 2, key);
	assert_true(test_on_disk(t.e, &key[0]) && test_on_disk(t.e, &key[1]));
	first = test_run(&t, &other, 2);
	s = warm_spec(&p, 4);
	second = warm_submit(t.e, &s); /* it found them */
	atomic_store(&t.go, true);
	warm_read(t.e, &first);
	a = warm_read(t.e, &second);
	warm_same(&a, &want);
	assert_int_equal(a.usage.cached_tokens, 0);
	assert_int_equal(a.view.reused_tokens, 0);
	assert_false(test_on_disk(t.e, &key[0]) || test_on_disk(t.e, &key[1]));
	assert_int_equal(warm_ask(t.e, &p, 4).usage.cached_tokens, 256); /* computed after the disproof */
	warm_idle(t.e);
	engine_close(&t.e);
}

static void who_runs_while_a_liar_is_found_publishes_no_more(void **state)
{
	struct test_disproof t = { .e = test_open(), .key = "2", .go = true };
	struct warm_prompt p = { .n = 0 };
	struct cache_disk_stats st;
	struct cache_stats c;
	struct generation *g;
	struct warm_answer a;

	(void)state;
	warm_grow(&p, 3, 300); /* the first of its blocks is published before its first token, the
				* others would be after it */
	g = test_run(&t, &p, 150);
	a = warm_read(t.e, &g);
	assert_int_equal(a.finish, GEN_LENGTH);
	warm_idle(t.e);
	cache_clear(engine_cache(t.e)); /* of memory; what it let go of has to be there for it */
	cache_stats(engine_cache(t.e), &c);
	assert_int_equal(c.published, 1);
	do {
		sched_yield();
		cache_disk_stats(engine_cache_disk(t.e), &st);
	} while (st.queued);
	assert_int_equal(st.files, 0);
	warm_grow_answer(&p, &a);
	assert_int_equal(warm_ask(t.e, &p, 2).usage.cached_tokens, 0);
	engine_close(&t.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_in_the_queue_has_no_rows_of_a_liar),
		cmocka_unit_test(who_runs_while_a_liar_is_found_publishes_no_more),
	};
	return cmocka_run_group_tests(tests, test_init, test_fini);
}
