/* SPDX-License-Identifier: MIT
 * diskkit.c - a disk cache in a directory of its own, and paths of small blocks to put there and to get back.
 * Threads: the test's. Locks: none. */
#include "tests/unit/diskkit.h"

#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Layers: window only, ratio 4, ratio 128. */
static const struct model_config diskkit_config = {
	.n_layers = 3, .head_dim = 6, .index_dim = 3, .window = 10, .compress_ratio = { 0, 4, 128 },
};

void diskkit_init(struct diskkit *k)
{
	memset(k, 0, sizeof *k);
	strcpy(k->dir, "/tmp/diskkit.XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	sequence_layout_init(&k->layout, &diskkit_config);
	k->options = (struct cache_disk_options){ .dir = k->dir, .layout = &k->layout, .model_id = DISKKIT_MODEL,
						  .bytes = 64 << 20 };
}

static int diskkit_unlink(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st;
	(void)flag;
	(void)f;
	return remove(path);
}

void diskkit_fini(struct diskkit *k)
{
	cache_disk_close(&k->d, 0);
	chmod(k->dir, S_IRWXU);
	assert_int_equal(nftw(k->dir, diskkit_unlink, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void diskkit_open(struct diskkit *k)
{
	struct buf why = { 0 };

	if (cache_disk_open(&k->options, &k->d, &why) < 0)
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
}

void diskkit_close(struct diskkit *k)
{
	cache_disk_close(&k->d, 600);
}

void diskkit_reopen(struct diskkit *k)
{
	diskkit_close(k);
	diskkit_open(k);
}

struct cache_disk_stats diskkit_stats(struct diskkit *k)
{
	struct cache_disk_stats s;

	cache_disk_stats(k->d, &s);
	return s;
}

void diskkit_drain(struct diskkit *k)
{
	while (diskkit_stats(k).queued)
		sched_yield();
}

/* ---- blocks ---- */

static uint32_t diskkit_next(uint32_t *seed)
{
	return *seed = *seed * 1664525u + 1013904223u;
}

/* Any bits, NaN's too. */
static void diskkit_rows(uint32_t *seed, float *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = diskkit_next(seed) ^ diskkit_next(seed) >> 16;

		memcpy(rows + i, &bits, sizeof bits);
	}
}

static void diskkit_fill(struct diskkit *k, uint32_t *seed, struct cache_disk_item *item, bool state)
{
	assert_int_equal(sequence_block_new(&k->layout, &item->block), 0);
	for (int i = 0; i < k->layout.n_layer; i++)
		for (int r = 0; r < SEQUENCE_N_ROWS; r++)
			if (k->layout.layer[i].dim[r])
				diskkit_rows(seed,
					sequence_block_rows(&k->layout, item->block, i, (enum sequence_rows)r),
					(size_t)(SEQUENCE_BLOCK / k->layout.layer[i].ratio *
						 k->layout.layer[i].dim[r]));
	if (state)
		assert_int_equal(sequence_state_new(&k->layout, item->edge, &item->state), 0);
	for (int i = 0; state && i < k->layout.n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n;
			float *rows = sequence_state_rows(&k->layout, item->state, i, (enum sequence_tail)t, &n);

			diskkit_rows(seed, rows, (size_t)(n * k->layout.layer[i].width[t]));
		}
}

void diskkit_path(struct diskkit *k, const char *model, uint32_t seed, int n, uint64_t states,
		  struct cache_disk_item *ret)
{
	static const uint8_t numbers[32] = { 1, 2, 3 };
	struct cache_key parent;

	cache_key_root(model, numbers, &parent);
	memset(ret, 0, (size_t)n * sizeof *ret);
	for (int i = 0; i < n; i++) {
		uint32_t s = seed * 1000 + (uint32_t)i;

		for (int t = 0; t < SEQUENCE_BLOCK; t++)
			ret[i].token[t] = (int32_t)(diskkit_next(&s) >> 12);
		ret[i].parent = parent;
		ret[i].edge = (i + 1) * SEQUENCE_BLOCK;
		cache_key_next(&parent, ret[i].token, &ret[i].key);
		parent = ret[i].key;
		diskkit_fill(k, &s, &ret[i], states >> i & 1);
	}
}

void diskkit_item_fini(struct cache_disk_item *item, int n)
{
	for (int i = 0; i < n; i++) {
		sequence_block_unref(&item[i].block);
		sequence_state_unref(&item[i].state);
	}
}

void diskkit_put(struct diskkit *k, const struct cache_disk_item *item, int n)
{
	for (int i = 0; i < n; i++)
		cache_disk_put(k->d, item + i);
}

void diskkit_write(struct diskkit *k, uint32_t seed, int n, uint64_t states)
{
	struct cache_disk_item item[DISKKIT_MAX];

	diskkit_path(k, k->options.model_id, seed, n, states, item);
	diskkit_put(k, item, n);
	diskkit_item_fini(item, n);
}

static void diskkit_same_block(const struct diskkit *k, const struct cache_disk_item *a,
			       const struct cache_disk_item *b)
{
	for (int i = 0; i < k->layout.n_layer; i++)
		for (int r = 0; r < SEQUENCE_N_ROWS; r++)
			if (k->layout.layer[i].dim[r])
				assert_memory_equal(
					sequence_block_rows(&k->layout, a->block, i, (enum sequence_rows)r),
					sequence_block_rows(&k->layout, b->block, i, (enum sequence_rows)r),
					sizeof(float) * (size_t)(SEQUENCE_BLOCK / k->layout.layer[i].ratio *
								 k->layout.layer[i].dim[r]));
}

static void diskkit_same_state(const struct diskkit *k, struct sequence_state *a, struct sequence_state *b)
{
	assert_int_equal(sequence_state_edge(a), sequence_state_edge(b));
	for (int i = 0; i < k->layout.n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n, m;
			float *x = sequence_state_rows(&k->layout, a, i, (enum sequence_tail)t, &n);
			float *y = sequence_state_rows(&k->layout, b, i, (enum sequence_tail)t, &m);

			assert_int_equal(n, m);
			if (n)
				assert_memory_equal(x, y, sizeof(float) * (size_t)(n * k->layout.layer[i].width[t]));
		}
}

void diskkit_same(const struct diskkit *k, const struct cache_disk_item *a, const struct cache_disk_item *b)
{
	assert_true(cache_key_equal(&a->key, &b->key));
	assert_true(cache_key_equal(&a->parent, &b->parent));
	assert_memory_equal(a->token, b->token, sizeof a->token);
	assert_int_equal(a->edge, b->edge);
	if (a->block && b->block)
		diskkit_same_block(k, a, b);
	if (a->state && b->state)
		diskkit_same_state(k, a->state, b->state);
}

/* ---- reading ---- */

struct diskkit_got {
	struct diskkit *k;
	pthread_mutex_t m;
	pthread_cond_t c;
	struct cache_disk_item item[DISKKIT_MAX];
	int n;
	bool done;
};

static bool diskkit_got(void *arg, struct cache_disk_item *item)
{
	struct diskkit_got *g = arg;
	struct cache_disk_stats s;

	cache_disk_stats(g->k->d, &s); /* which takes the lock: it is not held here */
	pthread_mutex_lock(&g->m);
	assert_false(g->done);
	if (item) {
		assert_true(g->n < DISKKIT_MAX);
		g->item[g->n++] = *item;
	} else {
		g->done = true;
		pthread_cond_signal(&g->c);
	}
	pthread_mutex_unlock(&g->m);
	return true;
}

static void diskkit_wait(struct diskkit_got *g)
{
	pthread_mutex_lock(&g->m);
	while (!g->done)
		pthread_cond_wait(&g->c, &g->m);
	pthread_mutex_unlock(&g->m);
}

int diskkit_read(struct diskkit *k, uint32_t seed, int n, int *ret_state)
{
	struct diskkit_got g = { .k = k, .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };
	struct cache_disk_item want[DISKKIT_MAX];
	struct cache_key key[DISKKIT_MAX];

	diskkit_path(k, k->options.model_id, seed, n, UINT64_MAX, want);
	for (int i = 0; i < n; i++)
		key[i] = want[i].key;
	cache_disk_read(k->d, &(struct cache_disk_ask){ .key = key, .n = n, .fn = diskkit_got, .arg = &g });
	diskkit_wait(&g);
	*ret_state = -1;
	for (int i = 0; i < g.n; i++) {
		assert_non_null(g.item[i].block);
		diskkit_same(k, want + i, g.item + i);
		if (g.item[i].state) {
			assert_int_equal(*ret_state, -1);
			*ret_state = i;
		}
	}
	diskkit_item_fini(want, n);
	diskkit_item_fini(g.item, g.n);
	return g.n;
}

void diskkit_whole(struct diskkit *k, uint32_t seed, int n, int state)
{
	int at;

	assert_int_equal(diskkit_read(k, seed, n, &at), n);
	assert_int_equal(at, state);
}

/* ---- files ---- */

char *diskkit_file(struct diskkit *k, uint32_t seed, int i, enum cache_file_kind kind, bool bad, char out[256])
{
	struct cache_disk_item item[DISKKIT_MAX];
	struct cache_disk_name n = { .model = cache_disk_name_model(k->options.model_id), .kind = kind };
	char name[CACHE_DISK_NAME];

	diskkit_path(k, k->options.model_id, seed, i + 1, 0, item);
	n.key = item[i].key;
	diskkit_item_fini(item, i + 1);
	snprintf(out, 256, "%s/%s%s", k->dir, bad ? "bad/" : "", cache_disk_name_print(&n, name));
	return out;
}

bool diskkit_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* ---- holding the thread ---- */

static bool diskkit_stay(void *arg, struct cache_disk_item *item)
{
	struct diskkit_hold *h = arg;

	assert_null(item);
	pthread_mutex_lock(&h->m);
	h->held = true;
	pthread_cond_broadcast(&h->c);
	while (!h->let_go)
		pthread_cond_wait(&h->c, &h->m);
	h->gone = true;
	pthread_cond_broadcast(&h->c);
	pthread_mutex_unlock(&h->m);
	return true;
}

void diskkit_hold_after(struct diskkit *k, struct diskkit_hold *h)
{
	memset(h, 0, sizeof *h);
	pthread_mutex_init(&h->m, NULL);
	pthread_cond_init(&h->c, NULL);
	cache_disk_read(k->d, &(struct cache_disk_ask){ .key = NULL, .n = 0, .fn = diskkit_stay, .arg = h });
}

void diskkit_held(struct diskkit_hold *h)
{
	pthread_mutex_lock(&h->m);
	while (!h->held)
		pthread_cond_wait(&h->c, &h->m);
	pthread_mutex_unlock(&h->m);
}

void diskkit_hold(struct diskkit *k, struct diskkit_hold *h)
{
	diskkit_hold_after(k, h);
	diskkit_held(h);
}

void diskkit_let_go(struct diskkit_hold *h)
{
	pthread_mutex_lock(&h->m);
	h->let_go = true;
	pthread_cond_broadcast(&h->c);
	while (!h->gone)
		pthread_cond_wait(&h->c, &h->m);
	pthread_mutex_unlock(&h->m);
}
