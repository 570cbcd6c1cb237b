/* SPDX-License-Identifier: MIT
 * variants.c - the plugins that operators argue about, in the whole model: each has the numbers its tag says.
 * Threads: main and the pool's. Locks: none. */
#include "tests/unit/beside.h"
#include "tests/unit/sanitized.h"

#include <stdlib.h>
#include <string.h>

#define N_TOK 150  /* past a block of 128 and past where the indexer begins to choose */
#define DECODE 120 /* from here on one by one, in runs of the decode slots */

static void set(struct tinykit *k, struct numerics *num, const char *name, const char *value)
{
	if (numerics_set(num, name, value, &k->why) < 0)
		fail_msg("%s=%s: %s", name, value, buf_str(&k->why));
}

static float *prefill(struct tinykit *k, const struct kset *ks, const struct numerics *num)
{
	int32_t token[N_TOK];

	tinykit_tokens(k, 7, token, N_TOK);
	return tinykit_prefill(k, ks, num, token, N_TOK);
}

/* "bf16-mix" is what mhc_precision=bf16 asks ref for, bit by bit, and not what fp32 asks for. */
static void test_mhc_bf16_is_ref_at_bf16(void **state)
{
	struct tinykit *k = *state;
	struct plugkit p;
	struct kset *ks;
	size_t bytes = N_TOK * (size_t)k->vocab * sizeof(float);

	plugkit_init(&p, "mhc-bf16");
	ks = plugkit_set(&p, "mhc");
	for (int i = 0; i < 2; i++) {
		const struct numerics *fp32 = i ? &k->exact : &k->native;
		struct numerics bf16 = *fp32;
		float *got, *want, *other;

		set(k, &bf16, "mhc_precision", "bf16");
		got = prefill(k, ks, fp32);
		want = prefill(k, k->ref, &bf16);
		other = prefill(k, k->ref, fp32);
		assert_memory_equal(got, want, bytes);
		assert_memory_not_equal(got, other, bytes);
		free(got);
		free(want);
		free(other);
	}
	kset_unpin(&ks);
	plugkit_fini(&p);
}

/* ---- how far each is from ref, op by op, on the model's own activations ---- */

/* What an op's results may and must differ by. */
struct distance {
	enum dsv4_op op;
	double least, most; /* relative error over all calls */
	double cosine;      /* at least, of each call */
};

struct variant {
	const char *plugin, *families;
	bool exact;         /* profile; with native the indexer's rows are rounded already */
	struct distance op[3];
};

static const struct variant variants[] = {
	{ "mhc-bf16", "mhc", false, {
		{ DSV4_OP_hc_pre, 1e-3, 1e-2, 0.999 },
		{ DSV4_OP_hc_post, 1e-3, 1e-2, 0.999 },
		{ DSV4_OP_hc_head, 1e-3, 1e-2, 0.999 } } },
	{ "attn-splitk", "attention", false, {
		{ DSV4_OP_attn, 1e-3, 1e-2, 0.999 } } },
	{ "indexer-bf16", "indexer", true, {
		{ DSV4_OP_index_score, 1e-4, 1e-2, 0.999 } } },
	{ "indexer-fp8", "indexer", true, {
		{ DSV4_OP_index_score, 1e-3, 1e-1, 0.99 } } },
};
#define N_VARIANT (sizeof variants / sizeof *variants)

/* The tokens from `decode` on one by one, those before in steps of `chunk`; logits [N_TOK][vocab], malloc'd. */
static float *run(struct tinykit *k, const struct kset *ks, bool exact, int chunk, int decode)
{
	size_t vocab = (size_t)k->vocab;
	float *logits = malloc(N_TOK * vocab * sizeof *logits);
	struct sequence *s = tinykit_sequence(k);
	int32_t token[N_TOK];

	assert_non_null(logits);
	tinykit_tokens(k, 7, token, N_TOK);
	for (int i = 0, n; i < N_TOK; i += n) {
		n = i >= decode ? 1 : decode - i < chunk ? decode - i : chunk;
		if (tinykit_step(k, ks, exact ? &k->exact : &k->native, s, token + i, n, n,
				 logits + (size_t)i * vocab) < 0)
			fail_msg("%s", buf_str(&k->why));
	}
	sequence_free(&s);
	return logits;
}

static void check_distance(const struct variant *v, const struct beside *b)
{
	for (const struct distance *d = v->op; d < v->op + 3 && d->most > 0; d++) {
		const struct beside_op *o = &b->op[d->op];
		double relative = op_diff_relative(&o->all);

		assert_true(o->n_call > 0);
		if (!(relative >= d->least && relative <= d->most))
			fail_msg("%s %s: %g is not between %g and %g", v->plugin, op_name(d->op), relative,
				d->least, d->most);
		assert_true(o->cosine >= d->cosine);
	}
}

