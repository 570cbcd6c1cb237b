/* SPDX-License-Identifier: MIT
 * cache_disk_strange.c - the disk cache's directory with what is none of its files, and files broken in every place.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/diskkit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct diskkit kit;

static int setup(void **state)
{
	(void)state;
	diskkit_init(&kit);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	diskkit_fini(&kit);
	return 0;
}

static void put_path(uint32_t seed, int n, uint64_t states)
{
	diskkit_open(&kit);
	diskkit_write(&kit, seed, n, states);
	diskkit_close(&kit);
}

static char *below(const char *sub, const char *name, char out[600])
{
	snprintf(out, 600, "%s/%s%s", kit.dir, sub, name);
	return out;
}

/* A file there that says its own name. */
static void make(const char *name)
{
	char path[600];
	int fd = open(below("", name, path), O_CREAT | O_EXCL | O_WRONLY, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, name, strlen(name)), strlen(name));
	close(fd);
}

/* It is at `path`, and has the bytes that make(name) gave it. */
static void unharmed(const char *path, const char *name)
{
	char text[600] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		fail_msg("%s is gone", path);
	assert_int_equal(read(fd, text, sizeof text - 1), strlen(name));
	assert_string_equal(text, name);
	close(fd);
}

static int count(const char *sub)
{
	char path[600];
	DIR *dir = opendir(below("", sub, path));
	int n = -2;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---- broken in every place ---- */

/* One byte of each field of the header, as cache_file.h lists them, and of the rows behind it; -1: the last. */
static const int places[] = { 0, 7, 8, 11, 12, 16, 79, 80, 143, 144, 159, 160, 175, 176, 183, 184, 191, 192, 199, 200,
	711, 712, 715, 716, 719, 720, 721, 900, -1 };
/* Lengths around the header's end, and from the file's own (0 and below). */
static const int lengths[] = { 1, 8, 199, 200, 719, 720, 721, 1000, -100, -1, 0, 1000000 };

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void flip(const char *path, int place)
{
	off_t at = place < 0 ? size_of(path) + place : place;
	int fd = open(path, O_RDWR);
	uint8_t c;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 0x40;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

/* 0 is for an empty file: of its own length it would be good. */
static void cut(const char *path, int length)
{
	assert_int_equal(truncate(path, length < 0 ? size_of(path) + length : length), 0);
}

/* The broken file is in bad/, another model's in aside/; nothing of it came; and what it held is written again. */
static void broken(void (*how)(const char *path, int arg), int arg, enum cache_file_kind kind)
{
	char path[256], bad[256];
	int at, n;
	struct cache_disk_stats s;

	put_path(1, 2, 2);
	how(diskkit_file(&kit, 1, 1, kind, false, path), arg);
	diskkit_open(&kit);
	n = diskkit_read(&kit, 1, 2, &at);
	s = diskkit_stats(&kit);
	if (n != (kind == CACHE_FILE_BLOCK ? 1 : 2) || at != -1 || s.bad + s.aside != 1 || s.errors || s.strange)
		fail_msg("kind %d, %d: %d blocks, state %d, bad %d, aside %d: %s", kind, arg, n, at, (int)s.bad,
			(int)s.aside, s.error);
	assert_false(diskkit_exists(path));
	diskkit_file(&kit, 1, 1, kind, true, bad);
	assert_int_equal(diskkit_exists(bad), s.bad == 1);
	unlink(bad);
	diskkit_write(&kit, 1, 2, 2);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 1, 2, 1);
	diskkit_close(&kit);
}

static void a_file_with_any_byte_flipped_is_found(void **state)
{
	(void)state;
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++)
		for (size_t i = 0; i < sizeof places / sizeof *places; i++)
			broken(flip, places[i], (enum cache_file_kind)kind);
}

static void a_file_of_any_other_length_is_found(void **state)
{
	(void)state;
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++)
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
			broken(cut, lengths[i], (enum cache_file_kind)kind);
}

