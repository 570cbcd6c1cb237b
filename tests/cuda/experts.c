/* SPDX-License-Identifier: MIT
 * experts.c - where routed experts lie on the stand-in for a GPU: all of them there, some, none; always the same bits,
 * and as planned. Memory that ends is told by name. Nothing here ran on a real GPU.
 * Threads: the test's. Locks: none. */
#include "engine/model/placement.h"
#include "tests/cuda/stepkit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 4

static const char *const all[] = { "all=cuda-base" };

/* ---- answers ---- */

/* Experts of decode steps that the plan leaves outside. */
struct experts_seen {
	int64_t resident;
	uint64_t outside;
};

static void experts_see(void *arg, int layer, int n_tok, int k, const int32_t *ids, const float *weight)
{
	struct experts_seen *s = arg;

	(void)layer;
	(void)weight;
	for (int i = 0; i < n_tok * k; i++)
		s->outside += ids[i] >= s->resident;
}

/* The same answer some times over, by a forward of its own; as its slots fill, experts move. */
static float *experts_answers(const struct kset *ks, int slots, struct experts_seen *seen)
{
	const struct forward_tap tap = { .arg = seen, .experts = experts_see };
	size_t vocab = (size_t)kit.gpu.vocab;
	float *logits = calloc(TIMES * STEP_DECODE * vocab, sizeof *logits), *at = logits;

	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	forward_keep_experts(kit.gpu.forward, slots);
	for (int t = 0; t < TIMES; t++) {
		struct sequence *s = tinykit_sequence(&kit.gpu);

		if (tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, kit.token, STEP_PROMPT, 0, NULL))
			fail_msg("%s", buf_str(&kit.gpu.why));
		for (int i = STEP_PROMPT; i < STEP_PROMPT + STEP_DECODE; i++, at += vocab) {
			const struct forward_item item = { s, kit.token + i, 1, 1 };
			const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_DECODE,
							 .item = &item, .n_item = 1, .logits = at,
							 .tap = seen ? &tap : NULL };

			if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
				fail_msg("%s", buf_str(&kit.gpu.why));
		}
		sequence_free(&s);
	}
	return logits;
}

static size_t experts_bytes(void)
{
	return TIMES * STEP_DECODE * (size_t)kit.gpu.vocab * sizeof(float);
}

/* The first run says what the others must say. */
static void experts_same(const float *logits)
{
	const char *want = getenv("EXPERTS_BITS");
	uint64_t sum = 14695981039346656037u;
	char got[32];

	for (size_t i = 0; i < experts_bytes(); i++)
		sum = (sum ^ ((const unsigned char *)logits)[i]) * 1099511628211u;
	snprintf(got, sizeof got, "%016" PRIx64, sum);
	if (want)
		assert_string_equal(got, want);
	setenv("EXPERTS_BITS", got, 1);
}

/* ---- where they lie ---- */

static struct placement experts_plan(void)
{
	struct placement p;

	if (placement_plan(kit.gpu.model->weights->checkpoint, 1, stepkit_view().total, &p, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	return p;
}

/* Of 8 in each of 5 layers and the draft block. */
static void test_the_run_is_what_it_is_called(void **state)
{
	struct placement p = experts_plan();
	const char *run = getenv("STEP_RUN");

	(void)state;
	assert_int_equal(p.experts, 48);
	if (!strcmp(run, "all"))
		assert_true(p.resident == 8 && p.outside == 0 && p.slots == 0);
	else if (!strcmp(run, "some"))
		assert_true(p.resident == 3 && p.outside == 30 && p.slots > 6 && p.slots < 30);
	else
		assert_true(p.resident == 0 && p.outside == 48 && p.slots > 0);
}

static void test_the_plan_is_what_is_placed(void **state)
{
	struct placement p = experts_plan();
	struct device_view v = stepkit_view();
	uint64_t room;

	(void)state;
	assert_int_equal(v.weights, p.weights);
	assert_int_equal(v.experts_host, p.outside_bytes);
	assert_true(v.pinned >= v.experts_host); /* of which it is a part */
	assert_int_equal(v.expert_slot_bytes, 0);
	room = v.free;
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	forward_keep_experts(kit.gpu.forward, INT_MAX);
	v = stepkit_view();
	assert_int_equal(v.expert_slots, p.slots);
	assert_int_equal(v.expert_slot_bytes, p.slot_bytes);
	assert_true(room - v.free >= p.slot_bytes);
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	assert_int_equal(stepkit_view().expert_slot_bytes, 0);
}

/* With slots and without, with residents and without: what is counted are uses of the others alone. */
static void test_experts_move_by_use(void **state)
{
	struct experts_seen seen = { .resident = experts_plan().resident };
	struct device_view before = stepkit_view(), v;
	struct kset *ks = stepkit_set(all, 1);
	float *got, *want;
	uint64_t used;

	(void)state;
	got = experts_answers(ks, INT_MAX, NULL);
	v = stepkit_view();
	assert_int_equal(v.plain_steps, before.plain_steps);
	used = v.expert_hits + v.expert_misses;
	want = experts_answers(ks, 0, &seen);
	assert_memory_equal(got, want, experts_bytes());
	experts_same(got);
	/* where nothing is outside, or for nothing of it, nobody counts */
	assert_int_equal(used, seen.outside);
	assert_int_equal(stepkit_view().expert_hits + stepkit_view().expert_misses, used);
	if (experts_plan().resident > 0 && used > 0) {
		assert_true(v.expert_hits > 20);
		assert_true(v.expert_misses > v.expert_slots); /* some gave way */
	}
	free(got);
	free(want);
	kset_unpin(&ks);
}

/* ---- where memory ends ---- */

/* The driver would give managed memory for ever (CUSIM_MANAGED); the engine takes what the GPU has. */
static void test_no_more_is_taken_than_there_is(void **state)
{
	struct kset *ks = stepkit_set(all, 1);
	struct sequence *s = tinykit_sequence(&kit.gpu);
	struct device_view v;
	void *taken[4096];
	int n = 0;

	(void)state;
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	while (n < 4096 && (taken[n] = device_alloc(kit.device, 1, 4096)) != NULL)
		n++;
	assert_true(n > 4 && n < 4096);
	v = stepkit_view();
	assert_true(v.weights + v.work <= v.total - v.total / 64);
	assert_true(v.free < v.total / 64 + 4096 + 256);
	assert_int_equal(tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, kit.token, STEP_PROMPT, 0, NULL), -ENOMEM);
	assert_non_null(strstr(buf_str(&kit.gpu.why), "no memory for"));
	while (n > 0)
		device_free(kit.device, taken[--n]);
	assert_int_equal(tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, kit.token, STEP_PROMPT, 0, NULL), 0);
	sequence_free(&s);
	kset_unpin(&ks);
}

