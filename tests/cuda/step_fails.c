/* SPDX-License-Identifier: MIT
 * step_fails.c - captured steps that fail on the stand-in for a GPU are tried again with the bits of a run that did not
 * fail; kernels that do not open leave no code behind; all of it again on two. Nothing here ran on a real GPU.
 * Threads: the test's and the steps' own. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/device/queue_priv.h"
#include "engine/device/ranks.h"
#include "engine/model/mtp.h"
#include "tests/cuda/stepkit.h"
#include "tests/unit/oddplug.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The token after it needs so little of a compressor's tail that this shrinks, and reads what is kept of it. */
#define FAILS_PROMPT 35

static int32_t token[FAILS_PROMPT + 1];

static int last_rank(void)
{
	return ranks_n(kit.ranks) - 1;
}

/* ---- a kernel of the last GPU that fails ---- */

static struct provider fails;
static int fails_with;

static int fails_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	(void)a;
	if (host != provider_host(&fails, last_rank()))
		return 0; /* what comes of it is not looked at */
	if (fails_with == -ENOMEM)
		queue_fail((struct queue *)(void *)x, -ENOMEM, "nothing is left");
	return fails_with;
}

static const struct dsv4_op_entry fails_ops[] = { ODDPLUG_OP(moe_route, EXACT, "fails", fails_route) };
static const struct dsv4_plugin fails_plugin = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof fails_plugin, .abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR, .n_op = 1, .signature = DSV4_BUILD_SIGNATURE, .name = "fails",
	.version = "1", .cpu = "", .gpu = "", .op = fails_ops,
};

/* cuda-base, but for that one. */
static struct kset *fails_set(void)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	struct kset *ks = NULL;
	int n = 0, rc = eval_plugins_overlay(&kit.plugins, "all=cuda-base", ov, &n, &kit.gpu.why);

	provider_init(&fails, &fails_plugin, NULL);
	for (int i = 0; i <= last_rank(); i++)
		provider_on(&fails, ranks_device(kit.ranks, i));
	ov[n++] = (struct kset_overlay){ DSV4_MOE, -1, &fails, 1ull << DSV4_OP_moe_route };
	if (rc || kset_build(ov, n, &ks, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	return ks;
}

/* ---- steps ---- */

static int fails_setup(void **state)
{
	int rc = stepkit_setup(state);

	tinykit_tokens(&kit.cpu, 11, token, FAILS_PROMPT + 1);
	return rc;
}

/* The prompt, mostly by the CPU: it is the quicker one here. */
static struct sequence *after_prompt(void)
{
	static const char *const few[] = { "rms_norm=cuda-base" };
	struct sequence *s = tinykit_sequence(&kit.gpu);
	struct kset *ks = stepkit_set(few, 1);

	if (tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, token, FAILS_PROMPT, 0, NULL))
		fail_msg("%s", buf_str(&kit.gpu.why));
	kset_unpin(&ks);
	return s;
}

static int decode(const struct kset *ks, struct sequence *s, float *logits)
{
	buf_clear(&kit.gpu.why);
	return tinykit_step(&kit.gpu, ks, &kit.gpu.exact, s, token + FAILS_PROMPT, 1, 1, logits);
}

/* Twice the vocabulary: of a run that does not fail, and room for another's. */
static float *undisturbed(const struct kset *ks)
{
	float *logits = calloc(2 * (size_t)kit.cpu.vocab, sizeof *logits);
	struct sequence *s = after_prompt();

	assert_non_null(logits);
	if (decode(ks, s, logits))
		fail_msg("%s", buf_str(&kit.gpu.why));
	sequence_free(&s);
	return logits;
}

/* It is where it was, and goes on as if nothing had been. */
static void try_again(const struct kset *ks, struct sequence *s, float *logits)
{
	uint64_t graphs = stepkit_view().graph_steps;

	assert_int_equal(sequence_pos(s), FAILS_PROMPT);
	if (decode(ks, s, logits + kit.cpu.vocab))
		fail_msg("%s", buf_str(&kit.gpu.why));
	assert_memory_equal(logits + kit.cpu.vocab, logits, (size_t)kit.cpu.vocab * sizeof *logits);
	assert_int_equal(stepkit_view().graph_steps, graphs + 1);
}

static void test_a_captured_step_that_failed_is_tried_again(void **state)
{
	static const int with[] = { -EIO, -ENOMEM }, tells[] = { RC_KERNEL, -ENOMEM };
	static const char *const all[] = { "all=cuda-base" };
	struct kset *ks = stepkit_set(all, 1), *bad = fails_set();
	float *logits = undisturbed(ks);

	(void)state;
	for (size_t i = 0; i < mem_countof(with); i++) {
		struct sequence *s = after_prompt();

		fails_with = with[i];
		assert_int_equal(decode(bad, s, logits + kit.cpu.vocab), tells[i]);
		try_again(ks, s, logits);
		sequence_free(&s);
	}
	free(logits);
	kset_unpin(&bad);
	kset_unpin(&ks);
	provider_fini(&fails);
}