/* A whole file in all but the one field; its CRC is right. */
static void reseal(const char *path, int place)
{
	off_t size = size_of(path);
	uint8_t *bytes = malloc((size_t)size);
	int fd = open(path, O_RDWR);

	assert_true(bytes && fd >= 0);
	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	bytes[place] ^= 0x40;
	cache_file_seal(bytes, (size_t)size);
	assert_int_equal(pwrite(fd, bytes, (size_t)size, 0), size);
	close(fd);
	free(bytes);
}

/* Another version, kind, layout, key, parent, edge, tokens: none is believed for its CRC. */
static void a_whole_file_of_something_else_is_found(void **state)
{
	static const int field[] = { 0, 8, 12, 16, 80, 144, 160, 176, 184, 192, 200, 700, 712 };

	(void)state;
	for (size_t i = 0; i < sizeof field / sizeof *field; i++)
		broken(reseal, field[i], CACHE_FILE_BLOCK);
}

/* ---- what is none of ours ---- */

static const char *const junk[] = { "x", ".hidden", "core.1", "block", "bad.block", "deadbeef.block",
	"00112233445566778899aabbccddeeff.00000000.blocks", "00112233445566778899AABBCCDDEEFF.00000000.block",
	"00112233445566778899aabbccddeeff.00000000.state.tmp~", "\xff\xfe name with \n and \x01" };
#define N_JUNK (sizeof junk / sizeof *junk)

static void what_is_no_cached_file_is_moved_aside_and_counted(void **state)
{
	char path[600], name[256], longest[256];

	(void)state;
	put_path(1, 2, 2);
	memset(longest, 'n', 255);
	longest[255] = '\0';
	for (size_t i = 0; i < N_JUNK; i++)
		make(junk[i]);
	make(longest);
	assert_int_equal(symlink("/etc/passwd", diskkit_file(&kit, 2, 0, CACHE_FILE_BLOCK, false, name)), 0);
	assert_int_equal(mkdir(diskkit_file(&kit, 2, 1, CACHE_FILE_BLOCK, false, name), 0700), 0);
	assert_int_equal(mkfifo(diskkit_file(&kit, 2, 2, CACHE_FILE_BLOCK, false, name), 0600), 0);
	assert_int_equal(mkdir(below("", "lost+found", path), 0700), 0);
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, N_JUNK + 4);
	assert_int_equal(diskkit_stats(&kit).strange, 0);
	assert_int_equal(diskkit_stats(&kit).files, 3);
	assert_int_equal(diskkit_stats(&kit).bad + diskkit_stats(&kit).errors, 0);
	diskkit_whole(&kit, 1, 2, 1);
	for (size_t i = 0; i < N_JUNK; i++) {
		assert_false(diskkit_exists(below("", junk[i], path)));
		unharmed(below("aside/", junk[i], path), junk[i]);
	}
	unharmed(below("aside/", longest, path), longest);
	assert_int_equal(count("aside"), N_JUNK + 4);
	assert_true(diskkit_exists(below("", "lost+found", path)));
	diskkit_write(&kit, 2, 3, 0); /* their names are free */
	diskkit_drain(&kit);
	diskkit_whole(&kit, 2, 3, -1);
	diskkit_reopen(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, 0); /* once */
}

static void aside_nothing_is_overwritten(void **state)
{
	char path[600], longest[256];

	(void)state;
	put_path(1, 1, 0);
	memset(longest, 'n', 255);
	longest[255] = '\0';
	for (int i = 0; i < 12; i++) {
		make("x");
		make(longest);
		diskkit_open(&kit);
		assert_int_equal(diskkit_stats(&kit).aside, 2);
		diskkit_close(&kit);
	}
	assert_int_equal(count("aside"), 24);
	unharmed(below("aside/", "x", path), "x");
	unharmed(below("aside/", "x.1", path), "x");
	unharmed(below("aside/", "x.11", path), "x");
}

