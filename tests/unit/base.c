/* SPDX-License-Identifier: MIT
 * base.c - tests of engine/base: buffers, allocation, errors, locks, lists, file maps.
 * Threads: one, two in the lock test; assertions are tried in children. Locks: its own. */
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/hexid.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"
#include "tests/unit/child.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- buf ---- */

static void test_buf_grows_and_stays_terminated(void **state)
{
	struct buf b = { 0 };

	(void)state;
	assert_string_equal(buf_str(&b), "");
	buf_add(&b, NULL, 0);
	assert_string_equal(buf_str(&b), "");
	for (int i = 0; i < 1000; i++) {
		buf_addc(&b, (char)('a' + i % 26));
		assert_int_equal(b.len, i + 1);
		assert_int_equal(b.data[b.len], '\0');
		assert_true(b.cap > b.len);
	}
	for (int i = 0; i < 1000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	buf_clear(&b);
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(b.len, 0);
	buf_adds(&b, "x");
	buf_add(&b, "\0y", 2);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "x\0y", 4);
	buf_fini(&b);
	assert_null(b.data);
	buf_fini(&b);
	buf_fini(NULL);
}

static void test_buf_printf(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_printf(&b, "%s=%d", "n", 7);
	buf_printf(&b, " %0300d", 1);
	assert_int_equal(b.len, 3 + 301);
	assert_memory_equal(b.data, "n=7 000", 7);
	assert_int_equal(b.data[303], '1');
	buf_printf(&b, "%s", "");
	assert_int_equal(b.len, 304);
	buf_fini(&b);
}

static void test_buf_drop_and_take(void **state)
{
	struct buf b = { 0 };
	char *s;

	(void)state;
	buf_drop(&b, 0);
	buf_adds(&b, "hello");
	buf_drop(&b, 2);
	assert_string_equal(buf_str(&b), "llo");
	buf_drop(&b, 3);
	assert_string_equal(buf_str(&b), "");
	buf_adds(&b, "again");
	s = buf_take(&b);
	assert_string_equal(s, "again");
	assert_int_equal(b.len, 0);
	assert_null(b.data);
	free(s);
	s = buf_take(&b);
	assert_string_equal(s, "");
	free(s);
}

static void test_buf_why(void **state)
{
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(buf_why(NULL, -5, "lost"), -5);
	assert_int_equal(buf_why(&why, RC_INVALID, "first reason, and a long one"), RC_INVALID);
	assert_int_equal(buf_why(&why, -ENOMEM, "field %s", "x"), -ENOMEM);
	assert_string_equal(buf_str(&why), "field x");
	buf_fini(&why);
}

static void base_drop_too_much(void)
{
	struct buf b = { 0 };

	buf_adds(&b, "ab");
	buf_drop(&b, 3);
}

static void base_reserve_overflow(void)
{
	struct buf b = { 0 };

	buf_adds(&b, "ab");
	buf_reserve(&b, SIZE_MAX);
}

static void test_buf_asserts(void **state)
{
	(void)state;
	child_aborts(base_drop_too_much, "n <= b->len");
	child_aborts(base_reserve_overflow, "__builtin_add_overflow");
}

/* ---- mem ---- */

static void base_grow_overflow(void)
{
	mem_grow(NULL, SIZE_MAX / 4 + 1, 4);
}

static void test_mem_overflow(void **state)
{
	volatile size_t huge = SIZE_MAX; /* hides the value from the compiler's own warning */

	(void)state;
	assert_null(mem_try(huge, 2));
	assert_null(mem_try(huge / 2 + 2, 2));
	assert_null(mem_try(huge - 3, 1)); /* would overflow in rounding up */
	child_aborts(base_grow_overflow, "__builtin_mul_overflow");
}

static void test_mem_is_zeroed_and_aligned(void **state)
{
	static const size_t sizes[] = { 0, 1, 63, 64, 65, 100000 };
	char *s = mem_new(0);

	(void)state;
	assert_non_null(s);
	free(s);
	for (size_t i = 0; i < mem_countof(sizes); i++) {
		unsigned char *p = mem_try(sizes[i], 1);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 64, 0);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(p[k], 0);
		free(p);
	}
	s = mem_strndup("abcdef", 3);
	assert_string_equal(s, "abc");
	s = mem_grow(s, 2, 100);
	assert_string_equal(s, "abc");
	free(s);
	s = mem_strdup("");
	assert_string_equal(s, "");
	free(s);
}

/* ---- rc ---- */

static const struct {
	int code, http;
	const char *name, *type, *varlink, *text;
} base_rc[] = {
#define RC(name, code, http, type, varlink, text) { code, http, #name, type, varlink, text },
#include "engine/base/rc.def"
#undef RC
};