/* Pinned memory ends among the experts that are to lie there. */
static void test_memory_ends_in_the_midst(void **state)
{
	struct tinykit k;
	struct device *d;
	struct device_view v;

	(void)state;
	tinykit_init(&k, 1);
	assert_int_equal(device_open("cuda", &d, &k.why), 0);
	assert_int_equal(model_place(k.model, d, &k.why), -ENOMEM);
	if (!strstr(buf_str(&k.why), "cuda:0: pinned memory for weights"))
		fail_msg("%s", buf_str(&k.why));
	device_view(d, &v);
	assert_true(v.weights > 2000000 && v.experts_host > 0);
	tinykit_fini(&k);
	device_close(&d);
	/* and all of it was given back */
	assert_int_equal(device_open("cuda", &d, NULL), 0);
	device_view(d, &v);
	assert_int_equal(v.free, v.total);
	device_close(&d);
}

/* ---- runs ---- */

struct experts_run {
	const char *name, *memory, *managed, *pinned;
};

/* Settings of the stand-in, one run after the other. */
static const struct experts_run runs[] = {
	{ "all", "8000000000", "8000000000", "8000000000" },
	{ "some", "4800000", "8000000000", "8000000000" },
	{ "none", "3885000", "8000000000", "8000000000" },
	{ "short", "4800000", "4800000", "3750000" },
};

int main(int argc, char **argv)
{
	const struct CMUnitTest whole[] = {
		cmocka_unit_test(test_the_run_is_what_it_is_called),
		cmocka_unit_test(test_the_plan_is_what_is_placed),
		cmocka_unit_test(test_experts_move_by_use),
	};
	const struct CMUnitTest split[] = {
		cmocka_unit_test(test_the_run_is_what_it_is_called),
		cmocka_unit_test(test_the_plan_is_what_is_placed),
		cmocka_unit_test(test_experts_move_by_use),
		cmocka_unit_test(test_no_more_is_taken_than_there_is),
	};
	const struct CMUnitTest ends[] = {
		cmocka_unit_test(test_memory_ends_in_the_midst),
	};
	const char *run = stepkit_run(argv, runs[0].name);
	int failed;
	size_t i = 0;

	(void)argc;
	if (!run)
		return 77;
	if (!strcmp(run, "all"))
		failed = cmocka_run_group_tests_name("all", whole, stepkit_setup, stepkit_teardown);
	else if (strcmp(run, "short"))
		failed = cmocka_run_group_tests_name(run, split, stepkit_setup, stepkit_teardown);
	else
		failed = cmocka_run_group_tests_name("short", ends, NULL, NULL);
	while (strcmp(runs[i].name, run))
		i++;
	if (failed || ++i == sizeof runs / sizeof *runs)
		return failed;
	setenv("CUSIM_MEMORY", runs[i].memory, 1);
	setenv("CUSIM_MANAGED", runs[i].managed, 1);
	setenv("CUSIM_PINNED", runs[i].pinned, 1);
	return stepkit_again(argv, runs[i].name);
}
