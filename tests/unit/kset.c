/* SPDX-License-Identifier: MIT
 * kset.c - kernel sets: what overlays resolve to, and that the forward pass runs exactly that.
 * Threads: main. Locks: none. */
#include "engine/kernels/kset.h"
#include "engine/base/rc.h"
#include "plugins/ref/ref.h"
#include "tests/unit/tinykit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK 140
#define ANY_WEIGHT (~0u)
#define BOTH (1 << DSV4_PREFILL | 1 << DSV4_DECODE)

/* ---- fixture plugins ---- */

static int n_attn, n_topk, n_fail_after;

static int counting_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	n_attn++;
	return ref_attn(x, host, a);
}

/* Keeps the lowest rows instead of the best. */
static int lazy_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	(void)x;
	(void)host;
	n_topk++;
	for (int t = 0; t < a->n_tok; t++) {
		a->count[t] = a->n_vis[t] < a->k ? a->n_vis[t] : a->k;
		for (int i = 0; i < a->count[t]; i++)
			a->rows[t * a->ldr + i] = i;
	}
	return 0;
}

static int failing_experts(struct dsv4_exec *x, const struct dsv4_host *host,
	const struct dsv4_moe_experts *a)
{
	return n_fail_after-- > 0 ? ref_moe_experts(x, host, a) : -EIO;
}

#define ENTRY(op_, phases_, tag_, fn_) \
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##op_, .phases = phases_, .wfmts = ANY_WEIGHT, \
	  .numerics = DSV4_EXACT, .tag = tag_, .fn = (dsv4_any_f *)(fn_) }

static const struct dsv4_op_entry counting_ops[] = { ENTRY(attn, BOTH, "counts", counting_attn) };
static const struct dsv4_op_entry lazy_ops[] = { ENTRY(index_topk, BOTH, "lazy", lazy_topk) };
static const struct dsv4_op_entry failing_ops[] = {
	ENTRY(moe_experts, 1 << DSV4_PREFILL, "fails", failing_experts),
};
/* Whole families, so that plugins lie over each other. */
static const struct dsv4_op_entry scoring_ops[] = {
	ENTRY(index_score, BOTH, "fp32", ref_index_score),
	ENTRY(index_topk, BOTH, "fp32", ref_index_topk),
};
static const struct dsv4_op_entry looking_ops[] = { ENTRY(attn, BOTH, "fp32", ref_attn) };
static const struct dsv4_op_entry broken_ops[] = { ENTRY(attn, BOTH, "no function", NULL) };

#define PLUGIN(name_, ops) \
	static const struct dsv4_plugin name_ = { \
		.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
		.n_op = sizeof ops / sizeof *ops, \
		.signature = DSV4_BUILD_SIGNATURE, .name = #name_, .version = "1", .cpu = "", .op = ops, \
	}
PLUGIN(counting, counting_ops);
PLUGIN(lazy, lazy_ops);
PLUGIN(failing, failing_ops);
PLUGIN(scoring, scoring_ops);
PLUGIN(looking, looking_ops);
PLUGIN(broken, broken_ops);

static const struct dsv4_op_entry wide_ops[] = {
	ENTRY(rms_norm, BOTH, "fp32", ref_rms_norm), ENTRY(rope, BOTH, "fp32", ref_rope),
	ENTRY(index_score, BOTH, "fp32", ref_index_score), ENTRY(index_topk, BOTH, "fp32", ref_index_topk),
	ENTRY(attn, BOTH, "fp32", ref_attn),
};
static const struct dsv4_plugin wide = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR,
	.n_op = sizeof wide_ops / sizeof *wide_ops, .signature = DSV4_BUILD_SIGNATURE, .name = "wide", .version = "1",
	.cpu = "", .op = wide_ops,
};

static struct provider *find(void *arg, const char *name)
{
	static const struct dsv4_plugin *const all[] = { &counting, &lazy, &failing, &scoring, &looking,
		&broken, &wide };
	static struct provider providers[sizeof all / sizeof *all];

	(void)arg;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (strcmp(all[i]->name, name) != 0)
			continue;
		if (!providers[i].plugin)
			provider_init(&providers[i], all[i], NULL);
		return &providers[i];
	}
	return NULL;
}

/* "a=b c=d" -> a set, or the error. */
static int build(const char *specs, struct kset **ret_ks, struct buf *why)
{
	char text[256], *save = NULL;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	int n = 0, rc = 0;

	strcpy(text, specs);
	for (char *p = strtok_r(text, " ", &save); p && rc == 0; p = strtok_r(NULL, " ", &save))
		rc = kset_overlays_add(ov, &n, p, find, NULL, why);
	return rc < 0 ? rc : kset_build(ov, n, ret_ks, why);
}

