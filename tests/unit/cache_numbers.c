/* SPDX-License-Identifier: MIT
 * cache_numbers.c - which kernel sets and parameters share a cache, and the names of its blocks.
 * Threads: main. Locks: none. */
#include "engine/cache/cache_numbers.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_key.h"
#include "plugins/ref/ref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BOTH (1 << DSV4_PREFILL | 1 << DSV4_DECODE)
#define DECODE (1 << DSV4_DECODE)
#define ENTRY(op_, phases_, numerics_, fn_) \
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##op_, .phases = phases_, .wfmts = ~0u, \
	  .numerics = numerics_, .tag = "tag", .fn = (dsv4_any_f *)(fn_) }

static int other_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	return ref_attn(x, host, a);
}

static const struct dsv4_op_entry exact_ops[] = {
	ENTRY(attn, BOTH, DSV4_EXACT, ref_attn), ENTRY(rms_norm, DECODE, DSV4_EXACT, ref_rms_norm),
};
static const struct dsv4_op_entry order_ops[] = { ENTRY(attn, BOTH, DSV4_ORDER, ref_attn) };
static const struct dsv4_op_entry lossy_ops[] = {
	ENTRY(attn, BOTH, DSV4_LOSSY, ref_attn), ENTRY(rms_norm, BOTH, DSV4_LOSSY, ref_rms_norm),
};
static const struct dsv4_op_entry two_ops[] = {
	ENTRY(attn, 1 << DSV4_PREFILL, DSV4_ORDER, ref_attn), ENTRY(attn, DECODE, DSV4_ORDER, other_attn),
};

#define PLUGIN(name_, ops_) { \
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
	.n_op = mem_countof(ops_), .signature = DSV4_BUILD_SIGNATURE, .name = name_, .version = "1", .cpu = "", \
	.op = ops_ }
static const struct dsv4_plugin plugins[] = {
	PLUGIN("exact", exact_ops), PLUGIN("order", order_ops), PLUGIN("lossy", lossy_ops), PLUGIN("two", two_ops),
};
static struct provider provider[mem_countof(plugins)];

static struct provider *find(void *arg, const char *name)
{
	(void)arg;
	for (size_t i = 0; i < mem_countof(plugins); i++)
		if (strcmp(plugins[i].name, name) == 0)
			return &provider[i];
	return NULL;
}

/* Of up to two overlays. */
static struct kset *build(const char *first, const char *second)
{
	struct kset_overlay ov[2] = { 0 };
	struct kset *ks;
	int n = 0;

	if (first)
		assert_int_equal(kset_overlay_parse(&ov[n++], first, find, NULL, NULL), 0);
	if (second)
		assert_int_equal(kset_overlay_parse(&ov[n++], second, find, NULL, NULL), 0);
	assert_int_equal(kset_build(ov, n, &ks, NULL), 0);
	return ks;
}

static void native(struct numerics *n)
{
	numerics_init(n, NUMERICS_NATIVE, 32);
}

struct id { uint8_t byte[32]; };

static struct id id_of(const char *first, const char *second)
{
	struct kset *ks = build(first, second);
	struct numerics n;
	struct id id;

	native(&n);
	cache_numbers(ks, &n, id.byte);
	kset_unpin(&ks);
	return id;
}

static void same(struct id a, struct id b)
{
	assert_memory_equal(a.byte, b.byte, sizeof a.byte);
}

static void differ(struct id a, struct id b)
{
	assert_memory_not_equal(a.byte, b.byte, sizeof a.byte);
}

/* ---- kernel sets ---- */

static void test_exact_kernels_share_with_ref(void **state)
{
	(void)state;
	same(id_of(NULL, NULL), id_of("attention=exact", NULL));
	same(id_of(NULL, NULL), id_of("attention=exact", "norm=exact"));
	same(id_of("attention=order", NULL), id_of("attention=order", "norm=exact"));
	same(id_of(NULL, NULL), id_of("attention=lossy", "attention=ref"));
}

static void test_others_share_with_themselves_only(void **state)
{
	(void)state;
	same(id_of("attention=lossy", NULL), id_of("attention=lossy", NULL));
	differ(id_of(NULL, NULL), id_of("attention=order", NULL));
	differ(id_of(NULL, NULL), id_of("attention=lossy", NULL));
	differ(id_of("attention=order", NULL), id_of("attention=lossy", NULL));
	differ(id_of("attention=lossy", NULL), id_of("norm=lossy", NULL));
	differ(id_of("attention=lossy", NULL), id_of("attention=lossy", "norm=lossy"));
	differ(id_of("attention=lossy", NULL), id_of("attention.decode=lossy", NULL));
}

