/* SPDX-License-Identifier: MIT
 * placement.c (test) - where the whole of V4-Flash would lie on GPUs, by headers over sparse files.
 * Threads: one. */
#include "engine/model/placement.h"
#include "engine/base/rc.h"
#include "engine/device/device_list.h"
#include "tests/lib/flash.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)

static char dir[64];
static struct checkpoint *ck;

/* Headers are all it reads. */
static int open_flash(void **state)
{
	struct flash_total total;
	struct buf why = { 0 };

	(void)state;
	snprintf(dir, sizeof dir, "/tmp/dsv4-placement-XXXXXX");
	if (!mkdtemp(dir) || flash_make(dir, FLASH_APRIL, false, &total) < 0)
		return -1;
	if (checkpoint_open(dir, CHECKPOINT_HEADERS, &ck, &why) < 0) {
		print_message("%s\n", buf_str(&why));
		return -1;
	}
	return 0;
}

static int close_flash(void **state)
{
	(void)state;
	checkpoint_free(&ck);
	flash_remove(dir);
	return 0;
}

static struct placement plan(int n_gpu, uint64_t memory, int want, const char *says)
{
	struct placement p;
	struct buf why = { 0 };
	int rc = placement_plan(ck, n_gpu, memory, &p, &why);

	if (rc != want || (says && !strstr(buf_str(&why), says)))
		fail_msg("%d: %s", rc, buf_str(&why));
	buf_fini(&why);
	return p;
}

/* On the GPU norms are f32, twice as long as in the files. */
static uint64_t norms(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < ck->n_tensors; i++) {
		const struct safetensors_tensor *t = ck->tensor[i].t;
		size_t n = strlen(t->name), m = strlen("norm.weight");

		if (n >= m && !strcmp(t->name + n - m, "norm.weight") && t->dtype == ST_BF16)
			bytes += t->bytes;
	}
	assert_true(bytes > 44 * 2 * 2 * 4096);
	return bytes;
}

/* doc/format.md 2.9: an expert's bytes, and those of all; the draft block has 256 more. */
static void eight_gpus_hold_all_of_it(void **state)
{
	struct placement one = plan(1, 512 * GIB, 0, NULL), p = plan(8, 141 * GIB, 0, NULL);

	(void)state;
	assert_int_equal(one.expert, 13369344);
	assert_int_equal(one.experts, 44 * 256);
	assert_int_equal(one.outside, 0);
	/* every byte of the checkpoint is somewhere */
	assert_int_equal(one.weights + one.host, ck->bytes + norms());
	assert_int_equal(one.resident, 256);
	assert_int_equal(one.slots, 0);
	assert_int_equal(p.experts, one.experts / 8);
	assert_int_equal(p.outside, 0);
	assert_true(p.weights > one.weights / 8 && p.weights < one.weights / 4);
	/* an eighth of 8 groups of 1024 and a vector of 4096, in 43 layers, to seven others */
	assert_true(p.heads_cut);
	assert_true(p.part_per_token == 43 * (1024 + 4096) * 4.0);
	assert_true(p.sent_per_token == 7 * p.part_per_token);
	assert_true(p.logits_read == (129280 / 128 + 7) / 8 * 128 * 4.0);
	/* f32 rows: doc/format.md 6, and the pointers to them */
	assert_true(p.row_bytes > 13760 && p.row_bytes < 13800);
	assert_true((double)p.tokens * p.row_bytes + (double)p.weights + (double)p.fixed_bytes +
		    (double)placement_reserve(p.memory) <= (double)p.memory);
}