static struct kset *must_build(const char *specs)
{
	struct buf why = { 0 };
	struct kset *ks = NULL;

	if (build(specs, &ks, &why) < 0)
		fail_msg("%s: %s", specs, buf_str(&why));
	buf_fini(&why);
	return ks;
}

/* ---- resolving ---- */

static const char *provider(const struct kset *ks, enum dsv4_op op, enum dsv4_phase ph)
{
	return kset_slot(ks, op, ph, DSV4_W_F32)->provider->plugin->name;
}

static void test_every_slot_is_ref(void **state)
{
	struct kset *ks = must_build("");

	(void)state;
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
				const struct kset_slot *s = kset_slot(ks, (enum dsv4_op)op,
					(enum dsv4_phase)ph, (enum dsv4_wfmt)wf);

				assert_ptr_equal(s->provider, &provider_ref);
				assert_int_equal(s->entry->op, op);
			}
	assert_string_equal(kset_name(ks), "ref");
	kset_unpin(&ks);
}

static void test_overlay(void **state)
{
	struct kset *ks = must_build("attention.decode=counting indexer=lazy");

	(void)state;
	assert_string_equal(provider(ks, DSV4_OP_attn, DSV4_DECODE), "counting");
	assert_string_equal(provider(ks, DSV4_OP_attn, DSV4_PREFILL), "ref");
	assert_string_equal(provider(ks, DSV4_OP_index_topk, DSV4_PREFILL), "lazy");
	assert_string_equal(provider(ks, DSV4_OP_index_score, DSV4_PREFILL), "ref");
	assert_string_equal(kset_name(ks), "indexer=lazy,attention.decode=counting");
	kset_unpin(&ks);
}

/* Sets that are the same have the same name, however they were asked for, and the name makes that set again. */
static void test_a_name_makes_the_same_set(void **state)
{
	static const char *const same[][3] = {
		{ "attention.prefill=counting,attention.decode=looking",
		  "attention.decode=looking attention.prefill=counting",
		  "attention=counting attention.decode=looking" },
		{ "indexer=scoring,indexer=lazy", "indexer=lazy indexer=scoring indexer=lazy",
		  "indexer.decode=scoring indexer.prefill=scoring indexer=lazy" },
		{ "indexer=scoring,indexer.decode=lazy", "indexer=scoring indexer.decode=lazy",
		  "indexer=lazy indexer=scoring indexer.decode=lazy" },
		{ "indexer.prefill=scoring,indexer.prefill=lazy,indexer.decode=lazy",
		  "indexer.decode=lazy indexer.prefill=scoring indexer.prefill=lazy",
		  "attention=looking indexer=scoring indexer.decode=ref indexer=lazy attention=ref" },
		{ "all=wide", "norm=wide attention=wide indexer=wide", "all=lazy all=wide" },
		{ "all=wide,attention.decode=counting",
		  "attention.decode=counting norm=wide indexer=wide attention.prefill=wide",
		  "all=wide attention.decode=counting" },
		{ "norm=wide,attention=wide", "attention=wide norm=wide", "all=wide indexer=lazy indexer=ref" },
		{ "all=wide,indexer.decode=ref", "norm=wide indexer.prefill=wide attention=wide",
		  "all=wide indexer.decode=ref" },
		{ "norm=wide", "all=wide attention=ref indexer=ref", "norm=wide" },
		/* op by op, where the family does not say it */
		{ "attention.decode=counting", "attn.decode=counting", "attention.decode=counting" },
		{ "rope=wide", "rope=wide", "norm=wide rms_norm=ref" },
		{ "norm=wide", "rope=wide rms_norm=wide", "norm.prefill=wide rms_norm.decode=wide rope.decode=wide" },
		{ "rms_norm=wide,rope.prefill=wide", "rope.prefill=wide rms_norm=wide", "norm=wide rope.decode=ref" },
		{ "all=wide,index_topk=ref", "norm=wide attention=wide index_score=wide", "all=wide index_topk=ref" },
		{ "all=wide,indexer.decode=lazy", "all=wide index_topk.decode=lazy", "all=wide indexer.decode=lazy" },
		{ "index_score=scoring,index_topk.decode=lazy",
		  "indexer=scoring index_topk.prefill=ref index_topk.decode=lazy",
		  "index_topk.decode=lazy index_score=scoring" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		struct kset *first = must_build(same[i][1]), *other = must_build(same[i][2]), *again;
		char name[256];

		assert_string_equal(kset_name(first), same[i][0]);
		assert_string_equal(kset_name(other), same[i][0]);
		snprintf(name, sizeof name, "%s", kset_name(first));
		for (char *c = name; *c; c++)
			*c = *c == ',' ? ' ' : *c;
		again = must_build(name);
		assert_string_equal(kset_name(again), same[i][0]);
		for (int op = 0; op < DSV4_N_OP; op++)
			for (int ph = 0; ph < DSV4_N_PHASE; ph++)
				assert_memory_equal(kset_slot(again, (enum dsv4_op)op, (enum dsv4_phase)ph, DSV4_W_F32),
						    kset_slot(first, (enum dsv4_op)op, (enum dsv4_phase)ph, DSV4_W_F32),
						    sizeof(struct kset_slot));
		kset_unpin(&first);
		kset_unpin(&other);
		kset_unpin(&again);
	}
}

static bool same_slots(const struct kset *a, const struct kset *b)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++)
				if (memcmp(kset_slot(a, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf),
					   kset_slot(b, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf),
					   sizeof(struct kset_slot)) != 0)
					return false;
	return true;
}

