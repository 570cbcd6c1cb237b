/* SPDX-License-Identifier: MIT
 * cut.c - attention whose heads are cut on two GPUs and on four has the bits of one, prefilled and decoded; on the
 * stand-ins for the driver and for NCCL. Nothing here ran on a real GPU.
 * Threads: the test's and the steps' own. Locks: none. */
#include "tests/cuda/stepkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_PROMPT 21
#define CUT_TOKENS 24

/* A layer of random weights, whose heads and groups are a block of scales each: four GPUs have one. */
static void cut_model(const char *dir)
{
	static const char *const change[][2] = {
		{ "head_dim", "128" }, { "o_groups", "4" }, { "o_lora_rank", "128" }, { "qk_rope_head_dim", "64" },
	};
	const char *src = getenv("top_srcdir"), *build = getenv("top_builddir");
	struct buf command = { 0 };

	buf_adds(&command, "sed");
	for (size_t i = 0; i < sizeof change / sizeof *change; i++)
		buf_printf(&command, " -e 's/\"%s\": [0-9]*/\"%s\": %s/'", change[i][0], change[i][0], change[i][1]);
	buf_printf(&command, " %s/etc/tiny/config.json >%s/config.json && %s/dsv4-mkmodel --config %s/config.json --layers 1 "
		   "--ratios 4 --hash-layers 1 --tokenizer %s/etc/tiny/tokenizer.json %s/model", src ? src : ".", dir,
		   build ? build : ".", dir, src ? src : ".", dir);
	assert_int_equal(system(buf_str(&command)), 0);
	buf_fini(&command);
}

/* What attention gave, before it goes into the streams: the same on every GPU, or rank 0 would not have all of it. */
struct cut_seen {
	float *at;
	bool now;              /* the step's first */
};

static void cut_before(void *arg, const struct forward_op *o)
{
	struct cut_seen *s = arg;
	const struct dsv4_hc_post *a = o->args;

	if (o->op != DSV4_OP_hc_post || !s->now)
		return;
	memcpy(s->at, a->y, (size_t)a->n_tok * (size_t)a->dim * sizeof *a->y);
	s->at += (size_t)a->n_tok * (size_t)a->dim;
	s->now = false;
}

/* [CUT_TOKENS][hidden], malloc'd; *ret_n bytes. */
static float *cut_attention(const char *devices, bool cut, size_t *ret_n)
{
	static const char *const all[] = { "all=cuda-base" };
	struct forward_watch watch = { .before = cut_before };
	int32_t token[CUT_TOKENS];
	struct cut_seen seen;
	struct sequence *s;
	struct kset *ks;
	float *kept;

	setenv("STEP_DEVICES", devices, 1);
	stepkit_setup(NULL);
	assert_int_equal(kit.gpu.model->shard && kit.gpu.model->shard[0]->heads_cut, cut);
	ks = stepkit_set(all, 1);
	s = tinykit_sequence(&kit.gpu);
	tinykit_tokens(&kit.cpu, 3, token, CUT_TOKENS);
	*ret_n = CUT_TOKENS * (size_t)kit.gpu.model->config->hidden_size * sizeof *kept;
	kept = malloc(*ret_n);
	seen.at = kept;
	watch.arg = &seen;
	for (int at = 0, n = CUT_PROMPT; at < CUT_TOKENS; at += n, n = 1) {
		const struct forward_item item = { s, token + at, n, 0 };
		const struct forward_batch b = { .kset = ks, .numerics = &kit.gpu.native, .item = &item, .n_item = 1,
						 .phase = at ? DSV4_DECODE : DSV4_PREFILL, .watch = &watch };

		seen.now = true;
		if (forward_run(kit.gpu.forward, &b, &kit.gpu.why))
			fail_msg("%s: %s", devices, buf_str(&kit.gpu.why));
	}
	assert_ptr_equal(seen.at, (char *)kept + *ret_n);
	sequence_free(&s);
	kset_unpin(&ks);
	stepkit_teardown(NULL);
	return kept;
}

static void test_attention_that_is_cut_has_the_bits_of_one(void **state)
{
	static const char *const several[] = { "cuda:0-1", "cuda:0-3" };
	size_t n, m;
	float *one = cut_attention("cuda:0", false, &n);

	(void)state;
	for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
		float *some = cut_attention(several[i], true, &m);

		assert_int_equal(n, m);
		if (memcmp(one, some, n))
			fail_msg("%s: other bits than of one", several[i]);
		free(some);
	}
	free(one);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_attention_that_is_cut_has_the_bits_of_one) };
	char dir[] = "/tmp/dsv4-cut-XXXXXX", model[64], command[64];
	int failed;

	(void)argc;
	setenv("CUSIM_DEVICES", "4", 1);
	if (!stepkit_run(argv, "cut"))
		return 77;
	if (!mkdtemp(dir))
		return 1;
	cut_model(dir);
	snprintf(model, sizeof model, "%s/model", dir);
	setenv("TINYKIT_MODEL", model, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof command, "rm -r %s", dir);
	return system(command) || failed;
}