/* ---- the draft block ---- */

/* Its positions so far: so many that the next one, alone, shrinks the window's rows, and reads those that are kept. */
#define FAILS_DRAFTS 300

/* Made-up streams, [n][hc][hidden]. */
static int draft(const struct kset *ks, struct sequence *s, enum dsv4_phase phase, int n, float *logits)
{
	const struct model_config *c = kit.cpu.model->config;
	size_t size = (size_t)n * (size_t)c->hc_mult * (size_t)c->hidden_size;
	float *streams = malloc(size * sizeof *streams);
	int32_t next[FAILS_DRAFTS];
	const struct mtp_item item = { s, streams, next, n, logits ? n : 0 };
	const struct mtp_batch b = { .kset = ks, .numerics = &kit.gpu.exact, .phase = phase, .item = &item, .n_item = 1,
				     .logits = logits };
	int rc;

	assert_non_null(streams);
	for (size_t i = 0; i < size; i++)
		streams[i] = sinf((float)i);
	tinykit_tokens(&kit.cpu, (uint32_t)n, next, n);
	buf_clear(&kit.gpu.why);
	rc = mtp_run(kit.gpu.forward, &b, &kit.gpu.why);
	free(streams);
	return rc;
}

static struct sequence *after_drafts(void)
{
	static const char *const few[] = { "rms_norm=cuda-base" };
	struct sequence *s = tinykit_sequence(&kit.gpu);
	struct kset *ks = stepkit_set(few, 1);

	if (draft(ks, s, DSV4_PREFILL, FAILS_DRAFTS, NULL))
		fail_msg("%s", buf_str(&kit.gpu.why));
	kset_unpin(&ks);
	return s;
}

/* Fails by a kernel, or is captured in vain; then again: the bits of `want`. Returned is the sequence, whose memory is
 * not to be had by the next, where what was lost would be found again. */
static struct sequence *expect_draft(const struct kset *first, int rc, const struct kset *ks, const float *want)
{
	struct sequence *s = after_drafts();
	float *logits = calloc((size_t)kit.cpu.vocab, sizeof *logits);

	assert_non_null(logits);
	assert_int_equal(draft(first, s, DSV4_DECODE, 1, logits), rc);
	if (rc)
		assert_int_equal(draft(ks, s, DSV4_DECODE, 1, logits), 0);
	assert_int_equal(sequence_mtp_pos(s), FAILS_DRAFTS + 1);
	assert_memory_equal(logits, want, (size_t)kit.cpu.vocab * sizeof *logits);
	free(logits);
	return s;
}

static void test_a_captured_draft_that_failed_is_tried_again(void **state)
{
	static const char *const all[] = { "all=cuda-base" };
	struct kset *ks = stepkit_set(all, 1), *bad = fails_set(), *other = stepkit_set(all, 1);
	float *want = calloc((size_t)kit.cpu.vocab, sizeof *want);
	struct sequence *s[3];
	char which[16];

	(void)state;
	snprintf(which, sizeof which, "%d", last_rank());
	s[0] = after_drafts();
	assert_int_equal(draft(ks, s[0], DSV4_DECODE, 1, want), 0);
	fails_with = -EIO;
	s[1] = expect_draft(bad, RC_KERNEL, ks, want);
	setenv("CUSIM_NO_GRAPH", which, 1);
	s[2] = expect_draft(other, 0, ks, want);
	unsetenv("CUSIM_NO_GRAPH");
	for (int i = 0; i < 3; i++)
		sequence_free(&s[i]);
	free(want);
	kset_unpin(&other);
	kset_unpin(&bad);
	kset_unpin(&ks);
	provider_fini(&fails);
}

/* ---- no memory for a graph ---- */

static struct device_view view_of(int rank)
{
	struct device_view v;

	device_view(ranks_device(kit.ranks, rank), &v);
	return v;
}

/* A decode step with the right bits, launched as a graph on all GPUs or on none; `why` is what the last one says. */
static void expect_decode(const struct kset *ks, float *logits, bool graph, const char *why)
{
	struct sequence *s = after_prompt();
	struct device_view before[2];

	for (int i = 0; i <= last_rank(); i++)
		before[i] = view_of(i);
	if (decode(ks, s, logits + kit.cpu.vocab))
		fail_msg("%s", buf_str(&kit.gpu.why));
	assert_memory_equal(logits + kit.cpu.vocab, logits, (size_t)kit.cpu.vocab * sizeof *logits);
	for (int i = 0; i <= last_rank(); i++) {
		assert_int_equal(view_of(i).graph_steps - before[i].graph_steps, graph);
		assert_int_equal(view_of(i).plain_steps - before[i].plain_steps, !graph);
	}
	assert_string_equal(view_of(last_rank()).graph_why, why);
	if (last_rank() && !graph)
		assert_string_equal(view_of(0).graph_why, "another GPU has no memory for a graph");
	sequence_free(&s);
}

