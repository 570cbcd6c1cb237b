/* SPDX-License-Identifier: MIT
 * repack.c - copies of FP4 experts: they say what the file says, come one by one, and end at any moment.
 * Threads: main, and the packer's. Locks: none. */
#include "engine/model/repack.h"
#include "engine/base/rc.h"
#include "plugins/dsv4_rows16.h"
#include "tests/unit/tinykit.h"

#include <sched.h>
#include <string.h>

static struct repack *start(struct tinykit *k, uint64_t spare)
{
	const struct repack_options o = { .model = k->model, .spare = spare };
	struct repack *r;

	assert_int_equal(repack_start(&o, &r, NULL), 0);
	return r;
}

static struct repack_view ended(struct repack *r)
{
	struct repack_view v;

	do {
		sched_yield();
		repack_view(r, &v);
	} while (v.state != REPACK_DONE && v.state != REPACK_STOPPED);
	return v;
}

static void same_matrix(const struct dsv4_weight *w, const void *packed)
{
	assert_int_equal((uintptr_t)packed % 64, 0);
	for (int64_t row = 0; row < w->rows; row++)
		for (int64_t col = 0; col < w->cols; col++) {
			uint8_t two = ((const uint8_t *)w->data)[row * (w->cols / 2) + col / 2];

			assert_int_equal(dsv4_rows16_code(packed, w->cols, row, col), col % 2 ? two >> 4 : two & 15);
			assert_int_equal(dsv4_rows16_scale(packed, w->cols, row, col),
				((const uint8_t *)w->scale)[row * (w->cols / 32) + col / 32]);
		}
}

static void same_layer(const struct tinykit *k, const struct weights_layer *l)
{
	for (int e = 0; e < k->model->config->n_experts; e++) {
		same_matrix(&l->expert[e].w1, l->packed[e].w1);
		same_matrix(&l->expert[e].w2, l->packed[e].w2);
		same_matrix(&l->expert[e].w3, l->packed[e].w3);
	}
}

/* The native form stays readable: it is compared after it was let go. */
static void test_copies_say_the_same(void **state)
{
	struct tinykit *k = *state;
	const struct model_config *c = k->model->config;
	struct repack *r = start(k, 0);
	struct repack_view v;

	repack_want(r, true);
	v = ended(r);
	assert_int_equal(v.state, REPACK_DONE);
	assert_int_equal(v.n_done, v.n_total);
	assert_int_equal(v.n_total, (c->n_layers + (k->model->weights->mtp != NULL)) * c->n_experts);
	assert_int_equal(v.bytes, repack_bytes(k->model));
	for (int i = 0; i < c->n_layers; i++)
		same_layer(k, &k->model->weights->layer[i]);
	repack_stop(&r);
	assert_null(r);
	assert_null(k->model->weights->layer[0].packed);
}

static void test_it_waits_until_it_is_wanted(void **state)
{
	struct repack *r = start(*state, 0);
	struct repack_view v;

	repack_view(r, &v);
	assert_int_equal(v.n_done, 0);
	repack_stop(&r);
}

/* At whatever it is, also while it rests for a busy engine. */
static void test_it_ends_in_the_middle(void **state)
{
	struct tinykit *k = *state;
	atomic_bool busy = true;

	for (int i = 0; i < 50; i++) {
		const struct repack_options o = { .model = k->model, .busy = i % 2 ? &busy : NULL };
		struct repack_view v = { 0 };
		struct repack *r;

		assert_int_equal(repack_start(&o, &r, NULL), 0);
		repack_want(r, true);
		while (v.n_done < i % 5)
			repack_view(r, &v);
		repack_stop(&r);
	}
}

static void test_without_memory_it_says_so_and_serves_on(void **state)
{
	struct tinykit *k = *state;
	struct repack *r = start(k, UINT64_MAX / 2);
	struct repack_view v;

	repack_want(r, true);
	v = ended(r);
	assert_int_equal(v.state, REPACK_STOPPED);
	assert_int_equal(v.n_done, 0);
	assert_string_equal(v.why, "memory is short");
	assert_null(k->model->weights->layer[0].packed[0].w1);
	repack_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_say_the_same),
		cmocka_unit_test(test_it_waits_until_it_is_wanted),
		cmocka_unit_test(test_it_ends_in_the_middle),
		cmocka_unit_test(test_without_memory_it_says_so_and_serves_on),
	};

	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
