/* SPDX-License-Identifier: MIT
 * cache_file.c - the format of cached files: what is packed comes back, and nothing else is taken.
 * Threads: main. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/diskkit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct diskkit kit;
static struct cache_file_format format;
static struct cache_disk_item item[3];
static uint8_t *file[CACHE_FILE_N_KIND]; /* of item[2] */
static size_t size[CACHE_FILE_N_KIND];
static struct buf why;

static int setup(void **state)
{
	(void)state;
	diskkit_init(&kit);
	cache_file_format_init(&format, &kit.layout, DISKKIT_MODEL);
	diskkit_path(&kit, DISKKIT_MODEL, 1, 3, 4, item);
	for (int i = 0; i < CACHE_FILE_N_KIND; i++)
		assert_int_equal(cache_file_pack(&format, (enum cache_file_kind)i, item + 2, file + i, size + i), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < CACHE_FILE_N_KIND; i++)
		free(file[i]);
	diskkit_item_fini(item, 3);
	diskkit_fini(&kit);
	buf_fini(&why);
	return 0;
}

/* Checked and, when that is well, unpacked and forgotten. */
static int take(const struct cache_file_format *f, const uint8_t *bytes, size_t n, int kind,
		const struct cache_key *key)
{
	struct cache_disk_item got = { .block = NULL };
	struct cache_file_head h;
	int rc = cache_file_check(f, bytes, n, (enum cache_file_kind)kind, key, &h, &why);

	if (rc == 0)
		rc = cache_file_unpack(f, bytes, &h, &got, &why);
	if (rc == 0)
		diskkit_same(&kit, item + 2, &got);
	assert_true((rc == 0) == (got.block || got.state));
	diskkit_item_fini(&got, 1);
	return rc;
}

static uint8_t *copy(int kind, size_t n)
{
	uint8_t *c = mem_try(n ? n : 1, 1);

	memcpy(c, file[kind], n < size[kind] ? n : size[kind]);
	return c;
}

static void what_is_packed_comes_back(void **state)
{
	(void)state;
	for (int i = 0; i < CACHE_FILE_N_KIND; i++) {
		assert_int_equal(take(&format, file[i], size[i], i, &item[2].key), 0);
		assert_true(size[i] > CACHE_FILE_HEADER && size[i] <= cache_file_max(&format, (enum cache_file_kind)i));
	}
}

