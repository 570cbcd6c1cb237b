/* SPDX-License-Identifier: MIT
 * cache_disk_index.c - which cached files there are, their bytes, and which of them is the longest unused.
 * Threads: any, under the owner's lock. Locks: none; no I/O. */
#include "engine/cache/cache_disk_index.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_DISK_SECOND 1000000000LL
/* A path used again within a moment keeps its stamps: a prefill of thousands of blocks does not walk up from each. */
#define CACHE_DISK_MOMENT (60 * CACHE_DISK_SECOND)
/* What a crash may forget of uses; saving one costs a write of its inode. */
#define CACHE_DISK_SAVE_AFTER (600 * CACHE_DISK_SECOND)

static const char *const cache_disk_ending[CACHE_FILE_N_KIND] = { "block", "state" };

/* ---- names ---- */

uint32_t cache_disk_name_model(const char *model_id)
{
	char hex[SHA256_HEX];

	sha256_hex(hex, model_id, strlen(model_id));
	hex[8] = '\0';
	return (uint32_t)strtoul(hex, NULL, 16);
}

char *cache_disk_name_print(const struct cache_disk_name *n, char out[CACHE_DISK_NAME])
{
	char key[CACHE_KEY_HEX];
	int len = snprintf(out, CACHE_DISK_NAME, "%s.%08x.%s", cache_key_hex(&n->key, key), n->model,
		cache_disk_ending[n->kind]);

	must(len > 0 && len < CACHE_DISK_NAME);
	return out;
}

bool cache_disk_name_parse(const char *text, struct cache_disk_name *ret_n, bool *ret_tmp)
{
	char key[CACHE_KEY_HEX] = "", again[CACHE_DISK_NAME], ending[6] = "";
	size_t len;

	if (sscanf(text, "%32[0-9a-f].%8x.%5[a-z]", key, &ret_n->model, ending) != 3 ||
	    strlen(key) != sizeof key - 1 || cache_key_parse(key, &ret_n->key) < 0)
		return false;
	ret_n->kind = strcmp(ending, cache_disk_ending[CACHE_FILE_STATE]) ? CACHE_FILE_BLOCK : CACHE_FILE_STATE;
	cache_disk_name_print(ret_n, again);
	len = strlen(again);
	if (strncmp(text, again, len) != 0)
		return false; /* one name has one spelling */
	*ret_tmp = strcmp(text + len, CACHE_DISK_TMP) == 0;
	return *ret_tmp || !text[len];
}

/* ---- the heap: the smallest stamp at [0], a parent never above its children ---- */

static void cache_disk_heap_set(struct cache_disk_index *x, size_t i, struct cache_disk_entry *e)
{
	x->heap[i] = e;
	e->heap = i;
}

static void cache_disk_heap_swap(struct cache_disk_index *x, size_t i, size_t j)
{
	struct cache_disk_entry *e = x->heap[i];

	cache_disk_heap_set(x, i, x->heap[j]);
	cache_disk_heap_set(x, j, e);
}

static bool cache_disk_heap_before(const struct cache_disk_index *x, size_t i, size_t j)
{
	return x->heap[i]->stamp < x->heap[j]->stamp;
}

static void cache_disk_heap_settle(struct cache_disk_index *x, size_t i)
{
	for (; i && cache_disk_heap_before(x, i, (i - 1) / 2); i = (i - 1) / 2)
		cache_disk_heap_swap(x, i, (i - 1) / 2);
	for (size_t low; (low = 2 * i + 1) < x->n; i = low) {
		if (low + 1 < x->n && cache_disk_heap_before(x, low + 1, low))
			low++;
		if (!cache_disk_heap_before(x, low, i))
			return;
		cache_disk_heap_swap(x, i, low);
	}
}

static void cache_disk_index_restamp(struct cache_disk_index *x, struct cache_disk_entry *e, int64_t stamp)
{
	if (!e)
		return;
	e->stamp = stamp;
	cache_disk_heap_settle(x, e->heap);
}

/* ---- entries ---- */

/* Keys are hashes already. */
static struct cache_disk_entry **cache_disk_index_bucket(struct cache_disk_index *x, const struct cache_key *k)
{
	size_t h;

	memcpy(&h, k->byte, sizeof h);
	return &x->bucket[h % x->n_bucket];
}

static void cache_disk_index_grow(struct cache_disk_index *x)
{
	if (x->n < x->cap)
		return;
	x->cap = x->cap ? 2 * x->cap : 64;
	x->heap = mem_grow(x->heap, x->cap, sizeof(*x->heap));
	free(x->bucket);
	x->n_bucket = x->cap;
	x->bucket = mem_grow(NULL, x->n_bucket, sizeof(*x->bucket));
	memset(x->bucket, 0, x->n_bucket * sizeof(*x->bucket));
	for (size_t i = 0; i < x->n; i++) {
		struct cache_disk_entry **b = cache_disk_index_bucket(x, &x->heap[i]->name.key);

		x->heap[i]->next = *b;
		*b = x->heap[i];
	}
}

void cache_disk_index_fini(struct cache_disk_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->heap[i]);
	free(x->heap);
	free(x->bucket);
	memset(x, 0, sizeof *x);
}

