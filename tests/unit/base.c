/* SPDX-License-Identifier: MIT
 * base.c - tests of engine/base: buffers, allocation, errors, locks, lists, log lines, file maps.
 * Threads: one, two in the lock test; assertions are tried in children. Locks: its own. */
#include "engine/base/buf.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- children and their stderr ---- */

/* Runs fn in a child and returns its wait status; what it wrote to stderr is appended to err. */
static int base_child(void (*fn)(void), struct buf *err)
{
	char chunk[4096];
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL); /* cmocka's handler would go on with the tests */
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		fn();
		_exit(0);
	}
	close(fd[1]);
	while ((n = read(fd[0], chunk, sizeof chunk)) > 0)
		buf_add(err, chunk, (size_t)n);
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* fn must end in an assertion whose line contains `text`. */
static void base_aborts(void (*fn)(void), const char *text)
{
	struct buf err = { 0 };
	int status = base_child(fn, &err);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_true(strncmp(buf_str(&err), "<0>assert ", 10) == 0);
	assert_non_null(strstr(buf_str(&err), text));
	buf_fini(&err);
}

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
	base_aborts(base_drop_too_much, "n <= b->len");
	base_aborts(base_reserve_overflow, "__builtin_add_overflow");
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
	base_aborts(base_grow_overflow, "__builtin_mul_overflow");
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
	base_aborts(base_two_locks, "lock_mine == NULL");
	base_aborts(base_same_lock_twice, "lock_mine == NULL");
	base_aborts(base_drop_what_is_not_held, "lock_mine == l");
	base_aborts(base_wait_unheld, "lock_mine == l");
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

static void test_lock_wait(void **state)
{
	struct base_pair p = { .turn = 0 };
	pthread_t t;

	(void)state;
	lock_init(&p.lock, "pair");
	lock_cond_init(&p.cond);
	assert_false(lock_held(&p.lock));
	lock_take(&p.lock);
	assert_true(lock_held(&p.lock));
	assert_int_equal(lock_wait(&p.lock, &p.cond, 1), -ETIMEDOUT);
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
	base_aborts(base_wrong_magic, "func=base_wrong_magic");
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
	list_del(&a.link); /* harmless */
	assert_int_equal(base_digits(&head), 32);
	assert_true(list_entry(head.prev, struct base_node, link) == &b);
	list_del(&c.link);
	list_del(&b.link);
	assert_true(list_empty(&head));
	list_put(&head, &a.link);
	assert_int_equal(base_digits(&head), 1);
}

/* ---- log ---- */

static void test_log_levels(void **state)
{
	enum log_level level = LOG_LV_DEBUG, before = log_get_level();

	(void)state;
	assert_int_equal(log_parse_level("err", &level), 0);
	assert_int_equal(level, LOG_LV_ERR);
	assert_int_equal(log_parse_level("Notice", &level), 0);
	assert_int_equal(level, LOG_LV_NOTICE);
	assert_int_equal(log_parse_level("7", &level), 0);
	assert_int_equal(level, LOG_LV_DEBUG);
	assert_int_equal(log_parse_level("", &level), RC_INVALID);
	assert_int_equal(log_parse_level("33", &level), RC_INVALID);
	assert_int_equal(log_parse_level("2", &level), RC_INVALID);
	assert_int_equal(level, LOG_LV_DEBUG); /* untouched by failures */
	assert_string_equal(log_level_name(LOG_LV_WARN), "warn");
	log_set_level(LOG_LV_WARN);
	assert_true(log_wants(LOG_LV_ERR) && log_wants(LOG_LV_WARN) && !log_wants(LOG_LV_INFO));
	log_set_level(before);
}

static void test_log_quotes(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain-1.2/x", "plain-1.2/x" },
		{ "", "\"\"" },
		{ "two words", "\"two words\"" },
		{ "a=b", "\"a=b\"" },
		{ "say \"hi\"", "\"say \\\"hi\\\"\"" },
		{ "back\\slash", "\"back\\\\slash\"" },
		{ "line\nlevel=err", "\"line\\x0alevel=err\"" },
		{ "\x1b[31m\x7f", "\"\\x1b[31m\\x7f\"" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		assert_string_equal(LOGQ(rows[i].in), rows[i].out);
}

/* Whatever the text, the result fits, is terminated and has no control characters. */
static void test_log_quote_cuts(void **state)
{
	char out[LOG_QUOTE_MAX + 1], in[2000];

	(void)state;
	for (size_t n = 480; n < sizeof in; n += n < 530 ? 1 : 200)
		for (int kind = 0; kind < 3; kind++) {
			memset(in, "a\n\""[kind], n);
			in[n] = '\0';
			memset(out, 'X', sizeof out);
			log_quote(out, in);
			assert_int_equal(out[LOG_QUOTE_MAX], 'X');
			assert_true(strlen(out) < LOG_QUOTE_MAX);
			assert_null(strchr(out, '\n'));
			assert_true(kind == 0 || out[strlen(out) - 1] == '"');
			assert_true(n < LOG_QUOTE_MAX || strstr(out, "..."));
		}
}

static void base_log_lines(void)
{
	char big[10000];

	memset(big, 'z', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	log_set_level(LOG_LV_INFO);
	log_event(LOG_LV_DEBUG, "unseen", "x=1");
	log_event(LOG_LV_ERR, "first", "n=%d who=%s", 3, LOGQ("a b"));
	log_event(LOG_LV_INFO, "big", "v=%s", big);
}

static void test_log_lines(void **state)
{
	struct buf err = { 0 };
	char *second;

	(void)state;
	assert_int_equal(base_child(base_log_lines, &err), 0);
	assert_true(strncmp(err.data, "<3>first n=3 who=\"a b\"\n", 23) == 0);
	second = strchr(err.data, '\n') + 1;
	assert_true(strncmp(second, "<6>big v=zzz", 12) == 0);
	assert_true(strchr(second, '\n') == err.data + err.len - 1); /* one line, cut */
	assert_true(strlen(second) <= 4096);
	buf_fini(&err);
}

static void base_log_much(void)
{
	struct log_site site = { 0 };

	for (int i = 0; i < 5 * LOG_BURST; i++)
		log_write(&site, LOG_LV_INFO, "much", "i=%d", i);
	site.second = 0; /* as if the second were over */
	log_write(&site, LOG_LV_INFO, "much", "i=last");
}

/* The burst gets out, the rest is counted by the next line that does. A second may end between two lines. */
static void test_log_rate_limit(void **state)
{
	struct buf err = { 0 };
	int lines = 0, lost = 0;
	char *p;

	(void)state;
	assert_int_equal(base_child(base_log_much, &err), 0);
	for (p = err.data; (p = strchr(p, '\n')); p++)
		lines++;
	for (p = err.data; (p = strstr(p, " suppressed=")); p++)
		lost += atoi(p + 12);
	assert_int_equal(lines + lost, 5 * LOG_BURST + 1);
	assert_true(lines >= LOG_BURST + 1 && lines <= 2 * LOG_BURST + 1);
	assert_non_null(strstr(err.data, "i=last suppressed="));
	buf_fini(&err);
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
		cmocka_unit_test(test_lock_wait),
		cmocka_unit_test(test_must_names_the_place),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_log_levels),
		cmocka_unit_test(test_log_quotes),
		cmocka_unit_test(test_log_quote_cuts),
		cmocka_unit_test(test_log_lines),
		cmocka_unit_test(test_log_rate_limit),
		cmocka_unit_test(test_mapfile),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
