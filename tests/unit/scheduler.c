/* SPDX-License-Identifier: MIT
 * scheduler.c - tests of scheduler.c: who is computed in a step, how much of it, and in which batch.
 * Threads: one. */
#include "engine/serve/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MAX 8

struct scheduler_world {
	struct scheduler s;
	struct sched_task task[MAX];
};

/* One running task per entry of left[]; 0 is decoding. */
static void world_init(struct scheduler_world *w, int budget, int n, const int *left)
{
	int i;

	memset(w, 0, sizeof *w);
	scheduler_init(&w->s, budget, MAX);
	for (i = 0; i < n; i++) {
		w->task[i].left = left[i];
		scheduler_put(&w->s, &w->task[i]);
		assert_ptr_equal(scheduler_next(&w->s), &w->task[i]);
		scheduler_admit(&w->s, &w->task[i]);
	}
}

static void world_fini(struct scheduler_world *w, int n)
{
	while (n--)
		scheduler_drop(&w->s, &w->task[n]);
	scheduler_fini(&w->s);
}

/* Plans, computes, and checks that task i got want[i] tokens. */
static void world_step(struct scheduler_world *w, int n, const int *want)
{
	int i, items = 0;

	scheduler_plan(&w->s);
	for (i = 0; i < n; i++) {
		assert_int_equal(w->task[i].share, want[i]);
		items += want[i] > 0;
		if (w->task[i].left)
			w->task[i].left -= want[i];
	}
	assert_int_equal(w->s.n_item, items);
}

static void decode_goes_first(void **state)
{
	static const int left[] = { 0, 1000, 0 };
	struct scheduler_world w;
	int i;

	(void)state;
	world_init(&w, 100, 3, left);
	world_step(&w, 3, (const int[]){ 1, 98, 1 });
	assert_int_equal(w.s.n_batch, 2);
	assert_int_equal(w.s.batch[0].phase, DSV4_DECODE);
	assert_int_equal(w.s.batch[0].n, 2);
	assert_int_equal(w.s.batch[1].phase, DSV4_PREFILL);
	for (i = 0; i < 9; i++)
		world_step(&w, 3, (const int[]){ 1, 98, 1 });
	world_step(&w, 3, (const int[]){ 1, 20, 1 });
	world_step(&w, 3, (const int[]){ 1, 1, 1 }); /* decoding now */
	world_fini(&w, 3);
}

static void prefill_is_shared_fairly(void **state)
{
	static const int left[] = { 1000, 10, 1000, 25 };
	struct scheduler_world w;

	(void)state;
	world_init(&w, 120, 4, left);
	world_step(&w, 4, (const int[]){ 43, 10, 42, 25 }); /* the short ones need less than 30 */
	world_fini(&w, 4);
}

/* A long prompt does not hold up a short one that came later. */
static void a_short_prompt_passes_a_long_one(void **state)
{
	static const int left[] = { 100000, 60 };
	struct scheduler_world w;

	(void)state;
	world_init(&w, 64, 2, left);
	world_step(&w, 2, (const int[]){ 32, 32 });
	world_step(&w, 2, (const int[]){ 36, 28 });
	world_step(&w, 2, (const int[]){ 63, 1 });
	world_fini(&w, 2);
}

static void a_tiny_budget_goes_round(void **state)
{
	static const int left[] = { 50, 50, 50 };
	struct scheduler_world w;
	int i, got[3] = { 0 };

	(void)state;
	world_init(&w, 1, 3, left);
	for (i = 0; i < 9; i++) {
		assert_int_equal(scheduler_plan(&w.s), 1);
		for (int k = 0; k < 3; k++)
			got[k] += w.task[k].share;
	}
	assert_true(got[0] == 3 && got[1] == 3 && got[2] == 3);
	world_fini(&w, 3);
}

