/* SPDX-License-Identifier: MIT
 * variants.c - the plugins that operators argue about, in the whole model: each has the numbers its tag says.
 * Threads: main and the pool's. Locks: none. */
#include "tests/unit/beside.h"

#include <stdlib.h>
#include <string.h>

#define N_TOK 275 /* past two blocks of 128 and past where the indexer begins to choose */

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
	struct distance op[3];
};

static const struct variant variants[] = {
	{ "mhc-bf16", "mhc", {
		{ DSV4_OP_hc_pre, 1e-3, 1e-2, 0.999 },
		{ DSV4_OP_hc_post, 1e-3, 1e-2, 0.999 },
		{ DSV4_OP_hc_head, 1e-3, 1e-2, 0.999 } } },
	{ "attn-splitk", "attention", {
		{ DSV4_OP_attn, 1e-3, 1e-2, 0.999 } } },
};
#define N_VARIANT (sizeof variants / sizeof *variants)

/* The tokens from `decode` on one by one, those before in steps of `chunk`; logits [N_TOK][vocab], malloc'd. */
static float *run(struct tinykit *k, const struct kset *ks, int chunk, int decode)
{
	size_t vocab = (size_t)k->vocab;
	float *logits = malloc(N_TOK * vocab * sizeof *logits);
	struct sequence *s = tinykit_sequence(k);
	int32_t token[N_TOK];

	assert_non_null(logits);
	tinykit_tokens(k, 7, token, N_TOK);
	for (int i = 0, n; i < N_TOK; i += n) {
		n = i >= decode ? 1 : decode - i < chunk ? decode - i : chunk;
		if (tinykit_step(k, ks, &k->native, s, token + i, n, n, logits + (size_t)i * vocab) < 0)
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
			fail_msg("%s %s: %g is not between %g and %g", v->plugin, kset_op_name(d->op), relative,
				d->least, d->most);
		assert_true(o->cosine >= d->cosine);
	}
}

static void test_distances(void **state)
{
	struct tinykit *k = *state;

	for (size_t i = 0; i < 2 * N_VARIANT; i++) {
		const struct variant *v = &variants[i / 2];
		enum dsv4_phase phase = i % 2 ? DSV4_DECODE : DSV4_PREFILL;
		struct kset *other, *ks;
		struct plugkit p;
		struct beside b;

		plugkit_init(&p, v->plugin);
		other = plugkit_set(&p, v->families);
		beside_init(&b, k->ref, other, phase);
		ks = beside_set(&b);
		free(run(k, ks, N_TOK, phase == DSV4_DECODE ? 0 : N_TOK));
		print_message("%s, %s\n", v->plugin, kset_phase_name(phase));
		beside_print(&b);
		check_distance(v, &b);
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
	for (size_t i = 0; i < N_VARIANT; i++) {
		size_t bytes = N_TOK * (size_t)one->vocab * sizeof(float);
		float *whole, *cut, *ref = run(one, one->ref, N_TOK, N_TOK);
		struct plugkit p;
		struct kset *ks;

		plugkit_init(&p, variants[i].plugin);
		ks = plugkit_set(&p, variants[i].families);
		whole = run(one, ks, N_TOK, N_TOK);
		cut = run(&two, ks, 30, 200);
		if (memcmp(whole, cut, bytes))
			fail_msg("%s: other chunks, other bits", variants[i].plugin);
		if (!memcmp(whole, ref, bytes))
			fail_msg("%s: ref's bits, so nothing of it ran", variants[i].plugin);
		free(whole);
		free(cut);
		free(ref);
		kset_unpin(&ks);
		plugkit_fini(&p);
	}
	tinykit_fini(&two);
}

static int setup(void **state)
{
	static struct tinykit k;

	tinykit_init(&k, 1);
	*state = &k;
	return 0;
}

static int teardown(void **state)
{
	tinykit_fini(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mhc_bf16_is_ref_at_bf16),
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_same_bits),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
