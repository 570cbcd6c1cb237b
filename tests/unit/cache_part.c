/* SPDX-License-Identifier: MIT
 * cache_part.c - cached memory by name: each single flipped bit is found where it is, and a dump holds every value.
 * Threads: main. Locks: none. */
#include "engine/cache/cache_part.h"
#include "engine/base/mem.h"
#include "engine/cache/cache_dump.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/unit/cachekit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BLOCKS 3

static const char part_model[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static struct cachekit kit;

/* The prompt's last block from the cache; every value of it is another. */
static struct cache_copy part_copy(void)
{
	const struct kit_prompt p = { .n_block = PART_BLOCKS };
	struct cache_entry *e;
	struct cache_copy c;
	float v = 0;
	int64_t n;

	kit_serve(&kit, &p, 1 << (PART_BLOCKS - 1));
	assert_int_equal(cache_tree(kit.cache, &e, 10), PART_BLOCKS);
	assert_int_equal(cache_get(kit.cache, &e[PART_BLOCKS - 1].key, &c), 0);
	free(e);
	for (int layer = 0; layer < kit.layout.n_layer; layer++) {
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			for (int64_t b = 0; b < PART_BLOCKS && kit.layout.layer[layer].dim[k]; b++)
				for (int i = 0;
				     i < SEQUENCE_BLOCK / kit.layout.layer[layer].ratio *
						 kit.layout.layer[layer].dim[k]; i++)
					sequence_block_rows(&kit.layout, c.block[b], layer, (enum sequence_rows)k)[i] =
						v++;
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			float *rows = sequence_state_rows(&kit.layout, c.state, layer, (enum sequence_tail)t, &n);

			for (int64_t i = 0; i < n * kit.layout.layer[layer].width[t]; i++)
				rows[i] = v++;
		}
	}
	return c;
}

static struct cache_view part_view(const struct cache_copy *c)
{
	return (struct cache_view){ &kit.layout, c->block, c->n_block, c->state };
}