static void test_rc_rows_are_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(base_rc); i++) {
		int code = base_rc[i].code;

		assert_true(code < -1000); /* -errno values pass through */
		assert_true(base_rc[i].http >= 400 && base_rc[i].http < 600);
		assert_true(strncmp(base_rc[i].name, "RC_", 3) == 0);
		assert_true(*base_rc[i].type && *base_rc[i].text);
		assert_true(strncmp(base_rc[i].varlink, "io.dsv4.", 8) == 0 ||
			    strncmp(base_rc[i].varlink, "org.varlink.service.", 20) == 0);
		assert_string_equal(rc_name(code), base_rc[i].name);
		assert_int_equal(rc_http(code), base_rc[i].http);
		assert_string_equal(rc_type(code), base_rc[i].type);
		assert_string_equal(rc_varlink(code), base_rc[i].varlink);
		assert_string_equal(rc_text(code), base_rc[i].text);
		for (size_t k = 0; k < i; k++) {
			assert_int_not_equal(base_rc[k].code, code);
			assert_string_not_equal(base_rc[k].name, base_rc[i].name);
			assert_string_not_equal(base_rc[k].text, base_rc[i].text);
		}
	}
}

static void test_rc_of_others(void **state)
{
	(void)state;
	assert_string_equal(rc_name(0), "RC_OK");
	assert_int_equal(rc_http(0), 200);
	assert_string_equal(rc_text(0), "ok");
	assert_string_equal(rc_name(-ENOENT), "errno");
	assert_int_equal(rc_http(-ENOENT), 500);
	assert_int_equal(rc_http(-ENOMEM), 507);
	assert_string_equal(rc_text(-ENOENT), strerror(ENOENT));
	assert_string_equal(rc_type(-ENOENT), "server_error");
	assert_string_equal(rc_varlink(-ENOENT), "io.dsv4.Daemon.Internal");
}

/* ---- lock ---- */

static void base_two_locks(void)
{
	struct lock a, b;

	lock_init(&a, "a");
	lock_init(&b, "b");
	lock_take(&a);
	lock_take(&b);
}

static void base_same_lock_twice(void)
{
	struct lock a;

	lock_init(&a, "a");
	lock_take(&a);
	lock_take(&a);
}

static void base_drop_what_is_not_held(void)
{
	struct lock a;

	lock_init(&a, "a");
	lock_drop(&a);
}

static void base_wait_unheld(void)
{
	struct lock a;
	pthread_cond_t c;

	lock_init(&a, "a");
	lock_cond_init(&c);
	lock_wait(&a, &c, 1);
}

static void test_lock_asserts_its_rule(void **state)
{
	(void)state;
	child_aborts(base_two_locks, "lock_mine == NULL");
	child_aborts(base_same_lock_twice, "lock_mine == NULL");
	child_aborts(base_drop_what_is_not_held, "lock_mine == l");
	child_aborts(base_wait_unheld, "lock_mine == l");
}

struct base_pair {
	struct lock lock;
	pthread_cond_t cond;
	int turn;
};

/* Answers each odd turn with the next even one. */
static void *base_partner(void *arg)
{
	struct base_pair *p = arg;

	lock_take(&p->lock);
	while (p->turn < 200) {
		if (p->turn % 2) {
			p->turn++;
			pthread_cond_broadcast(&p->cond);
		} else {
			lock_wait(&p->lock, &p->cond, -1);
		}
	}
	lock_drop(&p->lock);
	return NULL;
}

static void test_hexid(void **state)
{
	char a[4 + HEXID_DIGITS + 1], b[sizeof a];

	(void)state;
	hexid_make(a, sizeof a, "req-");
	hexid_make(b, sizeof b, "req-");
	assert_memory_equal(a, "req-", 4);
	assert_int_equal(strspn(a + 4, "0123456789abcdef"), HEXID_DIGITS);
	assert_int_equal(a[4 + HEXID_DIGITS], '\0');
	assert_string_not_equal(a, b);
}

static void test_clock(void **state)
{
	long long ns = clock_ns(), ms = clock_ms();
	double s = clock_s();

	(void)state;
	/* One clock: taken in this order, each is the later one, by no more than a pause. */
	assert_in_range(ms, ns / 1000000, ns / 1000000 + 60000);
	assert_true(s > (double)ms * 1e-3 - 1e-6 && s < (double)ms * 1e-3 + 60);
	assert_true(clock_ns() >= ns);
}

static double base_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void test_lock_wait(void **state)
{
	struct base_pair p = { .turn = 0 };
	double before;
	pthread_t t;

	(void)state;
	lock_init(&p.lock, "pair");
	lock_cond_init(&p.cond);
	assert_false(lock_held(&p.lock));
	lock_take(&p.lock);
	assert_true(lock_held(&p.lock));
	before = base_now_ms();
	assert_int_equal(lock_wait(&p.lock, &p.cond, 20), -ETIMEDOUT);
	assert_true(base_now_ms() - before >= 20);
	assert_int_equal(lock_wait(&p.lock, &p.cond, 0), -ETIMEDOUT);
	assert_true(lock_held(&p.lock));
	assert_int_equal(pthread_create(&t, NULL, base_partner, &p), 0);
	while (p.turn < 200) {
		if (p.turn % 2 == 0) {
			p.turn++;
			pthread_cond_broadcast(&p.cond);
		} else {
			lock_wait(&p.lock, &p.cond, 60000);
		}
	}
	lock_drop(&p.lock);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_false(lock_held(&p.lock));
	pthread_cond_destroy(&p.cond);
	lock_fini(&p.lock);
}

