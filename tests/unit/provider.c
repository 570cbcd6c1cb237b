/* SPDX-License-Identifier: MIT
 * provider.c - a plugin on several devices: opened on each with a host table and a state of its own, or on none.
 * Threads: main. Locks: none. */
#include "engine/kernels/provider.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define N 3

static const struct dsv4_host *opened[N];
static int n_opened, n_warmed, n_closed, fail_at;
static size_t forget; /* bytes that close() keeps of its second host */
static void *volatile forgotten; /* what a kernel forgot: no leak of the test's */

static int several_open(const struct dsv4_host *host, void **ret_state)
{
	if (n_opened == fail_at)
		return -5;
	*ret_state = host->alloc(host, 64);
	opened[n_opened++] = host;
	return *ret_state ? 0 : -12;
}

static int several_warm(const struct dsv4_host *host)
{
	assert_ptr_equal(host, opened[n_warmed]);
	n_warmed++;
	return 0;
}

static void several_close(const struct dsv4_host *host)
{
	assert_ptr_equal(host, opened[n_closed]);
	if (n_closed++ == 1 && forget)
		assert_non_null(forgotten = host->alloc(host, forget));
	host->release(host, host->state);
}

static const struct dsv4_plugin several = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof several, .abi_major = DSV4_ABI_MAJOR, .abi_minor = DSV4_ABI_MINOR,
	.signature = DSV4_BUILD_SIGNATURE, .name = "several", .version = "1", .cpu = "", .gpu = "",
	.open = several_open, .warm = several_warm, .close = several_close,
};

static void init(struct provider *p, int n, int fail)
{
	n_opened = n_warmed = n_closed = 0;
	fail_at = fail;
	forget = 0;
	provider_init(p, &several, NULL);
	for (int i = 0; i < n; i++)
		provider_on(p, device_cpu());
}

static void test_each_has_its_own(void **state)
{
	struct provider p;

	(void)state;
	init(&p, N, -1);
	assert_int_equal(provider_open(&p, NULL), 0);
	assert_int_equal(provider_warm(&p, NULL), 0);
	assert_int_equal(n_warmed, N);
	for (int i = 0; i < N; i++) {
		assert_ptr_equal(provider_host(&p, i), opened[i]);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(opened[i]->state, opened[j]->state);
	}
	assert_int_equal(provider_close(&p, NULL), 0);
	assert_int_equal(n_closed, N);
	provider_fini(&p);
}

/* One that computes on the CPU has one table for all. */
static void test_one_for_all(void **state)
{
	struct provider p;

	(void)state;
	init(&p, 0, -1);
	assert_int_equal(provider_open(&p, NULL), 0);
	assert_int_equal(n_opened, 1);
	assert_ptr_equal(provider_host(&p, 0), provider_host(&p, 2));
	assert_int_equal(provider_close(&p, NULL), 0);
	provider_fini(&p);
}

static void test_open_that_fails_on_the_last(void **state)
{
	struct buf why = { 0 };
	struct provider p;

	(void)state;
	init(&p, N, N - 1);
	assert_int_equal(provider_open(&p, &why), RC_PLUGIN);
	assert_string_equal(buf_str(&why), "open() returned -5 (Input/output error) on cpu");
	assert_int_equal(n_closed, N - 1);
	assert_int_equal(atomic_load(&p.n_alloc), 0);
	provider_fini(&p);
	buf_fini(&why);
}

static void test_what_one_keeps_is_told(void **state)
{
	struct buf why = { 0 };
	struct provider p;

	(void)state;
	init(&p, N, -1);
	assert_int_equal(provider_open(&p, NULL), 0);
	forget = 100;
	assert_int_equal(provider_close(&p, &why), RC_PLUGIN);
	assert_string_equal(buf_str(&why), "close() left 100 bytes in 1 pieces");
	provider_fini(&p);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_has_its_own),
		cmocka_unit_test(test_one_for_all),
		cmocka_unit_test(test_open_that_fails_on_the_last),
		cmocka_unit_test(test_what_one_keeps_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