/* Nowhere is a changed bit taken for anything: neither as ours nor as another model's. */
static void every_flipped_bit_is_found(void **state)
{
	(void)state;
	for (int i = 0; i < CACHE_FILE_N_KIND; i++) {
		uint8_t *c = copy(i, size[i]);

		for (size_t bit = 0; bit < 8 * size[i]; bit++) {
			c[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (take(&format, c, size[i], i, &item[2].key) != RC_INVALID)
				fail_msg("kind %d: bit %zu of byte %zu", i, bit % 8, bit / 8);
			c[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		free(c);
	}
}

static void every_shorter_file_is_found(void **state)
{
	(void)state;
	for (int i = 0; i < CACHE_FILE_N_KIND; i++)
		for (size_t n = 0; n < size[i]; n++) {
			uint8_t *c = copy(i, n); /* with its own end, so that a read beyond it shows */

			if (take(&format, c, n, i, &item[2].key) != RC_INVALID)
				fail_msg("kind %d: %zu of %zu bytes", i, n, size[i]);
			free(c);
		}
}

static void a_longer_file_is_found(void **state)
{
	uint8_t *c = copy(0, size[0] + 1);

	(void)state;
	assert_int_equal(take(&format, c, size[0] + 1, 0, &item[2].key), RC_INVALID);
	free(c);
}

/* A header made up with a right CRC: each field is still held against what it must be. */
struct forgery { const char *what; size_t at; uint64_t value; int n; const char *why; };
static const struct forgery forgeries[] = {
	{ "version",  8,   2,          4, "version 2" },
	{ "kind",     12,  1,          4, "another kind" },
	{ "kind",     12,  7,          4, "another kind" },
	{ "layout",   80,  'x',        1, "another layout" },
	{ "key",      144, 0,          8, "another block's" },
	{ "parent",   160, 0,          8, "not that of its tokens" },
	{ "edge",     176, 0,          8, "token 0" },
	{ "edge",     176, 129,        8, "token 129" },
	{ "edge",     176, UINT64_MAX, 8, "token -1" },
	{ "edge",     176, 1ULL << 62, 8, "token 46" },
	{ "raw",      184, UINT64_MAX, 8, "larger than the layout" },
	{ "raw",      184, 1ULL << 40, 8, "larger than the layout" },
	{ "raw",      184, 4,          8, "larger than the layout" },
	{ "packed",   192, UINT64_MAX, 8, "bytes after the header" },
	{ "packed",   192, 0,          8, "bytes after the header" },
	{ "token",    200, 1,          4, "not that of its tokens" },
	{ "reserved", 712, 1,          4, "reserved" },
};

static void a_made_up_header_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(forgeries); i++) {
		const struct forgery *f = &forgeries[i];
		uint8_t *c = copy(CACHE_FILE_BLOCK, size[0]);

		for (int b = 0; b < f->n; b++)
			c[f->at + (size_t)b] = (uint8_t)(f->value >> 8 * b);
		cache_file_seal(c, size[0]);
		if (take(&format, c, size[0], CACHE_FILE_BLOCK, &item[2].key) != RC_INVALID ||
		    !strstr(buf_str(&why), f->why))
			fail_msg("%s %llu: %s", f->what, (unsigned long long)f->value, buf_str(&why));
		free(c);
	}
}

/* Rows that are no zlib stream, or one of another length than the header says. */
static void made_up_rows_are_found(void **state)
{
	uint8_t *c = copy(CACHE_FILE_STATE, size[1]);

	(void)state;
	c[CACHE_FILE_HEADER] ^= 0xff;
	cache_file_seal(c, size[1]);
	assert_int_equal(take(&format, c, size[1], CACHE_FILE_STATE, &item[2].key), RC_INVALID);
	assert_non_null(strstr(buf_str(&why), "do not decompress"));
	free(c);
	c = copy(CACHE_FILE_STATE, size[1]);
	c[184] ^= 4;
	cache_file_seal(c, size[1]);
	assert_int_equal(take(&format, c, size[1], CACHE_FILE_STATE, &item[2].key), RC_INVALID);
	assert_non_null(strstr(buf_str(&why), "not what the layout says"));
	free(c);
}

static void one_block_is_not_taken_for_another(void **state)
{
	(void)state;
	assert_int_equal(take(&format, file[0], size[0], 0, &item[1].key), RC_INVALID);
	assert_int_equal(take(&format, file[0], size[0], 1, &item[2].key), RC_INVALID);
	assert_int_equal(take(&format, file[1], size[1], 0, &item[2].key), RC_INVALID);
}

static void another_models_file_is_none_of_ours_and_not_bad(void **state)
{
	struct cache_file_format other;

	(void)state;
	cache_file_format_init(&other, &kit.layout, DISKKIT_OTHER);
	assert_int_equal(take(&other, file[0], size[0], 0, &item[2].key), RC_UNSUPPORTED);
	assert_true(cache_file_foreign(&other, file[0]));
	assert_false(cache_file_foreign(&format, file[0]));
}

static void change(struct sequence_layout *l, int what)
{
	switch (what) {
	case 0: l->window++; break;
	case 1: l->layer[1].ratio = 128; break;
	case 2: l->layer[1].overlap = false; break;
	case 3: l->layer[2].width[SEQUENCE_SCORE]++; break;
	case 4: l->layer[1].dim[SEQUENCE_ROWS_KEY]++; break;
	default: l->n_layer--;
	}
}

static void every_part_of_the_layout_counts(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct sequence_layout l = kit.layout;
		struct cache_file_format other;

		change(&l, i);
		cache_file_format_init(&other, &l, DISKKIT_MODEL);
		if (take(&other, file[0], size[0], 0, &item[2].key) != RC_INVALID ||
		    !strstr(buf_str(&why), "another layout"))
			fail_msg("change %d: %s", i, buf_str(&why));
	}
}

/* Rows rounded to few bits have bytes of zeros, which take next to no room. */
static void rounded_rows_are_small(void **state)
{
	struct cache_disk_item flat = item[2];
	uint8_t *bytes;
	size_t n;

	(void)state;
	assert_int_equal(sequence_block_new(&kit.layout, &flat.block), 0);
	for (int i = 1; i < kit.layout.n_layer; i++) {
		float *rows = sequence_block_rows(&kit.layout, flat.block, i, SEQUENCE_ROWS_KV);

		for (int j = 0; j < SEQUENCE_BLOCK / kit.layout.layer[i].ratio * kit.layout.layer[i].dim[0]; j++)
			rows[j] = (float)(j % 15 - 7) / 4;
	}
	assert_int_equal(cache_file_pack(&format, CACHE_FILE_BLOCK, &flat, &bytes, &n), 0);
	assert_true(n - CACHE_FILE_HEADER < cache_file_raw(&format, CACHE_FILE_BLOCK, &flat) / 4);
	free(bytes);
	sequence_block_unref(&flat.block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_packed_comes_back),
		cmocka_unit_test(every_flipped_bit_is_found),
		cmocka_unit_test(every_shorter_file_is_found),
		cmocka_unit_test(a_longer_file_is_found),
		cmocka_unit_test(a_made_up_header_is_found),
		cmocka_unit_test(made_up_rows_are_found),
		cmocka_unit_test(one_block_is_not_taken_for_another),
		cmocka_unit_test(another_models_file_is_none_of_ours_and_not_bad),
		cmocka_unit_test(every_part_of_the_layout_counts),
		cmocka_unit_test(rounded_rows_are_small),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
