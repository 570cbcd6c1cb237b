/* SPDX-License-Identifier: MIT
 * plugin_file.c - tests of plugins as files: who may have written them, what they must look like, and copies.
 * Threads: one. Locks: none.
 *
 * Files belong to `me`, so that "another user" can be had by asking as somebody else; root gives its files away. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/plugin/plugin_elf.h"
#include "engine/plugin/plugin_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define FACTS \
	"[{\"abi\":\"1.0\",\"signature\":\"" DSV4_BUILD_SIGNATURE "\",\"name\":\"some-norm\",\"version\":\"1.2\"," \
	"\"cpu\":\"\",\"gpu\":\"\"},{\"op\":\"rms_norm\",\"phases\":\"DECODE\",\"weights\":\"ANY\"," \
	"\"numerics\":\"ORDER\",\"tag\":\"fp32\"}]"
#define SOMEBODY 4242u

static char dir[64], outside[64];
static uid_t me;

/* ---- a directory, and files that look like plugins ---- */

static const char *at(const char *name)
{
	static char path[4][160];
	static int n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof path[n], "%s/%s", dir, name);
	return path[n];
}

static void own(const char *path)
{
	if (geteuid() == 0)
		assert_int_equal(lchown(path, me, (gid_t)-1), 0);
}

static void put(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	assert_int_equal(fchmod(fd, 0644), 0);
	close(fd);
	own(path);
}

/* The head of a shared object of this machine with one segment over the first `loaded` bytes. */
struct image {
	ElfW(Ehdr) head;
	ElfW(Phdr) segment;
	char text[1024];
};

static struct image image_of(const char *facts)
{
	struct image m = { 0 };

	memcpy(m.head.e_ident, ELFMAG, SELFMAG);
	m.head.e_ident[EI_CLASS] = ELFCLASS64;
	m.head.e_ident[EI_DATA] = ELFDATA2LSB;
	m.head.e_type = ET_DYN;
#ifdef __x86_64__
	m.head.e_machine = EM_X86_64;
#else
	m.head.e_machine = EM_AARCH64;
#endif
	m.head.e_phoff = offsetof(struct image, segment);
	m.head.e_phentsize = sizeof m.segment;
	m.head.e_phnum = 1;
	m.segment.p_type = PT_LOAD;
	m.segment.p_filesz = sizeof m;
	snprintf(m.text, sizeof m.text, "%s%s%s", DSV4_FACTS_BEGIN, facts, DSV4_FACTS_END);
	return m;
}

static void put_plugin(const char *path)
{
	struct image m = image_of(FACTS);

	put(path, &m, sizeof m);
}

