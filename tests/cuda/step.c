/* SPDX-License-Identifier: MIT
 * step.c - steps of the tiny model on the stand-in for a GPU: ref's numbers within rounding, decode steps as graphs,
 * sets that mix a GPU's kernels and the CPU's, what a tap gets at the end; all of it again on two of them. Nothing here
 * ran on a real GPU.
 * Threads: the test's. Locks: none. */
#include "engine/model/mtp.h"
#include "tests/cuda/stepkit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
		const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_DECODE,
						 .item = &item, .n_item = 1, .logits = logits };

		if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
			fail_msg("%s", buf_str(&kit.gpu.why));
		step_near(logits, i, 1);
	}
	free(logits);
	sequence_free(&s);
}

static void test_decode_steps_are_graphs(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	struct kset *ks = NULL, *again = NULL;
	struct device_view v;
	uint64_t graphs;

	(void)state;
	ks = stepkit_set(all, 1);
	step_run(ks);
	v = stepkit_view();
	assert_int_equal(v.graph_steps, STEP_DECODE); /* of the first GPU, where there are two */
	assert_int_equal(v.plain_steps, 0);
	assert_string_equal(v.graph_why, "");
	assert_true(v.graphs >= 1 && v.graphs < STEP_DECODE); /* with and without a group completed */
	assert_true(v.graph_nodes > 50);
	graphs = v.graphs;
	/* Another set is captured anew. */
	again = stepkit_set(all, 1);
	step_run(again);
	v = stepkit_view();
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
	const struct mtp_batch b = { .kset = ks, .numerics = &k->exact, .phase = DSV4_DECODE, .item = &item,
				     .n_item = 1, .logits = logits };

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
	struct device_view before = stepkit_view(), v;
	struct kset *ks = NULL;

	(void)state;
	ks = stepkit_set(all, 1);
	step_draft(&kit.cpu, kit.cpu.ref, want);
	step_draft(&kit.gpu, ks, got);
	assert_true(step_error(got, want, n) < 1e-4);
	v = stepkit_view();
	assert_int_equal(v.graph_steps - before.graph_steps, 1);
	assert_int_equal(v.plain_steps, before.plain_steps);
	free(want);
	free(got);
	kset_unpin(&ks);
}

static void test_the_cpu_computes_one_op(void **state)
{
	const char *const mixed[] = { "all=cuda-base", "attention=ref" };
	struct device_view before = stepkit_view(), v;
	struct kset *ks = NULL;

	(void)state;
	ks = stepkit_set(mixed, 2);
	step_run(ks);
	v = stepkit_view();
	assert_int_equal(v.plain_steps - before.plain_steps, STEP_DECODE);
	assert_int_equal(v.graph_steps, before.graph_steps);
	assert_non_null(strstr(v.graph_why, "the host"));
	kset_unpin(&ks);
}

/* ---- what a tap gets at the end ---- */

/* Their streams do not fit in a chunk of what is staged, so that it has several; the logits fit where streams were. */
#define STEP_MANY 600
#define STEP_WANT 100

static void step_keep(void *arg, int n_tok, const float *streams)
{
	const struct model_config *c = kit.gpu.model->config;

	memcpy(arg, streams, (size_t)n_tok * (size_t)c->hc_mult * (size_t)c->hidden_size * sizeof *streams);
}

/* A prompt's streams behind the last layer. Without logits the head is not computed. */
static float *step_streams(const struct kset *ks, const struct forward_watch *watch, const int32_t *token, int n,
	int want, float *logits)
{
	const struct model_config *c = kit.gpu.model->config;
	float *kept = calloc((size_t)n * (size_t)c->hc_mult * (size_t)c->hidden_size, sizeof *kept);
	struct sequence *s = tinykit_sequence(&kit.gpu);
	const struct forward_item item = { s, token, n, want };
	const struct forward_tap tap = { .arg = kept, .end = step_keep };
	const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_PREFILL, .item = &item,
					 .n_item = 1, .tap = &tap, .watch = watch, .logits = logits };

	assert_non_null(kept);
	if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	sequence_free(&s);
	return kept;
}