static int setup(void **state)
{
	(void)state;
	cachekit_init(&kit, 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cachekit_fini(&kit);
	return 0;
}

/* ---- comparing ---- */

struct part_seen {
	int n, differ;
	int64_t compared;
	char name[CACHE_PART_NAME];
	struct rowdiff diff;
};

static void part_see(void *arg, const struct cache_part_diff *d)
{
	struct part_seen *s = arg;

	s->n++;
	s->compared += d->diff.values;
	if (!d->diff.differ)
		return;
	s->differ++;
	snprintf(s->name, sizeof s->name, "%s", d->name);
	s->diff = d->diff;
}

/* A block's or state's memory of its own, with the same values. */
static void part_own(struct cache_copy *c, int64_t b)
{
	struct sequence_block *block;
	const int last = kit.layout.n_layer - 1;

	assert_int_equal(sequence_block_new(&kit.layout, &block), 0);
	for (int layer = 0; layer <= last; layer++)
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			if (kit.layout.layer[layer].dim[k])
				memcpy(sequence_block_rows(&kit.layout, block, layer, (enum sequence_rows)k),
				       sequence_block_rows(&kit.layout, c->block[b], layer, (enum sequence_rows)k),
				       sizeof(float) * (size_t)(SEQUENCE_BLOCK / kit.layout.layer[layer].ratio
						       * kit.layout.layer[layer].dim[k]));
	sequence_block_unref(&c->block[b]);
	c->block[b] = block;
}

static void test_flipped_element_is_named(void **state)
{
	struct cache_copy a = part_copy(), b = part_copy();
	struct cache_view x = part_view(&a), y = part_view(&b);
	struct cache_part *p;
	int n = cache_parts(&x, &p), flips = 0;
	struct part_seen s = { 0 };

	(void)state;
	cache_parts_compare(&x, &y, part_see, &s);
	assert_int_equal(s.n, n);
	assert_int_equal(s.differ, 0);
	assert_true(n >= 3 && s.compared > 1000);
	for (int64_t i = 0; i < PART_BLOCKS; i++)
		part_own(&b, i);
	for (int i = 0; i < n; i++)
		for (int64_t row = 0; row < p[i].n_row && !p[i].tail; row += 3) {
			int64_t many, element = row % p[i].width;
			uint32_t *at = (uint32_t *)(uintptr_t)(cache_part_rows(&y, &p[i], row, &many) + element);

			*at ^= 1; /* the least bit there is */
			s = (struct part_seen){ 0 };
			cache_parts_compare(&x, &y, part_see, &s);
			assert_int_equal(s.differ, 1);
			assert_string_equal(s.name, p[i].name);
			assert_int_equal(s.diff.differ, 1);
			assert_int_equal(s.diff.row, row);
			assert_int_equal(s.diff.element, element);
			*at ^= 1;
			flips++;
		}
	assert_true(flips > 20);
	free(p);
	cache_copy_fini(&a);
	cache_copy_fini(&b);
}

static void test_state_of_its_own(void **state)
{
	struct cache_copy a = part_copy(), b = part_copy();
	struct cache_view x = part_view(&a), y = part_view(&b);
	struct part_seen s = { 0 };
	float *rows;
	int64_t n;

	(void)state;
	assert_int_equal(sequence_state_new(&kit.layout, PART_BLOCKS * SEQUENCE_BLOCK, &y.state), 0);
	cache_parts_compare(&x, &y, part_see, &s);
	assert_true(s.differ > 1);
	for (int layer = 0; layer < kit.layout.n_layer; layer++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			rows = sequence_state_rows(&kit.layout, y.state, layer, (enum sequence_tail)t, &n);
			if (rows)
				memcpy(rows,
				       sequence_state_rows(&kit.layout, x.state, layer, (enum sequence_tail)t, &n),
				       (size_t)(n * kit.layout.layer[layer].width[t]) * sizeof *rows);
		}
	rows = sequence_state_rows(&kit.layout, y.state, 1, SEQUENCE_INDEX_SCORE, &n);
	rows[kit.layout.layer[1].width[SEQUENCE_INDEX_SCORE] + 1] += 1;
	s = (struct part_seen){ 0 };
	cache_parts_compare(&x, &y, part_see, &s);
	assert_int_equal(s.differ, 1);
	assert_string_equal(s.name, "layers.1.overlap_index_score");
	assert_true(s.diff.row == 1 && s.diff.element == 1 && s.diff.max_abs == 1);
	sequence_state_unref(&y.state);
	cache_copy_fini(&a);
	cache_copy_fini(&b);
}

static void part_lengths(void *arg, const struct cache_part_diff *d)
{
	if (strstr(d->name, ".rows_")) {
		assert_int_equal(d->rows_a, d->rows_b / 2 * 3);
		assert_int_equal(d->compared, d->rows_b);
	} else {
		assert_true(d->rows_a > 0 && d->rows_b == 0 && d->compared == 0);
	}
	(*(int *)arg)++;
}

static void test_of_different_length(void **state)
{
	struct cache_copy a = part_copy();
	struct cache_view x = part_view(&a), y = x;
	int n = 0;

	(void)state;
	y.n_block = 2;
	y.state = NULL;
	cache_parts_compare(&x, &y, part_lengths, &n);
	assert_true(n > 3);
	cache_copy_fini(&a);
}

/* ---- dumping ---- */

/* Reads a whole dump in pieces of this size. */
static char *part_dump(size_t piece, size_t *ret_n)
{
	struct cache_copy c = part_copy();
	struct cache_dump *d;
	struct buf why = { 0 };
	char *out;
	size_t n = 0, got;

	assert_int_equal(cache_dump_new(&kit.layout, &c, part_model, "a \"set\"", &d, &why), 0);
	assert_null(c.block);
	out = mem_try(cache_dump_bytes(d) + piece, 1);
	while ((got = cache_dump_read(d, out + n, piece)) > 0)
		n += got;
	assert_int_equal(n, cache_dump_bytes(d));
	cache_dump_free(&d);
	*ret_n = n;
	return out;
}

static void test_dump_holds_every_value(void **state)
{
	size_t n, m;
	char *whole = part_dump(1 << 20, &n), *pieces = part_dump(7, &m), *header;
	const struct safetensors_tensor *t;
	struct safetensors st;
	struct buf why = { 0 };
	struct cache_copy c = part_copy();
	struct cache_view v = part_view(&c);
	struct cache_part *p;
	int n_part = cache_parts(&v, &p);
	uint64_t len;

	(void)state;
	assert_int_equal(n, m);
	assert_memory_equal(whole, pieces, n);
	memcpy(&len, whole, sizeof len);
	header = mem_strndup(whole + 8, len);
	assert_non_null(strstr(header, "\"kernels\":\"a \\u0022set\\u0022\""));
	assert_non_null(strstr(header, "\"positions\":\"0-383\""));
	assert_int_equal(safetensors_parse("dump", &header, len, &st, &why), 0);
	assert_int_equal(st.size, n);
	assert_int_equal(st.n, n_part + 1);
	for (int i = 0; i < n_part; i++) {
		t = safetensors_find(&st, p[i].name);
		assert_non_null(t);
		assert_true(t->n_dim == 2 && t->dim[0] == p[i].n_row && t->dim[1] == p[i].width);
		for (int64_t row = 0; row < p[i].n_row; row++) {
			int64_t many;

			assert_memory_equal(whole + t->offset + row * p[i].width * 4,
					    cache_part_rows(&v, &p[i], row, &many),
					    (size_t)p[i].width * 4);
		}
	}
	t = safetensors_find(&st, "tokens");
	assert_true(t && t->dtype == ST_I64 && t->dim[0] == c.n_token);
	for (int64_t i = 0; i < c.n_token; i++) {
		int64_t id;

		memcpy(&id, whole + t->offset + (size_t)i * sizeof id, sizeof id);
		assert_int_equal(id, c.token[i]);
	}
	safetensors_fini(&st);
	free(p);
	cache_copy_fini(&c);
	free(whole);
	free(pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flipped_element_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(test_state_of_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_of_different_length, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dump_holds_every_value, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