/* What does not fit stays where it is; neither is deleted. */
static void aside_has_a_limit(void **state)
{
	char path[600], name[16];

	(void)state;
	put_path(1, 1, 0);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "junk%d", i);
		make(name);
	}
	for (int i = 0; i < 3; i++) {
		diskkit_open(&kit);
		assert_int_equal(diskkit_stats(&kit).aside, i ? 0 : 64);
		assert_int_equal(diskkit_stats(&kit).strange, 36);
		assert_non_null(strstr(diskkit_stats(&kit).error, "36 stay where they are"));
		diskkit_whole(&kit, 1, 1, -1);
		diskkit_close(&kit);
		assert_int_equal(count("aside"), 64);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "junk%d", i);
		unharmed(diskkit_exists(below("", name, path)) ? path : below("aside/", name, path), name);
	}
}

static void what_is_large_is_not_moved(void **state)
{
	char path[600];

	(void)state;
	put_path(1, 1, 0);
	make("large");
	make("small");
	assert_int_equal(truncate(below("", "large", path), (1LL << 30) + 1), 0);
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, 1);
	assert_int_equal(diskkit_stats(&kit).strange, 1);
	assert_int_equal(diskkit_stats(&kit).files, 1);
	assert_true(diskkit_exists(path));
	assert_true(diskkit_exists(below("aside/", "small", path)));
}

/* Somebody gave it a directory with other things in it: not once, and not when it has files there. */
static void in_a_directory_of_others_nothing_is_moved(void **state)
{
	char path[600];

	(void)state;
	make("thesis.tex");
	make(".profile");
	for (int i = 0; i < 3; i++) {
		diskkit_open(&kit);
		assert_int_equal(diskkit_stats(&kit).aside, 0);
		assert_int_equal(diskkit_stats(&kit).strange, 2);
		diskkit_write(&kit, 1, 3, 4);
		diskkit_drain(&kit);
		diskkit_whole(&kit, 1, 3, 2);
		diskkit_close(&kit);
	}
	unharmed(below("", "thesis.tex", path), "thesis.tex");
	unharmed(below("", ".profile", path), ".profile");
	assert_false(diskkit_exists(below("", "CACHEDIR.TAG", path)));
}

/* Files of a version that left no tag. */
static void a_directory_of_cached_files_is_ours(void **state)
{
	char path[600];

	(void)state;
	put_path(1, 2, 0);
	assert_int_equal(unlink(below("", "CACHEDIR.TAG", path)), 0);
	put_path(2, 2, 0);
	assert_true(diskkit_exists(path));
	make("x");
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, 1);
}

/* A link would have led the things elsewhere. */
static void aside_is_no_link(void **state)
{
	char path[600];

	(void)state;
	put_path(1, 1, 0);
	assert_int_equal(rmdir(below("", "aside", path)), 0);
	assert_int_equal(symlink("/tmp", path), 0);
	make("cache_disk_strange.x");
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, 0);
	assert_int_equal(diskkit_stats(&kit).strange, 1);
	unharmed(below("", "cache_disk_strange.x", path), "cache_disk_strange.x");
	assert_false(diskkit_exists("/tmp/cache_disk_strange.x"));
}

/* ---- another model's ---- */

/* The name says ours, the header says whose it is. */
static void another_models_file_under_our_name_is_moved_aside(void **state)
{
	char theirs[256], ours[256];
	int at;

	(void)state;
	kit.options.model_id = DISKKIT_OTHER;
	put_path(1, 1, 0);
	diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, theirs);
	kit.options.model_id = DISKKIT_MODEL;
	assert_int_equal(rename(theirs, diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, ours)), 0);
	diskkit_open(&kit);
	assert_int_equal(diskkit_read(&kit, 1, 1, &at), 0);
	assert_int_equal(diskkit_stats(&kit).aside, 1);
	assert_int_equal(diskkit_stats(&kit).bad + diskkit_stats(&kit).errors, 0);
	assert_non_null(strstr(diskkit_stats(&kit).error, "another model's"));
	assert_false(diskkit_exists(ours));
	assert_int_equal(count("aside"), 1);
}