/* The same behind the draft block, from streams that are made up. */
static float *step_draft_streams(const struct kset *ks, const struct forward_watch *none, const int32_t *token, int n,
	int want, float *logits)
{
	const struct model_config *c = kit.gpu.model->config;
	size_t size = (size_t)n * (size_t)c->hc_mult * (size_t)c->hidden_size;
	float *kept = calloc(size, sizeof *kept), *streams = calloc(size, sizeof *streams);
	struct sequence *s = tinykit_sequence(&kit.gpu);
	const struct mtp_item item = { s, streams, token, n, want };
	const struct forward_tap tap = { .arg = kept, .end = step_keep };
	const struct mtp_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = DSV4_PREFILL, .item = &item,
				     .n_item = 1, .tap = &tap, .logits = logits };

	(void)none;
	assert_true(kept && streams);
	for (size_t i = 0; i < size; i++)
		streams[i] = sinf((float)i);
	if (mtp_run(kit.gpu.forward, &b, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	sequence_free(&s);
	free(streams);
	return kept;
}

typedef float *step_streams_f(const struct kset *ks, const struct forward_watch *watch, const int32_t *token, int n,
	int want, float *logits);

/* The head leaves them as they are without it. */
static void step_same_streams(step_streams_f *run, const char *spec, const struct forward_watch *watch, int n, int want)
{
	const struct model_config *c = kit.gpu.model->config;
	int32_t token[STEP_MANY];
	float *logits = calloc((size_t)want * (size_t)kit.cpu.vocab, sizeof *logits), *alone, *headed;
	struct kset *ks = stepkit_set(&spec, 1);

	assert_non_null(logits);
	tinykit_tokens(&kit.cpu, 5, token, n);
	alone = run(ks, watch, token, n, 0, NULL);
	headed = run(ks, watch, token, n, want, logits);
	assert_memory_equal(headed, alone, (size_t)n * (size_t)c->hc_mult * (size_t)c->hidden_size * sizeof *alone);
	free(alone);
	free(headed);
	free(logits);
	kset_unpin(&ks);
}

static void test_streams_are_not_overwritten_by_a_head_of_the_cpu(void **state)
{
	(void)state;
	step_same_streams(step_streams, "rms_norm=cuda-base", NULL, STEP_MANY, STEP_WANT);
	step_same_streams(step_draft_streams, "rms_norm=cuda-base", NULL, STEP_MANY, STEP_WANT);
}

static void step_watched(void *arg, const struct forward_op *o)
{
	(void)o;
	++*(int *)arg;
}

static void test_streams_are_not_overwritten_where_somebody_looks_on(void **state)
{
	int n = 0;
	const struct forward_watch watch = { .arg = &n, .before = step_watched, .after = step_watched };

	(void)state;
	step_same_streams(step_streams, "all=cuda-base", &watch, STEP_PROMPT, STEP_PROMPT);
	assert_true(n > 100);
}

/* Where GPUs are more than the head has tiles: nobody waits for who has none. */
static void test_a_gpu_without_rows_of_the_head(void **state)
{
	static const char *const few[] = { "rms_norm=cuda-base" };
	const struct model *m = kit.gpu.model;
	struct dsv4_weight had[2];
	struct kset *ks = stepkit_set(few, 1);

	(void)state;
	assert_true(m->n_rank <= 2);
	for (int i = 0; i < m->n_rank && m->shard; i++) {
		struct dsv4_weight *head = &m->shard[i]->weights->head;

		had[i] = *head;
		*head = m->weights->head;
		head->rows = i ? 0 : head->rows;
	}
	step_run(ks);
	for (int i = 0; i < m->n_rank && m->shard; i++)
		m->shard[i]->weights->head = had[i];
	kset_unpin(&ks);
}

/* ---- memory ---- */

static void test_memory_is_given_back(void **state)
{
	const char *const all[] = { "all=cuda-base" };
	struct kset *ks = NULL;
	uint64_t work;

	(void)state;
	work = stepkit_view().work;
	ks = stepkit_set(all, 1);
	step_run(ks);
	assert_int_equal(stepkit_view().work, work);
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
	assert_true(stepkit_view().free > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode_steps_are_graphs),
		cmocka_unit_test(test_a_draft_is_a_graph),
		cmocka_unit_test(test_the_cpu_computes_one_op),
		cmocka_unit_test(test_streams_are_not_overwritten_by_a_head_of_the_cpu),
		cmocka_unit_test(test_streams_are_not_overwritten_where_somebody_looks_on),
		cmocka_unit_test(test_a_gpu_without_rows_of_the_head),
		cmocka_unit_test(test_memory_is_given_back),
		cmocka_unit_test(test_a_device_is_opened_again),
	};

	const char *run = stepkit_run(argv, "all");
	int failed;

	(void)argc;
	if (!run)
		return 77;
	failed = cmocka_run_group_tests(tests, stepkit_setup, stepkit_teardown);
	return failed || !strcmp(run, "two") ? failed : stepkit_again(argv, "two");
}
