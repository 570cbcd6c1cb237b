/* SPDX-License-Identifier: MIT
 * bisect_changes.c - what lies between two sets, change by change: found, grouped, mixed, taken back.
 * Threads: the test's. */
#include "daemon/probes/bisect_changes.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"

#include <stdlib.h>

ODDPLUG(wide, ODDPLUG_OP(rms_norm, EXACT, "fp32", ref_rms_norm), ODDPLUG_OP(rope, EXACT, "fp32", ref_rope),
	ODDPLUG_OP(index_score, EXACT, "fp32", ref_index_score), ODDPLUG_OP(index_topk, EXACT, "fp32", ref_index_topk),
	ODDPLUG_OP(attn, EXACT, "fp32", ref_attn));
ODDPLUG(rounds, ODDPLUG_OP(index_score, LOSSY, "bf16-key", ref_index_score));
ODDPLUG(mixes, ODDPLUG_OP(hc_pre, LOSSY, "bf16-mix", ref_hc_pre), ODDPLUG_OP(hc_post, LOSSY, "bf16-mix", ref_hc_post));
static struct provider *test_plugins[] = { &wide, &rounds, &mixes, NULL };

static int test_init(void **state)
{
	(void)state;
	oddplug_init(test_plugins);
	return 0;
}

/* ---- ends ---- */

struct test_end {
	struct bisect_end end;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
};

/* "a=b c=d", and parameters in the same way. */
static void test_make(struct test_end *e, const char *specs, const char *parameters)
{
	char text[256], *save = NULL;
	struct buf why = { 0 };
	int n = 0, rc = 0;

	strcpy(text, specs);
	for (char *p = strtok_r(text, " ", &save); p && !rc; p = strtok_r(NULL, " ", &save))
		rc = kset_overlays_add(e->ov, &n, p, oddplug_find, test_plugins, &why);
	rc = rc ? rc : kset_overlays_reduce(e->ov, &n, &why);
	e->end = (struct bisect_end){ .ov = e->ov, .n_ov = n };
	rc = rc ? rc : kset_build(e->ov, n, &e->end.kset, &why);
	numerics_init(&e->end.numerics, NUMERICS_NATIVE, 32);
	strcpy(text, parameters);
	for (char *p = strtok_r(text, " ", &save); p && !rc; p = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(p, '=');

		*eq = '\0';
		rc = numerics_set(&e->end.numerics, p, eq + 1, &why);
	}
	if (rc)
		fail_msg("%s %s: %s", specs, parameters, buf_str(&why));
}

struct test_pair {
	struct test_end good, bad;
	struct bisect_changes c;
};

static void test_pair_init(struct test_pair *t, const char *const text[4])
{
	test_make(&t->good, text[0], text[1]);
	test_make(&t->bad, text[2], text[3]);
	bisect_changes_find(&t->good.end, &t->bad.end, &t->c);
}

static void test_pair_fini(struct test_pair *t)
{
	bisect_changes_fini(&t->c);
	kset_unpin(&t->good.end.kset);
	kset_unpin(&t->bad.end.kset);
}

#define PAIR(...) (const char *const[4]){ __VA_ARGS__ }

static uint64_t test_all(const struct test_pair *t)
{
	return ((uint64_t)1 << t->c.n) - 1;
}

static void test_mix(const struct test_pair *t, uint64_t which, const char *name, struct numerics *ret_n)
{
	struct buf why = { 0 };
	struct kset *ks;

	if (bisect_changes_mix(&t->c, which, &ks, ret_n, &why))
		fail_msg("%s", buf_str(&why));
	assert_string_equal(kset_name(ks), name);
	kset_unpin(&ks);
}

static void test_undo(const struct test_pair *t, uint64_t which, bool active, const char *commands)
{
	struct test_end other;
	struct buf out = { 0 }, why = { 0 };

	test_make(&other, "", "");
	assert_int_equal(bisect_changes_undo(&t->c, which, active ? t->bad.end.kset : other.end.kset,
					     active ? &t->bad.end.numerics : &other.end.numerics, &out, &why), 0);
	assert_string_equal(buf_str(&out), commands);
	buf_fini(&out);
	kset_unpin(&other.end.kset);
}

/* ---- tests ---- */

static void a_change_is_an_op_in_a_phase_or_a_parameter(void **state)
{
	static const char *const text[] = { "rope.decode: ref -> wide", "index_topk.prefill: wide -> ref",
					    "attn.prefill: ref -> wide", "attn.decode: ref -> wide",
					    "index_topk: 32 -> 5", "kv_format: fp8 -> bf16" };
	struct test_pair t;

	(void)state;
	test_pair_init(&t, PAIR("indexer=wide", "", "indexer=wide index_topk.prefill=ref attn=wide rope.decode=wide",
				"index_topk=5 kv_format=bf16"));
	assert_int_equal(t.c.n, 6);
	for (int i = 0; i < 6; i++) {
		assert_string_equal(buf_str(&t.c.change[i].text), text[i]);
		assert_string_equal(buf_str(&t.c.change[i].why), "");
		assert_int_equal(t.c.weight[i] < 1, i < 4); /* what is exact, and no file of its own, is believed */
	}
	test_pair_fini(&t);
	test_pair_init(&t, PAIR("attn=wide", "act_quant=none", "attention.prefill=wide attention.decode=wide",
				"act_quant=none"));
	assert_int_equal(t.c.n, 0);
	test_pair_fini(&t);
}

