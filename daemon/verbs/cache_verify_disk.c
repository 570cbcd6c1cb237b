/* SPDX-License-Identifier: MIT
 * cache_verify_disk.c - cache verify on the disk's blocks: every file read back, and one chosen with all before it.
 * Threads: ops. Locks: none (the disk's, inside calls). */
#include "daemon/verbs/cache_verify_disk.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERIFY_DISK_MAX_BAD 100 /* named in a reply */

struct verify_block {
	struct cache_key key, parent;
	int64_t edge;
	bool good;                 /* it was read */
	bool active;               /* of the numbers in force, and so are all before it, which are there */
};

struct verify_disk {
	struct cache_job *job;
	struct cache_disk *disk;
	struct verify_block *block; int n; /* by key */
	struct verify_block **order;       /* [n], by depth */
	json_t *bad;
};

/* ---- reading all ---- */

static void verify_disk_bad(struct verify_disk *v, const struct cache_key *k, const char *why)
{
	char key[CACHE_KEY_HEX];

	if (json_array_size(v->bad) < VERIFY_DISK_MAX_BAD)
		must_zero(json_array_append_new(v->bad,
						json_pack("{s:s, s:s}", "key", cache_key_hex(k, key), "why", why)));
}

/* Is it the file, and not the disk or want of something of ours? */
static bool verify_disk_its_own(int r)
{
	return r != RC_TIMEOUT && r != RC_DRAINING && r != -ENOMEM && r != -EMFILE && r != -ENFILE;
}

/* A block that was deleted meanwhile is none. */
static int verify_disk_read(struct verify_disk *v, struct verify_block *b)
{
	struct cache_disk_item item = { .block = NULL };
	struct buf why = { 0 };
	int r = cache_disk_check(v->disk, &b->key, &item, &why);

	if (r == 0) {
		b->good = true;
		b->parent = item.parent;
		b->edge = item.edge;
		sequence_block_unref(&item.block);
		sequence_state_unref(&item.state);
	} else if (r == RC_NOT_FOUND) {
		r = 0;
	} else if (verify_disk_its_own(r)) {
		verify_disk_bad(v, &b->key, why.len ? buf_str(&why) : rc_text(r));
		r = 0;
	} else {
		buf_why(&v->job->why, r, "%s", why.len ? buf_str(&why) : rc_text(r));
	}
	buf_fini(&why);
	return r;
}

static int verify_disk_all(struct verify_disk *v)
{
	int r = 0;

	for (int i = 0; i < v->n && !r; i++) {
		r = cache_job_cancelled(v->job) ? RC_CANCELLED : verify_disk_read(v, &v->block[i]);
		cache_job_progress(v->job, "disk", i + 1, v->n);
	}
	return r;
}

/* ---- which are of the numbers in force ---- */

static int verify_disk_by_key(const void *a, const void *b)
{
	const struct verify_block *x = a, *y = b;

	return memcmp(x->key.byte, y->key.byte, CACHE_KEY_BYTES);
}

static int verify_disk_by_edge(const void *a, const void *b)
{
	const struct verify_block *const *x = a, *const *y = b;

	return ((*x)->edge > (*y)->edge) - ((*x)->edge < (*y)->edge);
}

static struct verify_block *verify_disk_find(struct verify_disk *v, const struct cache_key *k)
{
	const struct verify_block wanted = { .key = *k };

	return bsearch(&wanted, v->block, (size_t)v->n, sizeof *v->block, verify_disk_by_key);
}

/* What comes before a block has been looked at before it. */
static void verify_disk_mark(struct verify_disk *v, const struct cache_key *root)
{
	for (int i = 0; i < v->n; i++)
		v->order[i] = &v->block[i];
	qsort(v->order, (size_t)v->n, sizeof *v->order, verify_disk_by_edge);
	for (int i = 0; i < v->n; i++) {
		struct verify_block *b = v->order[i], *p = b->good ? verify_disk_find(v, &b->parent) : NULL;

		b->active = b->good && (b->edge == SEQUENCE_BLOCK ? cache_key_equal(&b->parent, root) :
			p && p->active && p->edge == b->edge - SEQUENCE_BLOCK);
	}
}

/* ---- choosing one ---- */

/* Is one before it not there, so that nothing tells of which numbers it is? */
static bool verify_disk_cut_off(struct verify_disk *v, const struct verify_block *b)
{
	while (b && b->good && b->edge > SEQUENCE_BLOCK) {
		const struct verify_block *p = verify_disk_find(v, &b->parent);

		if (p && p->edge >= b->edge)
			return true;
		b = p;
	}
	return !b || !b->good;
}