static int set_up(void **state)
{
	(void)state;
	me = geteuid() ? geteuid() : SOMEBODY;
	strcpy(dir, "/tmp/dsv4-plugins-XXXXXX");
	strcpy(outside, "/tmp/dsv4-elsewhere-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_non_null(mkdtemp(outside));
	assert_int_equal(mkdir(at("sub"), 0755), 0);
	own(dir);
	own(at("sub"));
	put_plugin(at("p.so"));
	put_plugin(at("sub/q.so"));
	return 0;
}

static int tear_down(void **state)
{
	char command[200];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s %s", dir, outside);
	return system(command);
}

/* ---- what is expected ---- */

static void accepted_as(uid_t self, const char *name)
{
	struct plugin_file *pf = NULL;
	struct buf why = { 0 };

	if (plugin_file_open(dir, name, self, &pf, &why))
		fail_msg("%s: %s", name, buf_str(&why));
	assert_string_equal(pf->facts.name, "some-norm");
	plugin_file_free(&pf);
	assert_null(pf);
}

static void accepted(const char *name)
{
	accepted_as(me, name);
}

static void refused_as(uid_t self, const char *name, enum plugin_refusal r)
{
	struct plugin_file *pf = NULL;
	struct buf why = { 0 };

	assert_int_equal(plugin_file_open(dir, name, self, &pf, &why), RC_PLUGIN);
	assert_null(pf);
	if (plugin_refusal_find(buf_str(&why)) != r)
		fail_msg("%s: %s, not %s", name, buf_str(&why), plugin_refusal_name(r));
	buf_fini(&why);
}

static void refused(const char *name, enum plugin_refusal r)
{
	refused_as(me, name, r);
}

static void fails(const char *name, int rc)
{
	struct plugin_file *pf = NULL;
	struct buf why = { 0 };

	assert_int_equal(plugin_file_open(dir, name, me, &pf, &why), rc);
	assert_null(pf);
	assert_non_null(strstr(buf_str(&why), dir));
	buf_fini(&why);
}

/* ---- where it may lie ---- */

static void test_a_plugin_is_read_whole(void **state)
{
	struct image m = image_of(FACTS);
	struct plugin_file *pf = NULL;
	char digest[SHA256_HEX];

	(void)state;
	assert_int_equal(plugin_file_open(dir, "sub/q.so", me, &pf, NULL), 0);
	assert_int_equal(pf->size, sizeof m);
	assert_memory_equal(pf->bytes, &m, sizeof m);
	sha256_hex(digest, &m, sizeof m);
	assert_string_equal(pf->sha256, digest);
	assert_string_equal(pf->path, at("sub/q.so"));
	plugin_file_free(&pf);
	plugin_file_free(&pf);
}

static void test_names_below_the_directory(void **state)
{
	char *real = realpath(dir, NULL), link[160], below[160];

	(void)state;
	accepted("p.so");
	accepted("./p.so");
	accepted("sub//q.so");
	accepted(at("sub/q.so"));
	accepted(at("/p.so"));
	fails("none.so", RC_NOT_FOUND);
	fails("none/p.so", RC_NOT_FOUND);
	/* The configured directory may be reached by a link: that is its owner's choice. */
	snprintf(link, sizeof link, "%s/link", outside);
	assert_int_equal(symlink(dir, link), 0);
	snprintf(below, sizeof below, "%s/p.so", real);
	for (int absolute = 0; absolute < 2; absolute++) {
		struct plugin_file *pf = NULL;

		assert_int_equal(plugin_file_open(link, absolute ? below : "p.so", me, &pf, NULL), 0);
		plugin_file_free(&pf);
	}
	free(real);
}

static void test_outside(void **state)
{
	char path[160];

	(void)state;
	snprintf(path, sizeof path, "%s/p.so", outside);
	put_plugin(path);
	refused(path, PLUGIN_REFUSED_outside);
	assert_int_equal(symlink(path, at("link.so")), 0);
	refused("link.so", PLUGIN_REFUSED_outside);
	assert_int_equal(symlink(outside, at("linkdir")), 0);
	refused("linkdir/p.so", PLUGIN_REFUSED_outside);
	/* Also a link that stays inside: what is judged shall be what was named. */
	assert_int_equal(symlink("p.so", at("inner.so")), 0);
	refused("inner.so", PLUGIN_REFUSED_outside);
	snprintf(path, sizeof path, "../%s/p.so", strrchr(outside, '/') + 1);
	refused(path, PLUGIN_REFUSED_outside);
	refused("sub/../p.so", PLUGIN_REFUSED_outside);
	refused("..", PLUGIN_REFUSED_outside);
	/* A directory whose name merely begins alike. */
	snprintf(path, sizeof path, "%sx/p.so", dir);
	refused(path, PLUGIN_REFUSED_outside);
}

/* ---- who may have written it ---- */

static void test_foreign_owner(void **state)
{
	(void)state;
	refused_as(me + 1, "p.so", PLUGIN_REFUSED_foreign);
	if (geteuid() != 0)
		return;
	/* Each on its own, which needs root to make. */
	assert_int_equal(chown(at("p.so"), me + 1, (gid_t)-1), 0);
	refused("p.so", PLUGIN_REFUSED_foreign);
	accepted("sub/q.so");
	assert_int_equal(chown(at("sub"), me + 1, (gid_t)-1), 0);
	refused("sub/q.so", PLUGIN_REFUSED_foreign);
	assert_int_equal(chown(at("sub"), 0, (gid_t)-1), 0);
	accepted("sub/q.so");
	assert_int_equal(chown(dir, me + 1, (gid_t)-1), 0);
	refused("sub/q.so", PLUGIN_REFUSED_foreign);
	/* Root's own are trusted, whoever asks. */
	assert_int_equal(chown(dir, 0, (gid_t)-1), 0);
	assert_int_equal(chown(at("sub/q.so"), 0, (gid_t)-1), 0);
	accepted_as(me + 7, "sub/q.so");
}

static void test_writable_by_others(void **state)
{
	static const struct {
		const char *what;
		mode_t open, closed;
	} rows[] = { { "sub/q.so", 0664, 0644 }, { "sub/q.so", 0646, 0644 }, { "sub", 0775, 0755 },
		     { "sub", 0757, 0755 }, { "sub", 01777, 0755 }, { ".", 0777, 0755 } };

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		assert_int_equal(chmod(at(rows[i].what), rows[i].open), 0);
		refused("sub/q.so", PLUGIN_REFUSED_writable);
		assert_int_equal(chmod(at(rows[i].what), rows[i].closed), 0);
		accepted("sub/q.so");
	}
}