static void test_a_plugin_is_its_file(void **state)
{
	struct id before = id_of("attention=lossy", NULL);

	(void)state;
	strcpy(provider[2].sha256, "another build of it");
	differ(before, id_of("attention=lossy", NULL));
	provider[2].sha256[0] = '\0';
	same(before, id_of("attention=lossy", NULL));
}

static bool phases_agree(const char *spec)
{
	struct kset *ks = build(spec, NULL);
	bool agree = cache_phases_agree(ks);

	kset_unpin(&ks);
	return agree;
}

/* A stranger's mark EXACT had its rows found by ref and the other way round. */
static void test_a_strangers_exact_kernel_shares_with_itself_only(void **state)
{
	struct id ref = id_of(NULL, NULL), one;

	(void)state;
	strcpy(provider[0].sha256, "a stranger's");
	one = id_of("attention=exact", NULL);
	differ(ref, one);
	same(one, id_of("attention=exact", NULL));
	same(ref, id_of(NULL, NULL));
	assert_false(phases_agree("attention.decode=exact"));
	assert_false(phases_agree("norm=exact")); /* ref prefills */
	assert_true(phases_agree("attention=exact"));
	provider_disprove(&provider[0], "it differs");
	assert_non_null(provider_disproved(&provider[0]));
	same(ref, id_of(NULL, NULL)); /* it never had a part in that */
	same(one, id_of("attention=exact", NULL));
	strcpy(provider[0].sha256, "a stranger's other build");
	differ(one, id_of("attention=exact", NULL));
	provider[0].shipped = true;
	same(ref, id_of("attention=exact", NULL));
	assert_true(phases_agree("norm=exact"));
	provider[0].shipped = false;
	provider[0].sha256[0] = '\0';
}

/* What it had a part in cannot be told any more: no set, not even ref, finds what was there before. */
static void test_what_was_disproved_leaves_the_common_cache_and_takes_it_along(void **state)
{
	struct id ref = id_of(NULL, NULL), lossy = id_of("attention=lossy", NULL), after;
	int before = disproved_count();

	(void)state;
	provider_disprove(&provider_ref, "nobody disproves ref");
	same(ref, id_of(NULL, NULL));
	strcpy(provider[0].sha256, "shipped and wrong");
	provider[0].shipped = true;
	same(ref, id_of("attention=exact", NULL));
	provider_disprove(&provider[0], "row 3 differs");
	after = id_of(NULL, NULL);
	differ(ref, after);
	differ(lossy, id_of("attention=lossy", NULL));
	differ(after, id_of("attention=exact", NULL));
	assert_false(phases_agree("norm=exact"));
	assert_string_equal(provider_disproved(&provider[0])->why, "row 3 differs");
	provider_disprove(&provider[0], "once is enough");
	assert_int_equal(disproved_count(), before + 1);
	same(after, id_of(NULL, NULL));
	strcpy(provider[0].sha256, "shipped and mended");
	same(after, id_of("attention=exact", NULL));
	provider[0].shipped = false;
	provider[0].sha256[0] = '\0';
}

/* A rebuilt program, or another libm, went on with the disk cache of the one before. */
static void test_another_arithmetic_has_another_cache(void **state)
{
	static const uint8_t none[32], other[32] = { [31] = 1 };
	struct id zero, one;

	(void)state;
	cache_numbers_arithmetic(none);
	zero = id_of(NULL, NULL);
	cache_numbers_arithmetic(other);
	one = id_of(NULL, NULL);
	differ(zero, one);
	cache_numbers_arithmetic(none);
	same(zero, id_of(NULL, NULL));
}

/* A plugin that chooses its instructions by the CPU computes other bits on another; what is exact does not. */
static void test_another_cpu_has_another_cache_but_of_what_is_exact(void **state)
{
	struct id exact, others;

	(void)state;
	cache_numbers_machine("avx2");
	exact = id_of(NULL, NULL);
	others = id_of("attention=order", NULL);
	cache_numbers_machine("avx2 avx512_bf16");
	same(exact, id_of(NULL, NULL));
	differ(others, id_of("attention=order", NULL));
	cache_numbers_machine("avx2");
	same(others, id_of("attention=order", NULL));
}

/* On more GPUs the experts' sums are added up in another order, by whatever kernels. */
static void test_other_ranks_have_another_cache(void **state)
{
	struct id one = id_of(NULL, NULL), two;

	(void)state;
	cache_numbers_ranks(2);
	two = id_of(NULL, NULL);
	differ(one, two);
	cache_numbers_ranks(3);
	differ(two, id_of(NULL, NULL));
	cache_numbers_ranks(1);
	same(one, id_of(NULL, NULL));
}

