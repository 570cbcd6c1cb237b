/* SPDX-License-Identifier: MIT
 * step.c - steps of the tiny model on the stand-in for a GPU: ref's numbers within rounding, decode steps as graphs, sets
 * that mix a GPU's kernels and the CPU's; experts that lie with the host. Nothing here ran on a real GPU.
 * Threads: the test's. Locks: none. */
#include "engine/eval/eval_plugins.h"
#include "engine/model/mtp.h"
#include "tests/unit/tinykit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_PROMPT 6
#define STEP_DECODE 5

/* The CPU's kit, and the same model on the GPU with its plugin. */
struct step_kit {
	struct tinykit cpu, gpu;
	struct device *device;
	struct eval_plugins plugins;
	char dir[64];
	int32_t token[STEP_PROMPT + STEP_DECODE];
	float *want;                  /* [STEP_PROMPT + STEP_DECODE][vocab], ref's */
};
static struct step_kit kit;

/* ---- the kit ---- */

static int step_set(const char *const *spec, int n, struct kset **ret_ks)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	int n_ov = 0, rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = eval_plugins_overlay(&kit.plugins, spec[i], ov, &n_ov, &kit.gpu.why);
	return rc ? rc : kset_build(ov, n_ov, ret_ks, &kit.gpu.why);
}

