/* SPDX-License-Identifier: MIT
 * weights_fetch.c - weights that left memory are there again once they were asked for, and say what they said.
 * Threads: main. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "tests/unit/tinykit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 20000000000LL

/* Of the whole pages of these bytes, those that are in memory. */
static size_t present(const void *data, size_t bytes, size_t *ret_of)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
	size_t n = ((uintptr_t)data + bytes) / page * page <= begin ? 0 :
		(((uintptr_t)data + bytes) / page * page - begin) / page;
	unsigned char *in = mem_new(n + 1);
	size_t there = 0;

	if (n)
		assert_int_equal(mincore((void *)begin, n * page, in), 0);
	for (size_t i = 0; i < n; i++)
		there += in[i] & 1;
	free(in);
	*ret_of = n;
	return there;
}

/* A layer's largest matrix of another format than FP4, and an expert. */
static void test_what_was_let_go_comes_back(void **state)
{
	struct tinykit *k = *state;
	const struct model_weights *m = k->model->weights;
	const struct dsv4_expert *e = &m->layer[0].expert[1];
	const struct dsv4_weight *w[] = { &m->layer[0].wq_b, &m->head, &e->w1, &e->w2, &e->w3 };

	for (size_t i = 0; i < mem_countof(w); i++) {
		size_t bytes = (size_t)w[i]->rows * (size_t)(w[i]->fmt == DSV4_W_FP4 ? w[i]->cols / 2 : w[i]->cols), of;
		char *before = mem_new(bytes);
		long long end;

		memcpy(before, w[i]->data, bytes);
		weights_forget(m, w[i]);
		if (present(w[i]->data, bytes, &of) == of && of)
			print_message("matrix %zu: somebody else keeps it in memory\n", i);
		if (i < 2)
			weights_fetch(m, w[i]);
		else
			weights_fetch_expert(m, e);
		for (end = clock_ns() + PATIENCE_NS; present(w[i]->data, bytes, &of) < of;) {
			assert_true(clock_ns() < end);
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
		assert_memory_equal(before, w[i]->data, bytes);
		free(before);
	}
	weights_fetch(m, &(struct dsv4_weight){ 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_let_go_comes_back),
	};

	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
