/* SPDX-License-Identifier: MIT
 * keys.c - API keys: files of them, right and wrong; who is admitted, how often and how many at once.
 * Threads: one. Locks: none. */
#include "api/http/keys.h"
#include "engine/base/keyhash.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SALT "000102030405060708090a0b0c0d0e0f"
/* Of that salt and "secret", as sha256sum says. */
#define DIGEST "67557c0d86179c45199f096d85b7aeb2b8b34bf423c403ba517f72bcc5913c4c"
#define DIGEST_AS_SALT "67557c0d86179c45199f096d85b7aeb2"
#define HASH "sha256$" SALT "$" DIGEST

static const char *file_of(const char *text)
{
	static char path[] = "/tmp/keys-XXXXXX";
	int fd;

	strcpy(path, "/tmp/keys-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

static struct keys *keys_of(const char *text)
{
	struct buf why = { 0 };
	struct keys *k;
	const char *path = file_of(text);

	if (keys_read(path, &k, &why))
		fail_msg("%s", buf_str(&why));
	unlink(path);
	return k;
}

static int enter(struct keys *k, const char *key, double now, struct keys_pass *p)
{
	struct error err = { 0 };
	int rc = keys_enter(k, &key, 1, now, p, &err), wait = err.retry_after;

	assert_int_equal(err.rc, rc);
	assert_true((rc == RC_LIMIT) == (wait > 0));
	error_fini(&err);
	return rc == RC_LIMIT ? wait : rc;
}

static void a_hash_is_that_of_salt_and_key(void **state)
{
	struct keyhash h, again;
	struct buf text = { 0 };
	char key[KEYHASH_NEW], other[KEYHASH_NEW], longest[KEYHASH_MAX_KEY + 1];

	(void)state;
	assert_true(keyhash_parse(HASH, &h));
	assert_true(keyhash_is(&h, "secret", 6));
	assert_false(keyhash_is(&h, "secret", 5));
	assert_false(keyhash_is(&h, "", 0));
	keyhash_print(&h, &text);
	assert_string_equal(buf_str(&text), HASH);
	keyhash_new_key(key);
	keyhash_new_key(other);
	assert_string_not_equal(key, other);
	keyhash_make(&h, key);
	keyhash_make(&again, key);
	assert_memory_not_equal(h.salt, again.salt, sizeof h.salt);
	assert_memory_not_equal(h.digest, again.digest, sizeof h.digest);
	assert_true(keyhash_is(&h, key, strlen(key)) && keyhash_is(&again, key, strlen(key)));
	assert_false(keyhash_is(&h, other, strlen(other)));
	memset(longest, 'x', sizeof longest);
	assert_false(keyhash_is(&h, longest, sizeof longest));
	buf_fini(&text);
}

static void wrong_files_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *text;
		int line;
		const char *says;
	} row[] = {
		{ "a\n", 1, "comes a hash" },
		{ "\n# x\na sk-dsv4-123456\n", 3, "comes a hash" },
		{ "a sha256$" SALT "$" DIGEST "0\n", 1, "comes a hash" },
		{ "a sha256$" SALT "\n", 1, "comes a hash" },
		{ "a sha256x" SALT "$" DIGEST "\n", 1, "comes a hash" },
		{ "a/b " HASH "\n", 1, "a name has" },
		{ "abcdefghijklmnopqrstuvwxyz0 " HASH "\n", 1, "a name has" },
		{ "a " HASH "\nb " HASH "\na " HASH, 3, "that of line 1" },
		{ "a " HASH " concurrent=0\n", 1, "a limit is" },
		{ "a " HASH " concurrent=-1\n", 1, "a limit is" },
		{ "a " HASH " concurrent=\n", 1, "a limit is" },
		{ "a " HASH " requests_per_minute=1x\n", 1, "a limit is" },
		{ "a " HASH " requests_per_minute=99999999999999999999\n", 1, "a limit is" },
		{ "a " HASH " concurrent=1 concurrent=2\n", 1, "given twice" },
		{ "a " HASH " rpm=1\n", 1, "only" },
	};
	char begin[64];

	(void)state;
	for (size_t i = 0; i < mem_countof(row); i++) {
		const char *path = file_of(row[i].text);
		struct buf why = { 0 };
		struct keys *k = NULL;

		assert_int_equal(keys_read(path, &k, &why), RC_CONFIG);
		assert_null(k);
		snprintf(begin, sizeof begin, "%s:%d: ", path, row[i].line);
		if (strncmp(buf_str(&why), begin, strlen(begin)) || !strstr(buf_str(&why), row[i].says) ||
		    strstr(buf_str(&why), "123456"))
			fail_msg("%s: %s", row[i].text, buf_str(&why));
		buf_fini(&why);
		unlink(path);
	}
}