/* A plugin's file lies where only its owner writes. */
static void step_plugin(void)
{
	const char *top = getenv("top_builddir");
	struct buf command = { 0 };

	snprintf(kit.dir, sizeof kit.dir, "/tmp/dsv4-step-XXXXXX");
	assert_non_null(mkdtemp(kit.dir));
	buf_printf(&command, "install -m 0755 %s/plugins/cuda-base.so %s", top ? top : ".", kit.dir);
	assert_int_equal(system(buf_str(&command)), 0);
	buf_clear(&command);
	buf_printf(&command, "%s/cuda-base.so", kit.dir);
	kit.plugins.device = kit.device;
	if (eval_plugins_load(&kit.plugins, buf_str(&command), &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	unlink(buf_str(&command));
	rmdir(kit.dir);
	buf_fini(&command);
}

static int step_setup(void **state)
{
	int n = STEP_PROMPT + STEP_DECODE;

	(void)state;
	tinykit_init(&kit.cpu, 1);
	tinykit_tokens(&kit.cpu, 7, kit.token, n);
	kit.want = tinykit_prefill(&kit.cpu, kit.cpu.ref, &kit.cpu.exact, kit.token, n);
	tinykit_init(&kit.gpu, 1);
	if (device_open("cuda", &kit.device, &kit.gpu.why) || model_place(kit.gpu.model, kit.device, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	step_plugin();
	return 0;
}

static int step_teardown(void **state)
{
	(void)state;
	tinykit_fini(&kit.gpu);
	assert_int_equal(eval_plugins_fini(&kit.plugins, NULL), 0);
	device_close(&kit.device);
	tinykit_fini(&kit.cpu);
	free(kit.want);
	return 0;
}

/* ---- steps ---- */

static double step_error(const float *got, const float *want, size_t n)
{
	double err = 0, sum = 0;

	for (size_t i = 0; i < n; i++) {
		err += (got[i] - want[i]) * (double)(got[i] - want[i]);
		sum += want[i] * (double)want[i];
	}
	return sqrt(err / sum);
}

static void step_near(const float *got, int first, int n)
{
	const float *want = kit.want + (size_t)first * (size_t)kit.cpu.vocab;
	double error = step_error(got, want, (size_t)n * (size_t)kit.cpu.vocab);

	if (!(error < 1e-4))
		fail_msg("relative RMS %g of tokens from %d", error, first);
}

/* The prompt, then the rest token by token as answers are decoded. */
static void step_run(const struct kset *ks)
{
	struct sequence *s = tinykit_sequence(&kit.gpu);
	float *logits = calloc((size_t)STEP_PROMPT * (size_t)kit.cpu.vocab, sizeof *logits);

	assert_int_equal(tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, kit.token, STEP_PROMPT, STEP_PROMPT, logits), 0);
	step_near(logits, 0, STEP_PROMPT);
	for (int i = STEP_PROMPT; i < STEP_PROMPT + STEP_DECODE; i++) {
		const struct forward_item item = { s, kit.token + i, 1, 1 };
		const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_DECODE, .item = &item,
						 .n_item = 1, .logits = logits };

		if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
			fail_msg("%s", buf_str(&kit.gpu.why));
		step_near(logits, i, 1);
	}
	free(logits);
	sequence_free(&s);
}

static struct device_view step_view(void)
{
	struct device_view v;

	device_view(kit.device, &v);
	return v;
}

static void test_decode_steps_are_graphs(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	struct kset *ks = NULL, *again = NULL;
	struct device_view v;
	uint64_t graphs;

	(void)state;
	assert_int_equal(step_set(all, 1, &ks), 0);
	step_run(ks);
	v = step_view();
	assert_int_equal(v.graph_steps, STEP_DECODE);
	assert_int_equal(v.plain_steps, 0);
	assert_string_equal(v.graph_why, "");
	assert_true(v.graphs >= 1 && v.graphs < STEP_DECODE); /* with and without a group completed */
	assert_true(v.graph_nodes > 50);
	graphs = v.graphs;
	/* Another set is captured anew. */
	assert_int_equal(step_set(all, 1, &again), 0);
	step_run(again);
	v = step_view();
	assert_int_equal(v.graph_steps, 2 * STEP_DECODE);
	assert_int_equal(v.graphs, 2 * graphs);
	kset_unpin(&ks);
	kset_unpin(&again);
}

/* Two tokens, after made-up streams. */
static void step_draft(struct tinykit *k, const struct kset *ks, float *logits)
{
	size_t n = 2 * (size_t)k->model->config->hc_mult * (size_t)k->model->config->hidden_size;
	float *streams = malloc(n * sizeof *streams);
	struct sequence *s = tinykit_sequence(k);
	const struct mtp_item item = { s, streams, kit.token, 2, 2 };
	const struct mtp_batch b = { .kset = ks, .numerics = &k->exact, .phase = DSV4_DECODE, .item = &item, .n_item = 1,
				     .logits = logits };

	assert_non_null(streams);
	for (size_t i = 0; i < n; i++)
		streams[i] = sinf((float)i);
	if (mtp_run(k->forward, &b, &k->why))
		fail_msg("%s", buf_str(&k->why));
	sequence_free(&s);
	free(streams);
}

/* Nothing in it waits for the host. */
static void test_a_draft_is_a_graph(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	size_t n = 2 * (size_t)kit.cpu.vocab;
	float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
	struct device_view before = step_view(), v;
	struct kset *ks = NULL;

	(void)state;
	assert_int_equal(step_set(all, 1, &ks), 0);
	step_draft(&kit.cpu, kit.cpu.ref, want);
	step_draft(&kit.gpu, ks, got);
	assert_true(step_error(got, want, n) < 1e-4);
	v = step_view();
	assert_int_equal(v.graph_steps - before.graph_steps, 1);
	assert_int_equal(v.plain_steps, before.plain_steps);
	free(want);
	free(got);
	kset_unpin(&ks);
}

static void test_the_cpu_computes_one_op(void **state)
{
	const char *const mixed[] = { "all=cuda-base", "attention=ref" };
	struct device_view before = step_view(), v;
	struct kset *ks = NULL;

	(void)state;
	assert_int_equal(step_set(mixed, 2, &ks), 0);
	step_run(ks);
	v = step_view();
	assert_int_equal(v.plain_steps - before.plain_steps, STEP_DECODE);
	assert_int_equal(v.graph_steps, before.graph_steps);
	assert_non_null(strstr(v.graph_why, "the host"));
	kset_unpin(&ks);
}

static void test_memory_is_given_back(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	struct kset *ks = NULL;
	uint64_t work;

	(void)state;
	work = step_view().work;
	assert_int_equal(step_set(all, 1, &ks), 0);
	step_run(ks);
	assert_int_equal(step_view().work, work);
	kset_unpin(&ks);
}

/* Driver and thread agree which context is meant after one was closed. */
static void test_a_device_is_opened_again(void **state)
{
	struct device *d;

	(void)state;
	for (int i = 0; i < 2; i++) {
		if (device_open("cuda", &d, &kit.gpu.why))
			fail_msg("%s", buf_str(&kit.gpu.why));
		device_close(&d);
	}
	assert_true(step_view().free > 0);
}

/* ---- a GPU too small for the experts ---- */

/* The same answer some times over, by a forward of its own with slots for so many experts; -1: without. */
static float *step_answers(const struct kset *ks, int slots, int times)
{
	size_t vocab = (size_t)kit.gpu.vocab;
	float *logits = calloc((size_t)times * STEP_DECODE * vocab, sizeof *logits), *at = logits;

	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	if (slots >= 0)
		forward_keep_experts(kit.gpu.forward, slots);
	for (int t = 0; t < times; t++) {
		struct sequence *s = tinykit_sequence(&kit.gpu);

		assert_int_equal(tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, kit.token, STEP_PROMPT, 0, NULL), 0);
		for (int i = STEP_PROMPT; i < STEP_PROMPT + STEP_DECODE; i++, at += vocab) {
			const struct forward_item item = { s, kit.token + i, 1, 1 };
			const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_DECODE,
							 .item = &item, .n_item = 1, .logits = at };

			if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
				fail_msg("%s", buf_str(&kit.gpu.why));
		}
		sequence_free(&s);
	}
	return logits;
}

