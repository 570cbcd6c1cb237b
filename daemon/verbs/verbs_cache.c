/* SPDX-License-Identifier: MIT
 * verbs_cache.c - io.dsv4.Cache: what the prefix cache holds and did, and what an operator removes from it.
 * Threads: control; what runs as a cache_job on ops. Locks: none (the cache's, inside calls). */
#include "daemon/verbs/cache_id.h"
#include "daemon/verbs/cache_job.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define TREE_MAX 1000
#define TREE_LIMIT 20000      /* of one reply: its bytes have a limit */
#define TREE_INDENT 20        /* forks shown by blanks; deeper ones are no further to the right */
#define TREE_TEXT_TOKENS 24
#define TREE_TEXT_BYTES 60
#define TREE_NUMBERS_DIGITS 8

static int cache_of(struct call *c, struct cache **ret_c, struct buf *why)
{
	int r = daemon_need_engine(c->daemon, why);

	if (r == 0)
		*ret_c = engine_cache(c->daemon->engine);
	return r;
}

static void cache_set(json_t *o, const char *key, json_t *value)
{
	must(value && json_object_set_new(o, key, value) == 0);
}

static void cache_set_count(json_t *o, const char *key, uint64_t n)
{
	cache_set(o, key, json_integer((json_int_t)n));
}

/* ---- stats ---- */

struct cache_count {
	const char *name;
	size_t offset;
};

#define COUNT(name) { #name, offsetof(struct cache_stats, name) }
static const struct cache_count cache_counts[] = {
	COUNT(bytes), COUNT(budget), COUNT(block_bytes), COUNT(state_bytes), COUNT(blocks), COUNT(states),
	COUNT(pinned),
	COUNT(lookups), COUNT(hits), COUNT(tokens_asked), COUNT(tokens_reused), COUNT(published), COUNT(duplicates),
	COUNT(refused), COUNT(evicted_blocks), COUNT(evicted_states), COUNT(fetched), COUNT(distrusted),
	COUNT(kept),
};
#undef COUNT
#define COUNT(name) { #name, offsetof(struct cache_disk_stats, name) }
static const struct cache_count cache_disk_counts[] = {
	COUNT(files), COUNT(bytes), COUNT(written), COUNT(written_bytes), COUNT(raw_bytes), COUNT(read),
	COUNT(read_bytes),
	COUNT(reads_refused), COUNT(dropped), COUNT(over_rate), COUNT(deleted), COUNT(bad), COUNT(foreign),
	COUNT(errors), COUNT(aside), COUNT(strange), COUNT(queued),
};
#undef COUNT
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "counts are read as uint64_t");

static json_t *cache_counted(const struct cache_count *row, size_t n, const void *stats)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++) {
		uint64_t v;

		memcpy(&v, (const char *)stats + row[i].offset, sizeof v);
		cache_set_count(o, row[i].name, v);
	}
	return o;
}

static json_t *cache_reasons(const struct cache_stats *s)
{
	json_t *list = json_array();

	for (int i = 0; i < CACHE_N_MISS; i++)
		must(json_array_append_new(list, json_pack("{s:s, s:I}", "reason", cache_miss_name((enum cache_miss)i),
							   "lookups", (json_int_t)s->miss[i])) == 0);
	return list;
}

int verb_cache_stats(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct cache_disk_stats ds;
	struct cache_disk *disk;
	struct cache_stats s;
	struct cache *cache;
	int r = cache_of(c, &cache, why);

	if (r)
		return r;
	cache_stats(cache, &s);
	*ret_reply = cache_counted(cache_counts, sizeof cache_counts / sizeof *cache_counts, &s);
	cache_set(*ret_reply, "reasons", cache_reasons(&s));
	disk = engine_cache_disk(c->daemon->engine);
	if (disk) {
		cache_disk_stats(disk, &ds);
		cache_set(*ret_reply, "disk",
			  cache_counted(cache_disk_counts, sizeof cache_disk_counts / sizeof *cache_disk_counts, &ds));
		if (*ds.error)
			cache_set(json_object_get(*ret_reply, "disk"), "error",
				  varlink_string(ds.error, strlen(ds.error)));
	}
	return 0;
}

/* ---- tree ---- */

struct cache_tree {
	const struct cache_entry *entry;
	const int *digits;
	uint8_t active[32];           /* the numbers of the next request */
	const struct tokenizer *text; /* NULL: the peer may not know it */
	int forks[TREE_INDENT + 1];   /* depth at which the paths to here parted */
	int n_fork;
};

/* The first words, on one line. */
static json_t *cache_tree_text(const struct tokenizer *t, const int32_t *token)
{
	struct buf b = { 0 };
	json_t *s;
	size_t n;

	tokenizer_decode(t, token, TREE_TEXT_TOKENS, false, &b);
	n = b.len < TREE_TEXT_BYTES ? b.len : TREE_TEXT_BYTES;
	while (n > 0 && n < b.len && ((unsigned char)b.data[n] & 0xc0) == 0x80)
		n--;
	s = varlink_string(b.data ? b.data : "", n);
	buf_fini(&b);
	return s;
}