/* ---- what it must be ---- */

static void test_not_a_plain_file(void **state)
{
	(void)state;
	refused("sub", PLUGIN_REFUSED_not_file);
	refused(".", PLUGIN_REFUSED_not_file);
	assert_int_equal(mkfifo(at("fifo.so"), 0600), 0);
	own(at("fifo.so"));
	refused("fifo.so", PLUGIN_REFUSED_not_file); /* and does not wait for a writer */
	put(at("empty.so"), "", 0);
	refused("empty.so", PLUGIN_REFUSED_not_file);
	put(at("large.so"), "x", 1);
	assert_int_equal(truncate(at("large.so"), (off_t)PLUGIN_FILE_MAX + 1), 0);
	refused("large.so", PLUGIN_REFUSED_not_file);
	fails("p.so/q.so", -ENOTDIR);
}

static void not_elf(const void *bytes, size_t n)
{
	put(at("x.so"), bytes, n);
	refused("x.so", PLUGIN_REFUSED_not_file);
}

static void test_not_a_shared_object(void **state)
{
	struct image good = image_of(FACTS), m;

	(void)state;
	put(at("x.so"), &good, sizeof good);
	accepted("x.so");
	not_elf("#!/bin/sh\n", 10);
	not_elf(&good, sizeof good.head - 1);
	not_elf(&good, sizeof good - 1); /* cut short */
#define WRONG(field, value) \
	m = good; \
	m.field = value; \
	not_elf(&m, sizeof m)
	WRONG(head.e_ident[1], 'e');
	WRONG(head.e_ident[EI_CLASS], ELFCLASS32);
	WRONG(head.e_ident[EI_DATA], ELFDATA2MSB);
	WRONG(head.e_machine, EM_SPARC);
	WRONG(head.e_type, ET_REL);
	WRONG(head.e_type, ET_EXEC);
	WRONG(head.e_phnum, 0);
	WRONG(head.e_phnum, 60000);
	WRONG(head.e_phentsize, 1);
	WRONG(head.e_phoff, UINT64_MAX - 8);
	WRONG(segment.p_type, PT_NOTE);
	WRONG(segment.p_offset, UINT64_MAX);
	WRONG(segment.p_filesz, UINT64_MAX);
	WRONG(segment.p_filesz, sizeof m + 1);
#undef WRONG
}

