/* SPDX-License-Identifier: MIT
 * variants.c - the plugins that operators argue about, in the whole model: each has the numbers its tag says.
 * Threads: main and the pool's. Locks: none. */
#include "tests/unit/plugkit.h"

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

static int setup(void **state)
{
	static struct tinykit k;

	tinykit_init(&k, 2);
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
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