/* Half of what is left is for residents, a quarter for slots, a quarter for rows. */
static void one_card_holds_some_of_the_experts(void **state)
{
	struct placement p = plan(1, 141 * GIB, 0, NULL), none = plan(1, 9 * GIB, 0, NULL);
	uint64_t here = (uint64_t)(p.experts - p.outside) * p.expert, left;

	(void)state;
	assert_true(p.resident > 64 && p.resident < 128);
	assert_int_equal(p.outside, 44 * (256 - p.resident));
	assert_int_equal(p.outside_bytes, (uint64_t)p.outside * p.expert);
	assert_int_equal(p.slot_bytes, (uint64_t)p.slots * p.expert);
	left = p.memory - placement_reserve(p.memory) - (p.weights - here) - p.fixed_bytes;
	assert_true(here <= left / 2 && here + 44 * p.expert > left / 2);
	assert_true(p.slot_bytes <= left / 4 && p.slot_bytes + p.expert > left / 4);
	assert_true((double)p.tokens * p.row_bytes > (double)left / 4 - p.row_bytes);
	assert_true(p.tokens > 2 << 20);
	assert_true(p.sent_per_token == 0);
	/* where not one of each layer fits they move by use alone */
	assert_int_equal(none.resident, 0);
	assert_int_equal(none.outside, none.experts);
	assert_true(none.slots > 0);
}

/* Three have all heads each, and 86 experts of a layer at most; what each has is more than a third. */
static void any_number_shares_what_it_can(void **state)
{
	struct placement three = plan(3, 141 * GIB, 0, NULL), four = plan(4, 141 * GIB, 0, NULL);
	struct placement one = plan(1, 512 * GIB, 0, NULL);

	(void)state;
	assert_false(three.heads_cut);
	assert_true(four.heads_cut);
	assert_int_equal(three.experts, 44 * 86);
	assert_true(three.part_per_token == 43 * 4096 * 4.0);
	assert_int_equal(three.family[DSV4_ATTENTION], one.family[DSV4_ATTENTION]);
	assert_true(four.family[DSV4_GEMM] < three.family[DSV4_GEMM]);
}

static void impossible_plans_say_why(void **state)
{
	struct placement p = plan(1, 4 * GIB, RC_TOO_LARGE, "without routed experts");

	(void)state;
	assert_int_equal(p.outside, p.experts);
	plan(65, 141 * GIB, RC_INVALID, "expected 1 to 64");
	plan(0, 141 * GIB, RC_INVALID, "expected 1 to 64");
}

/* The same figures in both forms. */
static void text_and_json_agree(void **state)
{
	struct placement p = plan(8, 141 * GIB, 0, NULL);
	struct buf text = { 0 }, json = { 0 };
	char number[32];

	(void)state;
	placement_text(&p, &text);
	assert_int_equal(placement_json(&p, &json), 0);
	snprintf(number, sizeof number, "%llu", (unsigned long long)p.weights);
	assert_non_null(strstr(buf_str(&text), number));
	assert_non_null(strstr(buf_str(&json), number));
	assert_non_null(strstr(buf_str(&text), "between GPUs"));
	buf_fini(&text);
	buf_fini(&json);
}

static void device_words(void **state)
{
	static const char *const bad[] = { "", "gpu", "cuda0", "cuda:", "cuda:-1", "cuda:1-", "cuda:3-1", "cuda:0,",
					   "cuda:0,0",
					   "cuda:0-2,1", "cuda:64", "cuda:99999999999", "cuda:0x1", "cuda:0 ", "CPU" };
	struct device_list l;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(device_list_parse("cpu", &l, &why), 0);
	assert_int_equal(l.n, 0);
	assert_int_equal(device_list_parse("cuda", &l, &why), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.gpu[0], 0);
	assert_int_equal(device_list_parse("cuda:0-3,6", &l, &why), 0);
	assert_int_equal(l.n, 5);
	assert_int_equal(l.gpu[4], 6);
	assert_int_equal(device_list_parse("cuda:0-63", &l, &why), 0);
	assert_int_equal(l.n, 64);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(device_list_parse(bad[i], &l, &why), RC_INVALID);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_words),
		cmocka_unit_test(eight_gpus_hold_all_of_it),
		cmocka_unit_test(one_card_holds_some_of_the_experts),
		cmocka_unit_test(any_number_shares_what_it_can),
		cmocka_unit_test(impossible_plans_say_why),
		cmocka_unit_test(text_and_json_agree),
	};

	return cmocka_run_group_tests(tests, open_flash, close_flash);
}