static int verify_disk_named(struct verify_disk *v, const char *id, struct verify_block **ret_b)
{
	struct verify_block *found = NULL;
	int n = 0;

	for (int i = 0; i < v->n; i++) {
		char key[CACHE_KEY_HEX];

		if (v->block[i].good && strncmp(cache_key_hex(&v->block[i].key, key), id, strlen(id)) == 0) {
			found = &v->block[i];
			n++;
		}
	}
	if (n != 1)
		return n ? buf_why(&v->job->why, RC_INVALID, "%d blocks on disk begin with '%s'", n, id)
			 : buf_why(&v->job->why, RC_NOT_FOUND, "no good block '%s' is on disk", id);
	*ret_b = found->active ? found : NULL;
	if (!found->active && verify_disk_cut_off(v, found))
		cache_job_set(v->job, "note",
			      json_string("a block before it is not on disk, or not good: only read back"));
	return 0;
}

static struct verify_block *verify_disk_draw(struct verify_disk *v)
{
	uint64_t seed = (uint64_t)clock_ns() * 0x9e3779b97f4a7c15u;
	struct verify_block *pick = NULL;
	int of = 0;

	for (int i = 0; i < v->n; i++) {
		if (!v->block[i].active)
			continue;
		seed ^= seed << 13; /* xorshift64 */
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed % (uint64_t)++of == 0)
			pick = &v->block[i];
	}
	return pick;
}

/* From its end to the first block; c's arrays have room. */
static int verify_disk_path(struct verify_disk *v, const struct verify_block *end, struct cache_copy *c)
{
	struct cache_key k = end->key;

	for (int64_t i = c->n_block - 1; i >= 0; i--) {
		struct cache_disk_item item = { .block = NULL };
		int r = cache_disk_check(v->disk, &k, &item, &v->job->why);

		if (r)
			return r;
		memcpy(c->token + i * SEQUENCE_BLOCK, item.token, sizeof item.token);
		c->block[i] = item.block;
		if (i == c->n_block - 1)
			c->state = item.state;
		else
			sequence_state_unref(&item.state);
		k = item.parent;
	}
	return 0;
}

static int verify_disk_copy(struct verify_disk *v, const struct verify_block *end, const uint8_t numbers[32])
{
	struct cache_copy c = { .entry.key = end->key, .n_token = end->edge };
	int64_t n = end->edge / SEQUENCE_BLOCK;
	int r;

	c.token = mem_try((size_t)end->edge, sizeof *c.token);
	c.block = mem_try((size_t)n, sizeof *c.block);
	c.n_block = c.block ? n : 0;
	r = c.token && c.block ? verify_disk_path(v, end, &c)
			       : buf_why(&v->job->why, -ENOMEM, "no memory for the block's tokens");
	memcpy(c.entry.numbers, numbers, sizeof c.entry.numbers);
	if (r)
		cache_copy_fini(&c);
	else
		v->job->a = c;
	return r;
}

/* ---- all of it ---- */

static int verify_disk_list(struct verify_disk *v)
{
	struct cache_key *key;
	int n = cache_disk_keys(v->disk, &key);

	if (n < 0)
		return n;
	v->block = mem_try((size_t)n + 1, sizeof *v->block);
	v->order = mem_try((size_t)n + 1, sizeof(struct verify_block *));
	for (int i = 0; i < n && v->block; i++)
		v->block[i].key = key[i];
	free(key);
	if (!v->block || !v->order)
		return -ENOMEM;
	v->n = n;
	qsort(v->block, (size_t)n, sizeof *v->block, verify_disk_by_key);
	return 0;
}

static int verify_disk_choose(struct verify_disk *v, const uint8_t numbers[32])
{
	const char *id = v->job->id;
	struct verify_block *b = NULL;
	struct cache_key root;
	int r = 0;

	cache_key_root(cache_model_id(v->job->cache), numbers, &root);
	verify_disk_mark(v, &root);
	if (*id)
		r = verify_disk_named(v, id, &b);
	else
		b = verify_disk_draw(v);
	return r || !b ? r : verify_disk_copy(v, b, numbers);
}

int cache_verify_disk(struct cache_job *j, const uint8_t numbers[32], bool *ret_good)
{
	struct verify_disk v = { .job = j, .disk = engine_cache_disk(j->daemon->engine), .bad = json_array() };
	int r = v.disk ? verify_disk_list(&v) : RC_UNSUPPORTED;

	if (r)
		buf_why(&j->why, r, v.disk ? "no memory for the blocks on disk" : "there is no cache on disk");
	r = r ? r : verify_disk_all(&v);
	cache_job_set(j, "disk_blocks", json_integer(v.n));
	cache_job_set(j, "disk_bad", v.bad);
	r = r ? r : verify_disk_choose(&v, numbers);
	*ret_good = json_array_size(v.bad) == 0;
	free(v.block);
	free(v.order);
	return r;
}