/* Whatever is asked for, in whatever order: the name, typed, is that set and has that name. */
static void test_any_name_makes_the_same_set(void **state)
{
	static const char *const part[] = {
		"norm=wide", "rope.decode=wide", "rms_norm=wide", "rope=ref", "norm.prefill=ref", "indexer=scoring",
		"index_topk=lazy", "index_score.decode=wide", "indexer.prefill=wide", "index_topk.prefill=ref",
		"indexer=ref",
		"indexer.decode=lazy", "attn=counting", "attention.decode=looking", "all=wide", "moe.prefill=failing",
		"compress=ref", "index_topk.decode=scoring",
	};
	unsigned x = 7;

	(void)state;
	for (int round = 0; round < 400; round++) {
		struct buf specs = { 0 };
		struct kset *ks, *again;
		char name[256];

		for (unsigned i = 0; i < 1 + round % 7u; i++) {
			x = x * 1664525u + 1013904223u;
			buf_printf(&specs, "%s ", part[(x >> 16) % (sizeof part / sizeof *part)]);
		}
		ks = must_build(buf_str(&specs));
		snprintf(name, sizeof name, "%s", strcmp(kset_name(ks), "ref") ? kset_name(ks) : "all=ref");
		for (char *c = name; *c; c++)
			*c = *c == ',' ? ' ' : *c;
		again = must_build(name);
		if (!same_slots(ks, again) || strcmp(kset_name(ks), kset_name(again)) != 0)
			fail_msg("%s: %s, and that is %s", buf_str(&specs), kset_name(ks), kset_name(again));
		kset_unpin(&ks);
		kset_unpin(&again);
		buf_fini(&specs);
	}
}

static void test_one_op_of_a_family(void **state)
{
	struct kset *ks = must_build("all=wide index_topk.prefill=ref rope=ref");

	(void)state;
	assert_string_equal(provider(ks, DSV4_OP_index_topk, DSV4_PREFILL), "ref");
	assert_string_equal(provider(ks, DSV4_OP_index_topk, DSV4_DECODE), "wide");
	assert_string_equal(provider(ks, DSV4_OP_index_score, DSV4_PREFILL), "wide");
	assert_string_equal(provider(ks, DSV4_OP_rope, DSV4_DECODE), "ref");
	assert_string_equal(provider(ks, DSV4_OP_rms_norm, DSV4_DECODE), "wide");
	kset_unpin(&ks);
}