static void a_file_that_others_can_read_is_refused(void **state)
{
	static const struct {
		mode_t mode;
		int rc;
	} row[] = { { 0600, 0 }, { 0640, 0 }, { 0400, 0 }, { 0644, RC_CONFIG }, { 0660, RC_CONFIG },
		    { 0601, RC_CONFIG }, { 0602, RC_CONFIG } };
	const char *path = file_of("a " HASH "\n");
	struct buf why = { 0 };
	struct keys *k = NULL;

	(void)state;
	for (size_t i = 0; i < mem_countof(row); i++) {
		assert_int_equal(chmod(path, row[i].mode), 0);
		assert_int_equal(keys_read(path, &k, &why), row[i].rc);
		keys_free(&k);
	}
	assert_non_null(strstr(buf_str(&why), "chmod"));
	unlink(path);
	assert_true(keys_read(path, &k, &why) < 0);
	buf_fini(&why);
}

static void lines_of_all_kinds(void **state)
{
	struct keys *k = keys_of("# keys\n\n  a " HASH "\r\n\tB.c_d-9  " HASH "  concurrent=1\trequests_per_minute=5");

	(void)state;
	assert_int_equal(keys_count(k), 2);
	keys_free(&k);
	k = keys_of("");
	assert_int_equal(keys_count(k), 0);
	keys_free(&k);
}

static void only_the_key_is_let_in(void **state)
{
	static const char *const wrong[] = { "", "secre", "secret ", "Secret", "secretx", HASH, DIGEST };
	struct keys *k = keys_of("a " HASH "\n"), *none = keys_of("# nobody\n");
	struct keys_pass p = { 0 };
	struct error err = { 0 };
	const char *nothing[2] = { NULL, NULL }, *second[2] = { "wrong", "secret" };

	(void)state;
	for (size_t i = 0; i < mem_countof(wrong); i++)
		assert_int_equal(enter(k, wrong[i], 1, &p), RC_AUTH);
	assert_int_equal(keys_enter(k, nothing, 2, 1, &p, &err), RC_AUTH);
	assert_int_equal(enter(none, "secret", 1, &p), RC_AUTH);
	assert_null(keys_name(&p));
	keys_leave(&p);
	assert_int_equal(keys_enter(k, second, 2, 1, &p, &err), 0);
	assert_string_equal(keys_name(&p), "a");
	keys_leave(&p);
	assert_null(keys_name(&p));
	error_fini(&err);
	keys_free(&k);
	keys_free(&none);
}

static void so_many_at_once(void **state)
{
	struct keys *k = keys_of("a " HASH " concurrent=2\n");
	struct keys_pass p[3] = { 0 };

	(void)state;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(enter(k, "secret", 1, &p[0]), 0);
		assert_int_equal(enter(k, "secret", 1, &p[1]), 0);
		assert_int_equal(enter(k, "secret", 1, &p[2]), 1);
		keys_leave(&p[2]);
		keys_leave(&p[0]);
		assert_int_equal(enter(k, "secret", 1, &p[2]), 0);
		keys_leave(&p[1]);
		keys_leave(&p[2]);
	}
	keys_free(&k);
}

static int admitted_at(struct keys *k, double now)
{
	struct keys_pass p = { 0 };
	int n = 0;

	while (enter(k, "secret", now, &p) == 0) {
		keys_leave(&p);
		n++;
	}
	return n;
}

static void so_many_a_minute(void **state)
{
	struct keys *k = keys_of("a " HASH " requests_per_minute=6\n");
	struct keys_pass p = { 0 };

	(void)state;
	assert_int_equal(admitted_at(k, 1000), 6);
	assert_int_equal(enter(k, "secret", 1000, &p), 10);
	assert_int_equal(enter(k, "secret", 1004, &p), 6);
	assert_int_equal(admitted_at(k, 1010), 1);
	assert_int_equal(admitted_at(k, 1019.5), 0);
	assert_int_equal(admitted_at(k, 1041), 3);
	assert_int_equal(admitted_at(k, 100000), 6);
	keys_free(&k);
}