static void test_every_parameter_counts_but_drop_thinking(void **state)
{
	struct kset *ks = build(NULL, NULL);
	struct numerics n, exact;
	struct id id, other;

	(void)state;
	native(&n);
	numerics_init(&exact, NUMERICS_EXACT, 32);
	cache_numbers(ks, &n, id.byte);
	for (int i = 0; i < numerics_count; i++) {
		struct numerics m = n;

		*(int32_t *)((char *)&m + numerics_table[i].offset) += 1;
		cache_numbers(ks, &m, other.byte);
		assert_int_equal(memcmp(&id, &other, sizeof id) == 0, numerics_same_state(&n, &m));
		assert_int_equal(memcmp(&id, &other, sizeof id) == 0,
			strcmp(numerics_table[i].name, "drop_thinking") == 0);
	}
	kset_unpin(&ks);
}

static void test_phases(void **state)
{
	static const struct {
		const char *spec;
		bool agree;
	} rows[] = {
		{ NULL, true }, { "attention=exact", true }, { "norm=exact", true }, { "attention=order", true },
		{ "attention=lossy", true }, { "attention.decode=exact", true }, { "attention.decode=order", false },
		{ "attention.prefill=lossy", false }, { "attention=two", false },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		struct kset *ks = build(rows[i].spec, NULL);

		if (cache_phases_agree(ks) != rows[i].agree)
			fail_msg("%s", rows[i].spec);
		kset_unpin(&ks);
	}
}

/* ---- keys ---- */

static void test_keys(void **state)
{
	static const char model[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	uint8_t numbers[32] = { 1 };
	int32_t token[SEQUENCE_BLOCK];
	struct cache_key root, a, b, parsed;
	char hex[CACHE_KEY_HEX];

	(void)state;
	for (int i = 0; i < SEQUENCE_BLOCK; i++)
		token[i] = 1000 * i;
	/* written down from another implementation of SHA-256: files of older versions keep their names */
	cache_key_root(model, numbers, &root);
	assert_string_equal(cache_key_hex(&root, hex), "745897edead651d9d841fbf3e91e43d8");
	cache_key_next(&root, token, &a);
	assert_string_equal(cache_key_hex(&a, hex), "a8e2c1c4790571f26b837ec8b3959a55");
	assert_int_equal(cache_key_parse(hex, &parsed), 0);
	assert_true(cache_key_equal(&a, &parsed));
	for (int i = 0; i < SEQUENCE_BLOCK; i++) { /* every token counts, with all its bits */
		token[i] ^= 1 << (i % 31);
		cache_key_next(&root, token, &b);
		assert_false(cache_key_equal(&a, &b));
		token[i] ^= 1 << (i % 31);
	}
	cache_key_next(&a, token, &b);
	assert_false(cache_key_equal(&a, &b));
	numbers[31] = 1;
	cache_key_root(model, numbers, &b);
	assert_false(cache_key_equal(&root, &b));
	numbers[31] = 0;
	cache_key_root(model + 1, numbers, &b);
	assert_false(cache_key_equal(&root, &b));
}

static void test_bad_keys(void **state)
{
	static const char *const bad[] = { "", "00", "0123456789abcdef0123456789abcde",
		"0123456789ABCDEF0123456789abcdef",
		"0123456789abcdef0123456789abcdef0", "0123456789abcdef0123456789abcdeg" };
	struct cache_key k = { { 9 } };

	(void)state;
	for (size_t i = 0; i < mem_countof(bad); i++)
		assert_int_equal(cache_key_parse(bad[i], &k), RC_INVALID);
	assert_int_equal(k.byte[0], 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_kernels_share_with_ref),
		cmocka_unit_test(test_others_share_with_themselves_only),
		cmocka_unit_test(test_a_plugin_is_its_file),
		cmocka_unit_test(test_a_strangers_exact_kernel_shares_with_itself_only),
		cmocka_unit_test(test_what_was_disproved_leaves_the_common_cache_and_takes_it_along),
		cmocka_unit_test(test_another_arithmetic_has_another_cache),
		cmocka_unit_test(test_another_cpu_has_another_cache_but_of_what_is_exact),
		cmocka_unit_test(test_other_ranks_have_another_cache),
		cmocka_unit_test(test_every_parameter_counts_but_drop_thinking),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_bad_keys),
	};

	for (size_t i = 0; i < mem_countof(plugins); i++)
		provider_init(&provider[i], &plugins[i], NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