static void decode_cannot_starve_prefill(void **state)
{
	static const int left[] = { 0, 0, 0, 0, 0, 0, 0, 50 };
	struct scheduler_world w;

	(void)state;
	world_init(&w, 4, 8, left);
	world_step(&w, 8, (const int[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
	world_fini(&w, 8);
}

/* A long prompt comes to seven that decode, on a machine of 0.05 s a step of decoding and 0.004 s a prompt token. */
static void a_long_prompt_beside_streams_goes_by_time(void **state)
{
	static const int left[] = { 0, 0, 0, 1777, 0, 0, 0, 0 };
	struct scheduler_world w;
	int steps = 0, n;

	(void)state;
	world_init(&w, 512, 8, left);
	w.s.pace.gap = 0.2501;
	for (; w.task[3].left; steps++) {
		scheduler_plan(&w.s);
		for (int i = 0; i < 8; i++)
			assert_int_equal(w.task[i].share == 1, i != 3);
		n = w.task[3].share;
		w.task[3].left -= n;
		assert_int_equal(n, steps == 0 ? PACE_FLOOR : w.task[3].left ? 50 : 11); /* 16 + 35 * 50 + 11 = 1777 */
		pace_ran(&w.s.pace, 0.05, n * 0.004, n);
	}
	assert_int_equal(steps, 37);
	world_fini(&w, 8);
}

/* Where the time would do for more than the budget, the budget holds; with nobody decoding, it alone. */
static void the_budget_is_the_most(void **state)
{
	static const int left[] = { 0, 5000, 5000 };
	struct scheduler_world w;

	(void)state;
	world_init(&w, 512, 3, left);
	w.s.pace = (struct pace){ .gap = 0.251, .decode = 0.05, .token = 0.0001 };
	world_step(&w, 3, (const int[]){ 1, 256, 255 });
	w.s.pace.token = 0.01;
	world_step(&w, 3, (const int[]){ 1, 10, 10 }); /* what the time does for is shared as the budget is */
	w.task[0].paused = true; /* who waits for its reader waits for no step */
	w.task[0].share = 0;
	world_step(&w, 3, (const int[]){ 0, 256, 256 });
	w.task[0].paused = false;
	w.s.pace.gap = 0;
	world_step(&w, 3, (const int[]){ 1, 255, 256 });
	world_fini(&w, 3);
}

static void batches_agree_in_set_and_numerics(void **state)
{
	static const int left[] = { 0, 0, 0, 5, 0, 5 };
	const struct kset *a = (const struct kset *)&left[0], *b = (const struct kset *)&left[1];
	struct scheduler_world w;
	int i, k;

	(void)state;
	world_init(&w, 100, 6, left);
	for (i = 0; i < 6; i++)
		w.task[i].kset = i == 1 ? b : a;
	w.task[2].numerics.index_topk = 7;
	assert_int_equal(scheduler_plan(&w.s), 6);
	assert_int_equal(w.s.n_batch, 4); /* {0, 4}, {1}, {2}, then {3, 5} */
	assert_int_equal(w.s.batch[0].n, 2);
	assert_int_equal(w.s.batch[3].n, 2);
	for (i = 0; i < w.s.n_batch; i++) {
		const struct sched_batch *t = &w.s.batch[i];
		const struct sched_task *first = w.s.item[t->first].task;

		for (k = 0; k < t->n; k++) {
			const struct sched_task *c = w.s.item[t->first + k].task;

			assert_ptr_equal(c->kset, first->kset);
			assert_int_equal(c->numerics.index_topk, first->numerics.index_topk);
			assert_int_equal(c->left == 0, t->phase == DSV4_DECODE);
		}
	}
	world_fini(&w, 6);
}

static void paused_tasks_get_nothing(void **state)
{
	static const int left[] = { 0, 50, 50 };
	struct scheduler_world w;

	(void)state;
	world_init(&w, 10, 3, left);
	w.task[0].paused = w.task[1].paused = true;
	world_step(&w, 3, (const int[]){ 0, 0, 10 });
	w.task[2].paused = true;
	assert_int_equal(scheduler_plan(&w.s), 0);
	world_fini(&w, 3);
}

static void only_so_many_run(void **state)
{
	struct scheduler s;
	struct sched_task t[3];

	(void)state;
	memset(t, 0, sizeof t);
	scheduler_init(&s, 10, 2);
	for (int i = 0; i < 3; i++)
		scheduler_put(&s, &t[i]);
	scheduler_admit(&s, &t[0]);
	scheduler_admit(&s, &t[1]);
	assert_null(scheduler_next(&s));
	scheduler_drop(&s, &t[0]);
	assert_ptr_equal(scheduler_next(&s), &t[2]);
	scheduler_drop(&s, &t[2]); /* gives up while waiting */
	assert_null(scheduler_next(&s));
	scheduler_drop(&s, &t[1]);
	scheduler_fini(&s);
}

/* Readers that do not read, and then do. */
static void paused_tasks_hold_no_place(void **state)
{
	struct scheduler s;
	struct sched_task t[4];

	(void)state;
	memset(t, 0, sizeof t);
	scheduler_init(&s, 10, 2);
	for (int i = 0; i < 4; i++)
		scheduler_put(&s, &t[i]);
	scheduler_admit(&s, &t[0]);
	scheduler_admit(&s, &t[1]);
	assert_null(scheduler_next(&s));
	t[0].paused = t[1].paused = true;
	scheduler_admit(&s, &t[2]);
	scheduler_admit(&s, &t[3]);
	assert_int_equal(scheduler_plan(&s), 2);
	assert_ptr_equal(s.item[0].task, &t[2]);
	assert_ptr_equal(s.item[1].task, &t[3]);
	t[0].paused = false; /* three could run, and two do: the oldest */
	assert_int_equal(scheduler_plan(&s), 2);
	assert_ptr_equal(s.item[0].task, &t[0]);
	assert_ptr_equal(s.item[1].task, &t[2]);
	for (int i = 0; i < 4; i++)
		scheduler_drop(&s, &t[i]);
	scheduler_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode_goes_first),
		cmocka_unit_test(prefill_is_shared_fairly),
		cmocka_unit_test(a_short_prompt_passes_a_long_one),
		cmocka_unit_test(a_tiny_budget_goes_round),
		cmocka_unit_test(decode_cannot_starve_prefill),
		cmocka_unit_test(a_long_prompt_beside_streams_goes_by_time),
		cmocka_unit_test(the_budget_is_the_most),
		cmocka_unit_test(batches_agree_in_set_and_numerics),
		cmocka_unit_test(paused_tasks_get_nothing),
		cmocka_unit_test(only_so_many_run),
		cmocka_unit_test(paused_tasks_hold_no_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