static void test_distances(void **state)
{
	struct tinykit *k = *state;

	for (size_t i = 0; i < 2 * N_VARIANT; i += WARM_STEP) {
		const struct variant *v = &variants[i / 2];
		enum dsv4_phase phase = i % 2 ? DSV4_DECODE : DSV4_PREFILL;
		struct kset *other, *ks;
		struct plugkit p;
		struct beside b;

		plugkit_init(&p, v->plugin);
		other = plugkit_set(&p, v->families);
		beside_init(&b, k->ref, other, phase);
		ks = beside_set(&b);
		free(run(k, ks, v->exact, N_TOK, phase == DSV4_DECODE ? DECODE : N_TOK));
		print_message("%s, %s\n", v->plugin, op_phase_name(phase));
		beside_print(&b);
		check_distance(v, &b);
		kset_unpin(&ks);
		kset_unpin(&other);
		beside_fini(&b);
		plugkit_fini(&p);
	}
}

/* moe-fused promises ref's bits; so does its distance from ref on every call. */
static void test_moe_fused_is_exact(void **state)
{
	struct tinykit *k = *state;

	for (int i = 0; i < 4; i += WARM_STEP) {
		enum dsv4_phase phase = i % 2 ? DSV4_DECODE : DSV4_PREFILL;
		struct kset *other, *ks;
		struct plugkit p;
		struct beside b;

		plugkit_init(&p, "moe-fused");
		other = plugkit_set(&p, "moe");
		beside_init(&b, k->ref, other, phase);
		ks = beside_set(&b);
		free(run(k, ks, i / 2, N_TOK, phase == DSV4_DECODE ? DECODE : N_TOK));
		assert_true(b.op[DSV4_OP_moe_route].n_call > 0 && b.op[DSV4_OP_moe_experts].n_call > 0);
		assert_int_equal(b.op[DSV4_OP_moe_route].all.n_bits, 0);
		assert_int_equal(b.op[DSV4_OP_moe_experts].all.n_bits, 0);
		kset_unpin(&ks);
		kset_unpin(&other);
		beside_fini(&b);
		plugkit_fini(&p);
	}
}

/* A token's logits are the same bits however the tokens are cut and threaded, and not ref's. */
static void test_same_bits(void **state)
{
	struct tinykit *one = *state, two;

	tinykit_init(&two, 2);
	for (size_t i = 0; i < N_VARIANT; i += WARM_STEP) {
		const struct variant *v = &variants[i];
		size_t bytes = N_TOK * (size_t)one->vocab * sizeof(float);
		float *whole, *cut, *ref = run(one, one->ref, v->exact, N_TOK, N_TOK);
		struct plugkit p;
		struct kset *ks;

		plugkit_init(&p, v->plugin);
		ks = plugkit_set(&p, v->families);
		whole = run(one, ks, v->exact, N_TOK, N_TOK);
		cut = run(&two, ks, v->exact, 30, DECODE + 10);
		if (memcmp(whole, cut, bytes))
			fail_msg("%s: other chunks, other bits", v->plugin);
		if (!memcmp(whole, ref, bytes))
			fail_msg("%s: ref's bits, so nothing of it ran", v->plugin);
		free(whole);
		free(cut);
		free(ref);
		kset_unpin(&ks);
		plugkit_fini(&p);
	}
	tinykit_fini(&two);
}

/* Rows that index_key=fp4 has rounded are bf16 and e4m3 values already: rounding them again changes nothing. */
static void test_indexers_add_nothing_to_fp4(void **state)
{
	static const char *const names[] = { "indexer-bf16", "indexer-fp8" };
	struct tinykit *k = *state;
	float *want = run(k, k->ref, false, N_TOK, N_TOK);

	for (int i = 0; i < 2; i++) {
		struct plugkit p;
		struct kset *ks;
		float *got;

		plugkit_init(&p, names[i]);
		ks = plugkit_set(&p, "indexer");
		got = run(k, ks, false, N_TOK, N_TOK);
		if (memcmp(got, want, N_TOK * (size_t)k->vocab * sizeof *got))
			fail_msg("%s: other bits than ref", names[i]);
		free(got);
		kset_unpin(&ks);
		plugkit_fini(&p);
	}
	free(want);
}

/* Tokens that keep all their rows are not scored, unless somebody looks. */
static void test_the_score_op_is_told_top_k(void **state)
{
	struct tinykit *k = *state;
	uint64_t want = 0;
	struct beside b;
	struct kset *ks;

	beside_init(&b, k->ref, k->ref, DSV4_PREFILL);
	ks = beside_set(&b);
	free(run(k, ks, false, N_TOK, N_TOK));
	for (int l = 0; l < k->model->config->n_layers; l++)
		for (int t = 0; t < N_TOK && k->model->layout.layer[l].overlap; t++) {
			int n = (t + 1) / k->model->layout.layer[l].ratio;

			want += (uint64_t)(n > k->native.index_topk ? n : 0);
		}
	assert_true(want > 0);
	assert_int_equal(b.op[DSV4_OP_index_score].all.n, want);
	kset_unpin(&ks);
	beside_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mhc_bf16_is_ref_at_bf16),
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_moe_fused_is_exact),
		cmocka_unit_test(test_same_bits),
		cmocka_unit_test(test_indexers_add_nothing_to_fp4),
		cmocka_unit_test(test_the_score_op_is_told_top_k),
	};

	warm_say();
	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