static void assert_change(const struct keys_change *c, int added, int removed, int changed, int now)
{
	assert_int_equal(c->added, added);
	assert_int_equal(c->removed, removed);
	assert_int_equal(c->changed, changed);
	assert_int_equal(c->now, now);
}

static void a_new_file_goes_on_counting(void **state)
{
	struct keys *k = keys_of("a " HASH " concurrent=1 requests_per_minute=3\n"), *next;
	struct keys_pass p = { 0 }, q = { 0 };
	struct keys_change change;

	(void)state;
	assert_int_equal(enter(k, "secret", 1, &p), 0);
	next = keys_of("b sha256$" DIGEST_AS_SALT "$" DIGEST "\na " HASH " concurrent=1 requests_per_minute=3\n");
	keys_replace(k, &next, 1, &change);
	assert_null(next);
	assert_change(&change, 1, 0, 0, 2);
	assert_int_equal(keys_count(k), 2);
	assert_int_equal(enter(k, "secret", 1, &q), 1); /* the one of before still runs */
	keys_leave(&p);
	assert_int_equal(admitted_at(k, 1), 2);
	next = keys_of("a " HASH " requests_per_minute=1\n"); /* a lower limit holds at once */
	keys_replace(k, &next, 1, &change);
	assert_change(&change, 0, 1, 1, 1);
	assert_int_equal(admitted_at(k, 600), 1);
	keys_free(&k);
}

static void a_key_that_is_gone_ends_with_its_last_call(void **state)
{
	struct keys *k = keys_of("a " HASH "\n"), *next = keys_of("# nobody\n");
	struct keys_pass p = { 0 }, q = { 0 };
	struct keys_change change;

	(void)state;
	assert_int_equal(enter(k, "secret", 1, &p), 0);
	keys_replace(k, &next, 1, &change);
	assert_int_equal(enter(k, "secret", 1, &q), RC_AUTH);
	assert_string_equal(keys_name(&p), "a");
	keys_leave(&p);
	keys_free(&k);
}

static void replaced(struct keys *k, const char *text, double now)
{
	struct keys *next = keys_of(text);
	struct keys_change change;

	keys_replace(k, &next, now, &change);
}

static void a_key_deleted_and_added_again_still_counts_what_it_holds(void **state)
{
	static const char line[] = "a " HASH " concurrent=2 requests_per_minute=3\n";
	struct keys *k = keys_of(line);
	struct keys_pass p[2] = { 0 }, q = { 0 };

	(void)state;
	assert_int_equal(enter(k, "secret", 1, &p[0]), 0);
	assert_int_equal(enter(k, "secret", 1, &p[1]), 0);
	for (int i = 0; i < 3; i++) {
		replaced(k, "# nobody\n", 1);
		assert_int_equal(enter(k, "secret", 1, &q), RC_AUTH);
		replaced(k, "b sha256$" DIGEST_AS_SALT "$" DIGEST "\n", 1);
	}
	replaced(k, line, 1);
	assert_int_equal(enter(k, "secret", 1, &q), 1);
	keys_leave(&p[0]);
	keys_leave(&p[1]);
	assert_int_equal(admitted_at(k, 1), 1); /* nor is its minute a new one */
	replaced(k, "# nobody\n", 2);
	replaced(k, line, 2);
	assert_int_equal(enter(k, "secret", 2, &q), 19);
	replaced(k, "# nobody\n", 100);           /* what counts for nothing is forgotten */
	replaced(k, line, 100);
	assert_int_equal(admitted_at(k, 100), 3);
	keys_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hash_is_that_of_salt_and_key),
		cmocka_unit_test(wrong_files_are_refused_with_their_line),
		cmocka_unit_test(a_file_that_others_can_read_is_refused),
		cmocka_unit_test(lines_of_all_kinds),
		cmocka_unit_test(only_the_key_is_let_in),
		cmocka_unit_test(so_many_at_once),
		cmocka_unit_test(so_many_a_minute),
		cmocka_unit_test(a_new_file_goes_on_counting),
		cmocka_unit_test(a_key_that_is_gone_ends_with_its_last_call),
		cmocka_unit_test(a_key_deleted_and_added_again_still_counts_what_it_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