/* ---- must ---- */

struct base_object {
	unsigned magic;
};

static void base_wrong_magic(void)
{
	struct base_object o = { 1 }, *p = &o;

	must_magic(p, 2);
}

static void test_must_names_the_place(void **state)
{
	struct base_object o = { 7 }, *p = &o;

	(void)state;
	must_magic(p, 7);
	child_aborts(base_wrong_magic, "func=base_wrong_magic");
}

/* ---- list ---- */

struct base_node {
	int value;
	struct list link;
};

/* The values as digits. */
static int base_digits(struct list *head)
{
	int n = 0;

	list_each(node, head, struct base_node, link)
		n = n * 10 + node->value;
	return n;
}

static void test_list(void **state)
{
	struct base_node a = { .value = 1 }, b = { .value = 2 }, c = { .value = 3 };
	struct list head;

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	assert_int_equal(base_digits(&head), 0);
	list_put(&head, &a.link);
	list_put(&head, &b.link);
	list_put(&a.link, &c.link); /* before a */
	assert_int_equal(base_digits(&head), 312);
	list_del(&a.link);
	assert_int_equal(base_digits(&head), 32);
	assert_true(list_empty(&a.link));
	list_del(&a.link); /* harmless */
	assert_int_equal(base_digits(&head), 32);
	assert_true(list_entry(head.prev, struct base_node, link) == &b);
	list_del(&c.link);
	list_del(&b.link);
	assert_true(list_empty(&head));
	list_put(&head, &a.link);
	assert_int_equal(base_digits(&head), 1);
}

/* ---- mapfile ---- */

static void test_mapfile(void **state)
{
	char path[] = "/tmp/dsv4-base-XXXXXX";
	int fd = mkstemp(path);
	struct buf b = { 0 }, why = { 0 };
	struct mapfile m = { 0 };

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(mapfile_open(&m, path, &why), 0);
	assert_int_equal(m.size, 0);
	mapfile_close(&m);
	assert_int_equal(write(fd, "0123456789", 10), 10);
	assert_int_equal(mapfile_open(&m, path, &why), 0);
	assert_int_equal(m.size, 10);
	assert_memory_equal(m.data, "0123456789", 10);
	mapfile_close(&m);
	mapfile_close(&m);
	assert_int_equal(mapfile_slurp(path, 10, &b, &why), 0);
	assert_string_equal(buf_str(&b), "0123456789");
	assert_int_equal(mapfile_slurp(path, 9, &b, &why), RC_TOO_LARGE);
	assert_non_null(strstr(buf_str(&why), path));
	close(fd);
	unlink(path);
	assert_int_equal(mapfile_open(&m, path, &why), -ENOENT);
	assert_non_null(strstr(buf_str(&why), path));
	assert_int_equal(mapfile_open(&m, "/tmp", &why), -EINVAL);
	buf_fini(&b);
	buf_fini(&why);
}

/* ---- sha256 ---- */

/* FIPS 180-4's examples and the lengths around a block's edge; the digests are another implementation's. */
static void test_sha256(void **state)
{
	static const struct {
		size_t n; /* of 'a' when text is NULL */
		const char *text, *digest;
	} rows[] = {
		{ 0, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ 3, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ 56, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ 1, NULL, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" },
		{ 55, NULL, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
		{ 63, NULL, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34" },
		{ 64, NULL, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
		{ 65, NULL, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0" },
		{ 119, NULL, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb" },
		{ 120, NULL, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c" },
		{ 128, NULL, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e" },
		{ 1000000, NULL, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	};
	char *many = mem_try(1000000, 1), hex[SHA256_HEX];

	(void)state;
	assert_non_null(many);
	memset(many, 'a', 1000000);
	for (size_t i = 0; i < mem_countof(rows); i++) {
		sha256_hex(hex, rows[i].text ? rows[i].text : many, rows[i].n);
		assert_string_equal(hex, rows[i].digest);
	}
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf_grows_and_stays_terminated),
		cmocka_unit_test(test_buf_printf),
		cmocka_unit_test(test_buf_drop_and_take),
		cmocka_unit_test(test_buf_why),
		cmocka_unit_test(test_buf_asserts),
		cmocka_unit_test(test_mem_overflow),
		cmocka_unit_test(test_mem_is_zeroed_and_aligned),
		cmocka_unit_test(test_rc_rows_are_sound),
		cmocka_unit_test(test_rc_of_others),
		cmocka_unit_test(test_lock_asserts_its_rule),
		cmocka_unit_test(test_hexid),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_lock_wait),
		cmocka_unit_test(test_must_names_the_place),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_mapfile),
		cmocka_unit_test(test_sha256),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