/* Forks above this entry, in order of depth first; each one moves what is below it to the right. */
static int cache_tree_indent(struct cache_tree *t, const struct cache_entry *e)
{
	int indent;

	while (t->n_fork > 0 && t->forks[t->n_fork - 1] >= e->depth)
		t->n_fork--;
	indent = t->n_fork;
	if (e->children > 1 && t->n_fork < TREE_INDENT)
		t->forks[t->n_fork++] = e->depth;
	return indent;
}

static json_t *cache_tree_block(struct cache_tree *t, int i)
{
	const struct cache_entry *e = &t->entry[i];
	char key[CACHE_KEY_HEX], parent[CACHE_KEY_HEX], numbers[TREE_NUMBERS_DIGITS + 1];
	struct buf tree = { 0 };
	json_t *o;

	for (int k = 0; k < TREE_NUMBERS_DIGITS / 2; k++)
		snprintf(numbers + 2 * k, 3, "%02x", e->numbers[k]);
	cache_key_hex(&e->key, key);
	buf_printf(&tree, "%*s%.*s", 2 * cache_tree_indent(t, e), "", t->digits[i], key);
	o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:s, s:b, s:f}", "key", key, "parent",
		      cache_key_hex(&e->parent, parent), "tree", buf_str(&tree), "depth", e->depth, "tokens",
		      e->depth * SEQUENCE_BLOCK, "children", e->children, "pins", e->pins, "state", e->has_state,
		      "numbers",
		      numbers, "active", memcmp(e->numbers, t->active, sizeof t->active) == 0, "age", e->age);
	must(o != NULL);
	if (t->text)
		cache_set(o, "text", cache_tree_text(t->text, e->token));
	buf_fini(&tree);
	return o;
}

static void cache_active(struct engine *e, uint8_t ret_numbers[32])
{
	struct kset *ks = engine_kset(e);
	struct numerics n;

	engine_numerics(e, &n);
	cache_numbers(ks, &n, ret_numbers);
	kset_unpin(&ks);
}

static json_t *cache_tree_blocks(const struct cache_job *j, const struct cache_entry *e, const int *digits, int n)
{
	struct cache_tree t = { .entry = e, .digits = digits };
	json_t *blocks = json_array();

	cache_active(j->daemon->engine, t.active);
	if (j->may_read)
		t.text = engine_tokenizer(j->daemon->engine);
	for (int i = 0; i < n; i++)
		must(json_array_append_new(blocks, cache_tree_block(&t, i)) == 0);
	return blocks;
}

static int cache_tree_run(struct cache_job *j)
{
	struct cache_entry *e;
	struct cache_stats s;
	int n = cache_tree(j->cache, &e, j->max), r, *digits;

	if (n < 0)
		return buf_why(&j->why, n, "no memory for %d blocks", j->max);
	cache_stats(j->cache, &s);
	if (!j->may_read)
		cache_id_hide(e, n);
	r = cache_id_digits(e, n, s.blocks, &digits);
	if (r == 0) {
		cache_job_set(j, "blocks", cache_tree_blocks(j, e, digits, n));
		cache_job_set(j, "total", json_integer((json_int_t)s.blocks));
		free(digits);
	}
	free(e);
	return r;
}

int verb_cache_tree(struct call *c, json_t **ret_reply, struct buf *why)
{
	long long max = call_int(c, "max", TREE_MAX);
	struct cache_job *j;
	int r = cache_job_new(c, cache_tree_run, &j, why);

	(void)ret_reply;
	if (r)
		return r;
	if (max < 0 || max > TREE_LIMIT) {
		cache_job_free(&j);
		return buf_why(why, RC_INVALID, "max: must be within 0 to %d", TREE_LIMIT);
	}
	j->max = (int)max;
	j->may_read = c->peer.level >= VERB_OPERATE;
	return cache_job_submit(&j, c, why);
}

/* ---- removing: the disk is waited for, so not here but on the ops thread ---- */

static int cache_evict_run(struct cache_job *j)
{
	char hex[CACHE_KEY_HEX];
	int r = cache_evict(j->cache, &j->key);

	if (r == RC_BUSY)
		return buf_why(&j->why, r, "a request uses the block or what continues it");
	if (r)
		return buf_why(&j->why, r, "no block '%s' is cached", cache_key_hex(&j->key, hex));
	cache_job_set(j, "key", json_string(cache_key_hex(&j->key, hex)));
	return 0;
}

int verb_cache_evict(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct cache_job *j;
	int r = cache_job_new(c, cache_evict_run, &j, why);

	(void)ret_reply;
	if (r)
		return r;
	r = cache_id_find(j->cache, call_string(c, "id", ""), &j->key, why);
	if (r == 0)
		return cache_job_submit(&j, c, why);
	cache_job_free(&j);
	return r;
}

static int cache_clear_run(struct cache_job *j)
{
	uint64_t removed = cache_clear(j->cache);
	struct cache_stats s;

	cache_stats(j->cache, &s);
	cache_job_set(j, "removed", json_integer((json_int_t)removed));
	cache_job_set(j, "left", json_integer((json_int_t)s.blocks));
	return 0;
}

int verb_cache_clear(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct cache_job *j;
	int r = cache_job_new(c, cache_clear_run, &j, why);

	(void)ret_reply;
	return r ? r : cache_job_submit(&j, c, why);
}