static void test_what_may_stand_before_the_equals(void **state)
{
	static const char *const good[] = { "attention", "attn.decode", "index_topk", "all", "compress", "moe.x" };
	static const char *const bad[] = { "mhc_precision", "", "al", "ref", ".decode" };

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(kset_overlay_names(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(kset_overlay_names(bad[i], strlen(bad[i])));
}

static void test_later_overlay_wins(void **state)
{
	struct kset *ks = must_build("attention=counting attention.prefill=ref");
	struct kset *back = must_build("indexer=lazy indexer=ref");

	(void)state;
	assert_string_equal(provider(ks, DSV4_OP_attn, DSV4_PREFILL), "ref");
	assert_string_equal(kset_name(ks), "attention.decode=counting");
	assert_string_equal(kset_name(back), "ref");
	assert_true(kset_generation(back) > kset_generation(ks));
	kset_unpin(&ks);
	kset_unpin(&back);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *spec;
		int rc;
		const char *says;
	} cases[] = {
		{ "attention", RC_INVALID, "FAMILY[.PHASE]=PLUGIN" },
		{ "attention=", RC_INVALID, "FAMILY[.PHASE]=PLUGIN" },
		{ "=ref", RC_INVALID, "FAMILY[.PHASE]=PLUGIN" },
		{ "attentoin=ref", RC_INVALID, "gemm, norm, mhc, compress, indexer, attention, moe" },
		{ "attentoin=ref", RC_INVALID,
		  "moe, linear, rms_norm, rope, hc_pre, hc_post, hc_head, index_score, index_topk, attn" },
		{ "rope=counting", RC_KERNEL, "counting offers nothing for rope" },
		{ "moe_experts.decode=failing", RC_KERNEL, "failing offers nothing for moe_experts.decode" },
		{ "attention.warm=ref", RC_INVALID, "prefill, decode" },
		{ "attention=attn-splitk", RC_NOT_FOUND, "no plugin \"attn-splitk\" is loaded" },
		{ "mhc=counting", RC_KERNEL, "counting offers nothing for mhc" },
		{ "moe.decode=failing", RC_KERNEL, "failing offers nothing for moe.decode" },
		{ "attention=broken", RC_PLUGIN, "op entry 0 is malformed" },
	};
	struct buf why = { 0 };
	struct kset *ks = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(build(cases[i].spec, &ks, &why), cases[i].rc);
		if (!strstr(buf_str(&why), cases[i].says))
			fail_msg("%s: %s", cases[i].spec, buf_str(&why));
	}
	assert_null(ks);
	buf_fini(&why);
}

/* What reducing "a=b c=d" leaves, as overlay numbers. */
static void reduces_to(const char *specs, const char *left)
{
	char text[256], *save = NULL;
	struct kset_overlay ov[8], all[8];
	struct buf why = { 0 }, got = { 0 };
	int n = 0, n_all;

	strcpy(text, specs);
	for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save))
		assert_int_equal(kset_overlay_parse(&ov[n++], p, find, NULL, &why), 0);
	n_all = n;
	memcpy(all, ov, sizeof all);
	if (kset_overlays_reduce(ov, &n, &why))
		fail_msg("%s: %s", specs, buf_str(&why));
	for (int i = 0, k = 0; i < n_all; i++)
		if (k < n && memcmp(&all[i], &ov[k], sizeof *ov) == 0) {
			buf_printf(&got, "%d", i);
			k++;
		}
	assert_string_equal(buf_str(&got), left);
	assert_int_equal(n, (int)got.len);
	buf_fini(&got);
}

static void test_reduced_to_what_counts(void **state)
{
	struct kset_overlay bad[1];
	struct buf why = { 0 };
	int n = 1;

	(void)state;
	reduces_to("attention=counting indexer=lazy", "01");
	reduces_to("attention=ref moe.decode=ref", "");                           /* ref over nothing */
	reduces_to("attention=counting attention=ref", "");                       /* and over what it hides */
	reduces_to("attention=counting attention.decode=ref", "01");
	reduces_to("attention.decode=counting attention=counting", "1");          /* hidden by a wider one */
	reduces_to("attention=counting attention.decode=counting", "0");          /* nothing new */
	reduces_to("attention.prefill=counting attention.decode=counting", "01");
	reduces_to("indexer=lazy attention=counting indexer=ref indexer=lazy", "01");
	/* An overlay that offers nothing is an error, hidden or not. */
	bad[0] = (struct kset_overlay){ DSV4_MHC, -1, find(NULL, "counting"), 0 };
	assert_int_equal(kset_overlays_reduce(bad, &n, &why), RC_KERNEL);
	assert_int_equal(n, 1);
	assert_int_equal(atomic_load(&find(NULL, "counting")->users), 0);
	buf_fini(&why);
}

static void unused(void *arg, struct kset *ks)
{
	*(struct kset **)arg = ks;
}