/* Under its own name it is that model's cache, whatever else is tidied up. */
static void another_models_files_stay_where_they_are(void **state)
{
	(void)state;
	put_path(1, 3, 4);
	kit.options.model_id = DISKKIT_OTHER;
	make("x");
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).aside, 1);
	assert_int_equal(diskkit_stats(&kit).foreign, 4);
	diskkit_close(&kit);
	kit.options.model_id = DISKKIT_MODEL;
	diskkit_open(&kit);
	diskkit_whole(&kit, 1, 3, 2);
}

/* ---- while it runs ---- */

/* A file turns into something else after its name was read. */
static void what_became_of_a_file(void **state)
{
	char path[4][256];
	int at;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		put_path(i + 1, 1, 0);
	diskkit_open(&kit);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(unlink(diskkit_file(&kit, i + 1, 0, CACHE_FILE_BLOCK, false, path[i])), 0);
	assert_int_equal(symlink("/dev/zero", path[1]), 0);
	assert_int_equal(mkfifo(path[2], 0600), 0);
	assert_int_equal(mkdir(path[3], 0700), 0);
	for (uint32_t i = 0; i < 4; i++) { /* vanished; not followed; not waited for; not read */
		assert_int_equal(diskkit_read(&kit, i + 1, 1, &at), 0);
		assert_int_equal(diskkit_stats(&kit).errors, 1);
		assert_int_equal(diskkit_stats(&kit).aside, i);
		assert_false(diskkit_exists(path[i]));
	}
	for (uint32_t i = 0; i < 4; i++) {
		diskkit_write(&kit, i + 1, 1, 0);
		diskkit_drain(&kit);
		diskkit_whole(&kit, i + 1, 1, -1);
	}
	assert_int_equal(diskkit_stats(&kit).bad, 0);
}

/* What came to stand where a file is to be written is somebody's, too. */
static void a_link_is_not_written_over(void **state)
{
	char path[256], to[256] = "";

	(void)state;
	put_path(1, 1, 0);
	diskkit_open(&kit);
	assert_int_equal(symlink("nowhere", diskkit_file(&kit, 2, 0, CACHE_FILE_BLOCK, false, path)), 0);
	diskkit_write(&kit, 2, 1, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).errors, 1);
	assert_int_equal(readlink(path, to, sizeof to - 1), 7);
	assert_string_equal(to, "nowhere");
	diskkit_whole(&kit, 1, 1, -1);
}

static int unlink_below(const char *sub)
{
	char dir[600], path[1200];
	DIR *d = opendir(below("", sub, dir));
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		unlink(path);
	}
	closedir(d);
	return rmdir(dir);
}

/* Somebody tidied up: what is asked for is not there, and what is new has no place. */
static void a_directory_that_is_removed_costs_only_the_cache(void **state)
{
	int at;

	(void)state;
	put_path(1, 3, 4);
	diskkit_open(&kit);
	unlink_below("bad");
	unlink_below("aside");
	assert_int_equal(unlink_below(""), 0);
	assert_int_equal(diskkit_read(&kit, 1, 3, &at), 0);
	diskkit_write(&kit, 2, 3, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).written, 0);
	assert_true(diskkit_stats(&kit).errors >= 2);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
	diskkit_close(&kit);
	diskkit_open(&kit); /* it is made again */
	diskkit_write(&kit, 1, 3, 4);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 1, 3, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		T(a_file_with_any_byte_flipped_is_found),
		T(a_file_of_any_other_length_is_found),
		T(a_whole_file_of_something_else_is_found),
		T(what_is_no_cached_file_is_moved_aside_and_counted),
		T(aside_nothing_is_overwritten),
		T(aside_has_a_limit),
		T(what_is_large_is_not_moved),
		T(in_a_directory_of_others_nothing_is_moved),
		T(a_directory_of_cached_files_is_ours),
		T(aside_is_no_link),
		T(another_models_file_under_our_name_is_moved_aside),
		T(another_models_files_stay_where_they_are),
		T(what_became_of_a_file),
		T(a_link_is_not_written_over),
		T(a_directory_that_is_removed_costs_only_the_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