struct cache_disk_entry *cache_disk_index_find(struct cache_disk_index *x, const struct cache_disk_name *n,
	enum cache_disk_place place)
{
	struct cache_disk_entry *e = x->n_bucket ? *cache_disk_index_bucket(x, &n->key) : NULL;

	while (e && (e->place != place || e->name.kind != n->kind || e->name.model != n->model ||
			    !cache_key_equal(&e->name.key, &n->key)))
		e = e->next;
	return e;
}

struct cache_disk_entry *cache_disk_index_add(struct cache_disk_index *x, const struct cache_disk_name *n,
	enum cache_disk_place place, uint64_t bytes, int64_t stamp)
{
	struct cache_disk_entry *e = cache_disk_index_find(x, n, place), **b;

	cache_disk_index_remove(x, &e);
	cache_disk_index_grow(x);
	e = mem_new(sizeof *e);
	e->name = *n;
	e->place = place;
	e->bytes = bytes;
	e->stamp = e->saved = stamp;
	b = cache_disk_index_bucket(x, &n->key);
	e->next = *b;
	*b = e;
	x->bytes += bytes;
	x->count[place]++;
	cache_disk_heap_set(x, x->n++, e);
	cache_disk_heap_settle(x, e->heap);
	return e;
}

void cache_disk_index_remove(struct cache_disk_index *x, struct cache_disk_entry **pe)
{
	struct cache_disk_entry *e = *pe, **b;
	size_t at;

	*pe = NULL;
	if (!e)
		return;
	for (b = cache_disk_index_bucket(x, &e->name.key); *b != e; b = &(*b)->next)
		must(*b);
	*b = e->next;
	x->bytes -= e->bytes;
	x->count[e->place]--;
	at = e->heap;
	cache_disk_heap_swap(x, at, --x->n);
	if (at < x->n)
		cache_disk_heap_settle(x, at);
	free(e);
}

struct cache_disk_entry *cache_disk_index_oldest(struct cache_disk_index *x)
{
	return x->n ? x->heap[0] : NULL;
}

struct cache_disk_entry *cache_disk_index_oldest_bad(struct cache_disk_index *x)
{
	struct cache_disk_entry *old = NULL;

	for (size_t i = 0; i < x->n; i++)
		if (x->heap[i]->place == CACHE_DISK_BAD && (!old || x->heap[i]->stamp < old->stamp))
			old = x->heap[i];
	return old;
}

/* ---- uses ---- */

static struct cache_disk_entry *cache_disk_index_parent(struct cache_disk_index *x, const struct cache_disk_entry *e)
{
	struct cache_disk_name n = e->name;

	n.key = e->parent;
	return e->has_parent ? cache_disk_index_find(x, &n, CACHE_DISK_OWN) : NULL;
}

static struct cache_disk_entry *cache_disk_index_state(struct cache_disk_index *x, const struct cache_disk_entry *e)
{
	struct cache_disk_name n = e->name;

	n.kind = CACHE_FILE_STATE;
	return cache_disk_index_find(x, &n, CACHE_DISK_OWN);
}

int64_t cache_disk_index_stamp(struct cache_disk_index *x, const struct cache_disk_name *parent, int64_t now)
{
	struct cache_disk_entry *p = cache_disk_index_find(x, parent, CACHE_DISK_OWN);

	return p && !cache_disk_index_stale(p, now) ? p->stamp - 1 : now;
}

bool cache_disk_index_stale(const struct cache_disk_entry *e, int64_t now)
{
	return e->stamp <= now - CACHE_DISK_MOMENT;
}

static void cache_disk_index_use(struct cache_disk_index *x, struct cache_disk_entry *e, int64_t stamp)
{
	cache_disk_index_restamp(x, e, stamp);
	cache_disk_index_restamp(x, cache_disk_index_state(x, e), stamp);
}

void cache_disk_index_touch(struct cache_disk_index *x, const struct cache_disk_name *block, int64_t now)
{
	struct cache_disk_entry *e = cache_disk_index_find(x, block, CACHE_DISK_OWN), *up;

	if (!e)
		return;
	up = cache_disk_index_parent(x, e);
	if (up && !cache_disk_index_stale(up, now)) {
		if (cache_disk_index_stale(e, now) || e->stamp >= up->stamp)
			cache_disk_index_use(x, e, up->stamp - 1);
	} else if (up || cache_disk_index_stale(e, now)) {
		for (; e; e = cache_disk_index_parent(x, e))
			cache_disk_index_use(x, e, now++);
	}
}

static int cache_disk_index_put_unsaved(struct cache_disk_entry *e, struct cache_disk_stamp *ret_s)
{
	if (!e || e->stamp - e->saved < CACHE_DISK_SAVE_AFTER)
		return 0;
	e->saved = e->stamp;
	*ret_s = (struct cache_disk_stamp){ .name = e->name, .stamp = e->stamp };
	return 1;
}

int cache_disk_index_unsaved(struct cache_disk_index *x, const struct cache_disk_name *block,
	struct cache_disk_stamp *ret_s, int max)
{
	struct cache_disk_entry *e = cache_disk_index_find(x, block, CACHE_DISK_OWN);
	int n = 0;

	for (; e && n + 2 <= max; e = cache_disk_index_parent(x, e)) {
		n += cache_disk_index_put_unsaved(e, ret_s + n);
		n += cache_disk_index_put_unsaved(cache_disk_index_state(x, e), ret_s + n);
	}
	return n;
}