static void test_no_pin_after_the_last(void **state)
{
	struct kset *ks = must_build("attention=counting"), *gone = NULL, *pin;

	(void)state;
	kset_when_unused(ks, unused, &gone);
	assert_true(kset_try_pin(ks));
	assert_int_equal(kset_pins(ks), 2);
	pin = ks;
	kset_unpin(&pin);
	assert_null(gone);
	pin = ks;
	kset_unpin(&pin);
	assert_ptr_equal(gone, ks);
	assert_false(kset_try_pin(gone));
	assert_int_equal(kset_pins(gone), 0);
	assert_int_equal(atomic_load(&find(NULL, "counting")->users), 1); /* until it is freed */
	kset_free(&gone);
	assert_int_equal(atomic_load(&find(NULL, "counting")->users), 0);
}

/* ---- running ---- */

static float *prefill(struct tinykit *k, const char *specs, const int32_t *token)
{
	struct kset *ks = must_build(specs);
	float *logits = tinykit_prefill(k, ks, &k->native, token, N_TOK);

	kset_unpin(&ks);
	return logits;
}

static void test_provider_runs(void **state)
{
	struct tinykit *k = *state;
	size_t bytes = N_TOK * (size_t)k->vocab * sizeof(float);
	int32_t token[N_TOK];
	float *ref, *same, *other;

	tinykit_tokens(k, 3, token, N_TOK);
	n_attn = n_topk = 0;
	ref = prefill(k, "", token);
	same = prefill(k, "attention.decode=counting", token);
	assert_int_equal(n_attn, 0);
	free(same);
	same = prefill(k, "attention=counting", token);
	assert_int_equal(n_attn, k->model->config->n_layers);
	other = prefill(k, "indexer=lazy", token);
	assert_true(n_topk > 0);
	assert_memory_equal(ref, same, bytes);
	assert_memory_not_equal(ref, other, bytes);
	free(ref);
	free(same);
	free(other);
}

static void test_failed_step_leaves_sequence(void **state)
{
	struct tinykit *k = *state;
	size_t row = (size_t)k->vocab;
	float *want = malloc(row * sizeof *want), *got = malloc(row * sizeof *got);
	struct kset *bad = must_build("moe=failing");
	struct sequence *s = tinykit_sequence(k), *clean = tinykit_sequence(k);
	int32_t token[N_TOK];

	tinykit_tokens(k, 4, token, N_TOK);
	assert_int_equal(tinykit_step(k, k->ref, &k->native, clean, token, 50, 0, NULL), 0);
	assert_int_equal(tinykit_step(k, k->ref, &k->native, clean, token + 50, 90, 1, want), 0);
	assert_int_equal(tinykit_step(k, k->ref, &k->native, s, token, 50, 0, NULL), 0);
	for (int layers = 0; layers < k->model->config->n_layers; layers++) {
		n_fail_after = layers;
		assert_int_equal(tinykit_step(k, bad, &k->native, s, token + 40, 70 + layers, 0, NULL),
			RC_KERNEL);
		assert_int_equal(sequence_pos(s), 50);
	}
	assert_string_equal(buf_str(&k->why),
		"moe_experts of failing failed in layer 4, prefill: Input/output error");
	assert_int_equal(tinykit_step(k, k->ref, &k->native, s, token + 50, 90, 1, got), 0);
	assert_memory_equal(want, got, row * sizeof *got);
	sequence_free(&s);
	sequence_free(&clean);
	kset_unpin(&bad);
	free(want);
	free(got);
}

static void test_bad_steps(void **state)
{
	struct tinykit *k = *state;
	int32_t token[] = { 1, 2, k->vocab, -1 };
	struct sequence *s = tinykit_sequence(k);

	assert_int_equal(tinykit_step(k, k->ref, &k->native, s, token, 3, 0, NULL), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "token 2 is 2048; the vocabulary has 0 to 2047");
	assert_int_equal(tinykit_step(k, k->ref, &k->native, s, token + 3, 1, 0, NULL), RC_INVALID);
	assert_int_equal(tinykit_step(k, k->ref, &k->native, s, token, 2, 0, NULL), 0);
	assert_int_equal(sequence_pos(s), 2);
	sequence_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_slot_is_ref),
		cmocka_unit_test(test_overlay),
		cmocka_unit_test(test_a_name_makes_the_same_set),
		cmocka_unit_test(test_any_name_makes_the_same_set),
		cmocka_unit_test(test_one_op_of_a_family),
		cmocka_unit_test(test_what_may_stand_before_the_equals),
		cmocka_unit_test(test_later_overlay_wins),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_reduced_to_what_counts),
		cmocka_unit_test(test_no_pin_after_the_last),
		cmocka_unit_test(test_provider_runs),
		cmocka_unit_test(test_failed_step_leaves_sequence),
		cmocka_unit_test(test_bad_steps),
	};

	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