/* 5 layers of 8 experts, 2 of them a token: a step's ten have room, all forty have not, so that some give way. */
static void test_experts_move_by_use(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	size_t bytes = (size_t)(4 * STEP_DECODE * kit.gpu.vocab) * sizeof(float);
	uint64_t plain = step_view().plain_steps;
	struct device_view v;
	struct kset *ks = NULL;
	float *got, *want;

	(void)state;
	assert_true(step_view().experts_host > 1000000);
	assert_int_equal(step_set(all, 1, &ks), 0);
	got = step_answers(ks, 100, 4);
	v = step_view();
	assert_true(v.expert_slots > 10 && v.expert_slots < 40);
	assert_int_equal(v.expert_hits + v.expert_misses, 4 * STEP_DECODE * 5 * 2);
	assert_true(v.expert_hits > 40 && v.expert_misses > v.expert_slots);
	assert_int_equal(v.plain_steps, plain);
	want = step_answers(ks, -1, 4);
	assert_memory_equal(got, want, bytes);
	assert_int_equal(step_view().expert_slots, 0);
	assert_int_equal(step_view().expert_hits, v.expert_hits);
	free(got);
	free(want);
	kset_unpin(&ks);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode_steps_are_graphs),
		cmocka_unit_test(test_a_draft_is_a_graph),
		cmocka_unit_test(test_the_cpu_computes_one_op),
		cmocka_unit_test(test_memory_is_given_back),
		cmocka_unit_test(test_a_device_is_opened_again),
	};
	const struct CMUnitTest small[] = {
		cmocka_unit_test(test_experts_move_by_use),
	};
	const char *top = getenv("top_builddir"), *gpu = getenv("STEP_GPU");
	char path[4096];
	int failed;

	(void)argc;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	puts("the simulator's threads are fibres that sanitizers do not know");
	return 77;
#endif
	snprintf(path, sizeof path, "%s/tests/cusim", top ? top : ".");
	if (!gpu) { /* the loader reads the path at the start */
		setenv("LD_LIBRARY_PATH", path, 1);
		setenv("STEP_GPU", "large", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	if (!strcmp(gpu, "small"))
		return cmocka_run_group_tests(small, step_setup, step_teardown);
	failed = cmocka_run_group_tests(tests, step_setup, step_teardown);
	if (failed)
		return failed;
	setenv("STEP_GPU", "small", 1); /* the stand-in reads its size once */
	setenv("CUSIM_MEMORY", "4000000", 1);
	execv("/proc/self/exe", argv);
	return 1;
}