static void test_only_what_is_mapped_holds_facts(void **state)
{
	struct image m[2] = { image_of(FACTS), image_of(FACTS) };

	(void)state;
	/* The second one is where debug information stands, which may quote the markers. */
	put(at("x.so"), m, sizeof m);
	accepted("x.so");
	m[0].segment.p_filesz = sizeof m;
	put(at("x.so"), m, sizeof m);
	refused("x.so", PLUGIN_REFUSED_no_facts);
	m[0] = image_of(FACTS);
	m[0].segment.p_filesz = offsetof(struct image, text);
	put(at("x.so"), m, sizeof *m);
	refused("x.so", PLUGIN_REFUSED_no_facts);
}

/* ---- a file that changes ---- */

struct reading {
	struct plugin_file *pf;
	struct stat before;
	int fd;
};

static struct reading opened(const char *name)
{
	struct reading r = { .pf = mem_new(sizeof *r.pf) };

	r.fd = plugin_file_walk(dir, name, me, &r.pf->path, NULL);
	assert_true(r.fd >= 0);
	assert_int_equal(fstat(r.fd, &r.before), 0);
	return r;
}

static void ends(struct reading *r, enum plugin_refusal expected)
{
	struct buf why = { 0 };
	int rc = plugin_file_read(r->fd, &r->before, me, r->pf, &why);

	assert_int_equal(rc, expected ? RC_PLUGIN : 0);
	assert_int_equal(plugin_refusal_find(buf_str(&why)), expected);
	close(r->fd);
	plugin_file_free(&r->pf);
	buf_fini(&why);
}

static void test_changed_in_place(void **state)
{
	struct image m = image_of(FACTS);
	struct reading r;
	struct stat now;

	(void)state;
	r = opened("p.so");
	ends(&r, PLUGIN_ACCEPTED);
	r = opened("p.so");
	assert_int_equal(truncate(at("p.so"), sizeof m + 1), 0);
	ends(&r, PLUGIN_REFUSED_changed);
	r = opened("p.so");
	assert_int_equal(truncate(at("p.so"), 100), 0);
	ends(&r, PLUGIN_REFUSED_changed);
	/* Same size, and the old modification time put back: the time of the last change of status tells. */
	put_plugin(at("p.so"));
	r = opened("p.so");
	do {
		const struct timespec times[2] = { r.before.st_atim, r.before.st_mtim };

		put_plugin(at("p.so"));
		assert_int_equal(utimensat(AT_FDCWD, at("p.so"), times, 0), 0);
		assert_int_equal(fstat(r.fd, &now), 0);
	} while (now.st_ctim.tv_sec == r.before.st_ctim.tv_sec && now.st_ctim.tv_nsec == r.before.st_ctim.tv_nsec);
	assert_int_equal(now.st_mtim.tv_nsec, r.before.st_mtim.tv_nsec);
	ends(&r, PLUGIN_REFUSED_changed);
}

static void test_replaced_by_rename_after_it_was_opened(void **state)
{
	struct image m = image_of(FACTS);
	struct reading r = opened("p.so");

	(void)state;
	m.text[sizeof m.text - 1] = 'x';
	put(at("new.so"), &m, sizeof m);
	assert_int_equal(rename(at("new.so"), at("p.so")), 0);
	/* What was opened is read, and the path is not looked at again. */
	assert_int_equal(fstat(r.fd, &r.before), 0);
	assert_int_equal(plugin_file_read(r.fd, &r.before, me, r.pf, NULL), 0);
	m.text[sizeof m.text - 1] = '\0';
	assert_memory_equal(r.pf->bytes, &m, sizeof m);
	close(r.fd);
	plugin_file_free(&r.pf);
}

/* ---- copies ---- */

static struct plugin_file *file_of(const char *name)
{
	struct plugin_file *pf = NULL;

	assert_int_equal(plugin_file_open(dir, name, me, &pf, NULL), 0);
	return pf;
}