static void any_mixture_is_the_good_end_with_these_changes(void **state)
{
	struct numerics n;
	struct test_pair t;

	(void)state;
	test_pair_init(&t, PAIR("all=wide", "", "mhc=mixes indexer=wide index_topk.decode=ref", "index_topk=5"));
	test_mix(&t, 0, kset_name(t.good.end.kset), &n);
	assert_int_equal(n.index_topk, 32);
	test_mix(&t, test_all(&t), kset_name(t.bad.end.kset), &n);
	assert_memory_equal(&n, &t.bad.end.numerics, sizeof n);
	for (uint64_t which = 0; which <= test_all(&t); which += 37) {
		struct kset *ks;

		assert_int_equal(bisect_changes_mix(&t.c, which, &ks, &n, NULL), 0);
		for (int i = 0; i < t.c.n; i++)
			for (int s = 0; s < DSV4_N_OP * DSV4_N_PHASE; s++) {
				const struct bisect_end *from = which >> i & 1 ? &t.c.bad : &t.c.good;
				enum dsv4_op op = (enum dsv4_op)(s / DSV4_N_PHASE);
				enum dsv4_phase ph = (enum dsv4_phase)(s % DSV4_N_PHASE);

				if (t.c.change[i].slots >> s & 1)
					assert_ptr_equal(kset_slot(ks, op, ph, DSV4_W_F32)->provider,
							 kset_slot(from->kset, op, ph, DSV4_W_F32)->provider);
			}
		kset_unpin(&ks);
	}
	test_pair_fini(&t);
	assert_int_equal(atomic_load(&mixes.users), 0);
}

/* index_key=bf16 with kernels that round to fp4, or the other way round, is what nobody would choose. */
static void a_parameter_and_the_kernels_it_chooses_are_one_change(void **state)
{
	struct numerics n;
	struct test_pair t;

	(void)state;
	test_pair_init(&t, PAIR("", "", "index_score=rounds attn=wide", "index_key=bf16 index_topk=9"));
	assert_int_equal(t.c.n, 4);
	assert_string_equal(buf_str(&t.c.change[3].text), "index_key: fp4 -> bf16; index_score.prefill: ref -> rounds; "
			    "index_score.decode: ref -> rounds");
	assert_string_equal(buf_str(&t.c.change[3].why),
			    "index_key=bf16 and the kernels that round so (bf16-key) are one choice");
	test_mix(&t, 8, "indexer=rounds", &n);
	assert_int_equal(n.index_topk, 32);
	test_pair_fini(&t);
	/* without the parameter the kernels are changes like any other */
	test_pair_init(&t, PAIR("", "", "index_score=rounds", ""));
	assert_int_equal(t.c.n, 2);
	test_pair_fini(&t);
}

static void the_commands_take_back_what_is_in_force(void **state)
{
	struct test_pair t;

	(void)state;
	test_pair_init(&t, PAIR("attn=wide", "", "mhc=mixes indexer=wide", "index_topk=5 kv_format=f32"));
	/* hc_pre x 2, hc_post x 2, index_score x 2, index_topk x 2, attn x 2, two parameters */
	assert_int_equal(t.c.n, 12);
	test_undo(&t, 1 << 1, true, "dsv4ctl kernels use hc_pre.decode=ref\n");
	test_undo(&t, 3 << 8, true, "dsv4ctl kernels use attn=wide\n");
	test_undo(&t, 3 << 6 | 1 << 2, true, "dsv4ctl kernels use hc_post.prefill=ref index_topk=ref\n");
	test_undo(&t, 1 << 10, true, "dsv4ctl param set index_topk=32\n");
	test_undo(&t, 1 << 11 | 1 << 8, true,
		  "dsv4ctl param set kv_format=fp8\ndsv4ctl kernels use attn.prefill=wide\n");
	test_undo(&t, 1 << 10 | 3 << 6, false, "dsv4ctl param set kv_format=f32\n"
		  "dsv4ctl kernels use all=ref mhc=mixes index_score=wide\n");
	test_pair_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_an_op_in_a_phase_or_a_parameter),
		cmocka_unit_test(any_mixture_is_the_good_end_with_these_changes),
		cmocka_unit_test(a_parameter_and_the_kernels_it_chooses_are_one_change),
		cmocka_unit_test(the_commands_take_back_what_is_in_force),
	};

	return cmocka_run_group_tests(tests, test_init, NULL);
}