/* One that has met no want of memory. */
static void new_forward(void)
{
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
}

/* Not in the next passes, but after some of no great length. */
static void retried(const struct kset *ks, float *logits)
{
	struct sequence *s = tinykit_sequence(&kit.gpu);

	expect_decode(ks, logits, false, "no memory for a graph");
	for (int i = 0; i < 64; i++)
		if (tinykit_step(&kit.gpu, kit.gpu.ref, &kit.gpu.exact, s, token, 2, 0, NULL))
			fail_msg("%s", buf_str(&kit.gpu.why));
	expect_decode(ks, logits, true, "");
	sequence_free(&s);
}

/* The last GPU lacks it: no other waits for what it would have gathered, and after a while it is asked for again. */
static void test_a_step_that_no_graph_can_be_had_for_runs_without(void **state)
{
	static const char *const all[] = { "all=cuda-base" }, *const lack[] = { "CUSIM_NO_CAPTURE", "CUSIM_NO_GRAPH" };
	struct kset *ks = stepkit_set(all, 1);
	float *logits = undisturbed(ks);
	char which[16];

	(void)state;
	snprintf(which, sizeof which, "%d", last_rank());
	for (size_t i = 0; i < mem_countof(lack); i++) {
		struct kset *other = stepkit_set(all, 1); /* none of its graphs is kept */

		new_forward();
		setenv(lack[i], which, 1);
		expect_decode(other, logits, false, "no memory for a graph");
		unsetenv(lack[i]);
		if (i == 0)
			retried(other, logits);
		kset_unpin(&other);
	}
	free(logits);
	kset_unpin(&ks);
}

/* The same where the host computes in the midst of a step, so that its beginning is a graph. */
static void test_the_beginning_of_a_step_runs_without_a_graph(void **state)
{
	static const char *const mixed[] = { "all=cuda-base", "moe_route=ref" };
	struct kset *ks = stepkit_set(mixed, 2), *other = stepkit_set(mixed, 2);
	float *logits = undisturbed(ks);
	char which[16];

	(void)state;
	snprintf(which, sizeof which, "%d", last_rank());
	new_forward();
	setenv("CUSIM_NO_GRAPH", which, 1);
	expect_decode(other, logits, false, "no memory for a graph");
	unsetenv("CUSIM_NO_GRAPH");
	free(logits);
	kset_unpin(&other);
	kset_unpin(&ks);
}

/* ---- kernels that do not open ---- */

static struct provider half;

/* Loads code everywhere, and fails on the last. */
static int half_open(const struct dsv4_host *host, void **ret_state)
{
	struct dsv4_module *m;

	(void)ret_state;
	assert_int_equal(host->gpu->module(host, "cusim", &m), 0);
	return host == provider_host(&half, last_rank()) ? -EIO : 0;
}

static const struct dsv4_plugin half_plugin = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof half_plugin, .abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR, .signature = DSV4_BUILD_SIGNATURE, .name = "half", .version = "1",
	.cpu = "", .gpu = "", .open = half_open,
};

static int modules(int rank)
{
	const struct list *all = &ranks_device(kit.ranks, rank)->modules;
	int n = 0;

	for (const struct list *at = all->next; at != all; at = at->next)
		n++;
	return n;
}

static void test_kernels_that_open_on_some_gpus_leave_no_code(void **state)
{
	int n = modules(0);

	(void)state;
	provider_init(&half, &half_plugin, NULL);
	for (int i = 0; i <= last_rank(); i++) {
		provider_on(&half, ranks_device(kit.ranks, i));
		assert_int_equal(modules(i), n);
	}
	assert_int_equal(provider_open(&half, NULL), RC_PLUGIN);
	for (int i = 0; i <= last_rank(); i++)
		assert_int_equal(modules(i), n);
	provider_fini(&half);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_captured_step_that_failed_is_tried_again),
		cmocka_unit_test(test_a_captured_draft_that_failed_is_tried_again),
		cmocka_unit_test(test_a_step_that_no_graph_can_be_had_for_runs_without),
		cmocka_unit_test(test_the_beginning_of_a_step_runs_without_a_graph),
		cmocka_unit_test(test_kernels_that_open_on_some_gpus_leave_no_code),
	};
	const char *run = stepkit_run(argv, "all");
	int failed;

	(void)argc;
	if (!run)
		return 77;
	failed = cmocka_run_group_tests(tests, fails_setup, stepkit_teardown);
	return failed || !strcmp(run, "two") ? failed : stepkit_again(argv, "two");
}