static void test_copies_have_names_of_their_own(void **state)
{
	struct plugin_file *pf = file_of("p.so");
	char *path[3], bytes[sizeof(struct image) + 1], next[160];
	unsigned number = 0;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(plugin_file_copy(pf, outside, &path[0], NULL), 0);
	fd = open(path[0], O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, bytes, sizeof bytes), pf->size);
	assert_memory_equal(bytes, pf->bytes, pf->size);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0500);
	close(fd);
	/* Not even when the first one is gone; and a file that is there is left alone. */
	unlink(path[0]);
	assert_int_equal(sscanf(strrchr(path[0], '.') - 1, "%u.so", &number), 1);
	snprintf(next, sizeof next, "%s/some-norm.%d.%u.so", outside, (int)getpid(), number + 1);
	put(next, "mine", 4);
	for (int i = 1; i < 3; i++)
		assert_int_equal(plugin_file_copy(pf, outside, &path[i], NULL), 0);
	assert_string_not_equal(path[0], path[1]);
	assert_string_not_equal(path[1], path[2]);
	assert_string_not_equal(path[1], next);
	assert_int_equal(stat(next, &st), 0);
	assert_int_equal(st.st_size, 4);
	for (int i = 0; i < 3; i++)
		free(path[i]);
	plugin_file_free(&pf);
}

static void test_no_copy_where_others_may_write(void **state)
{
	struct plugin_file *pf = file_of("p.so");
	struct buf why = { 0 };
	char *path = NULL;

	(void)state;
	assert_int_equal(chmod(outside, 01777), 0);
	assert_int_equal(plugin_file_copy(pf, outside, &path, &why), RC_PLUGIN);
	assert_int_equal(plugin_refusal_find(buf_str(&why)), PLUGIN_REFUSED_writable);
	assert_int_equal(plugin_file_copy(pf, at("none"), &path, &why), RC_NOT_FOUND);
	assert_null(path);
	buf_fini(&why);
	plugin_file_free(&pf);
}

/* ---- the words ---- */

static void test_a_refusal_is_found_by_its_name(void **state)
{
	struct buf why = { 0 };

	(void)state;
	for (int r = PLUGIN_ACCEPTED + 1; r < PLUGIN_N_REFUSAL; r++) {
		assert_int_equal(plugin_refuse(&why, (enum plugin_refusal)r, "%d", r), RC_PLUGIN);
		assert_int_equal(plugin_refusal_find(buf_str(&why)), r);
		assert_true(strlen(plugin_refusal_text((enum plugin_refusal)r)) > 10);
	}
	assert_int_equal(plugin_refusal_find(""), PLUGIN_ACCEPTED);
	assert_int_equal(plugin_refusal_find("crash: no"), PLUGIN_ACCEPTED);
	assert_int_equal(plugin_refusal_find("open(): Permission denied"), PLUGIN_ACCEPTED);
	buf_clear(&why);
	buf_adds(&why, "own text");
	plugin_refuse(&why, PLUGIN_REFUSED_map, "%s, quoted", buf_str(&why));
	assert_string_equal(buf_str(&why), "cannot-map: own text, quoted");
	assert_int_equal(plugin_refuse(NULL, PLUGIN_REFUSED_map, "nobody asks"), RC_PLUGIN);
	buf_fini(&why);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_plugin_is_read_whole),
		TEST(test_names_below_the_directory),
		TEST(test_outside),
		TEST(test_foreign_owner),
		TEST(test_writable_by_others),
		TEST(test_not_a_plain_file),
		TEST(test_not_a_shared_object),
		TEST(test_only_what_is_mapped_holds_facts),
		TEST(test_changed_in_place),
		TEST(test_replaced_by_rename_after_it_was_opened),
		TEST(test_copies_have_names_of_their_own),
		TEST(test_no_copy_where_others_may_write),
		cmocka_unit_test(test_a_refusal_is_found_by_its_name),
	};

	return cmocka_run_group_tests_name("plugin_file", tests, NULL, NULL);
}
