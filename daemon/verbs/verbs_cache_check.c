/* SPDX-License-Identifier: MIT
 * verbs_cache_check.c - io.dsv4.Cache: verify and diff, bit for bit, on the ops thread.
 * Threads: control; what runs as a cache_job on ops. Locks: none (the cache's, inside calls). */
#include "ctl/cache_diff.h"
#include "daemon/verbs/cache_id.h"
#include "daemon/verbs/cache_job.h"
#include "daemon/verbs/cache_verify_disk.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_VERIFY_MAX_BAD 100 /* named in a reply */

/* ---- on the ops thread ---- */

static void cache_check_part(void *arg, const struct cache_part_diff *d)
{
	cache_diff_add(arg, d->name, d->rows_a, d->rows_b, d->compared, &d->diff);
}

/* All tensors of the job's two. */
static void cache_check_compare(const struct cache_job *j, struct cache_diff *x)
{
	struct sequence_layout l;
	struct cache_view a = { &l, j->a.block, j->a.n_block, j->a.state };
	struct cache_view b = { &l, j->b.block, j->b.n_block, j->b.state };

	sequence_layout_init(&l, engine_config(j->daemon->engine));
	cache_parts_compare(&a, &b, cache_check_part, x);
}

/* ---- diff, on the ops thread ---- */

static int64_t cache_diff_token(const struct cache_copy *a, const struct cache_copy *b)
{
	int64_t n = a->n_token < b->n_token ? a->n_token : b->n_token;

	for (int64_t i = 0; i < n; i++)
		if (a->token[i] != b->token[i])
			return i;
	return -1;
}

static int cache_diff_run(struct cache_job *j)
{
	int64_t token = cache_diff_token(&j->a, &j->b);
	struct cache_diff x = { 0 };
	bool same;

	cache_check_compare(j, &x);
	same = cache_diff_same(&x) && token < 0 && j->a.n_token == j->b.n_token;
	cache_job_set(j, "verdict", json_string(same ? "pass" : "fail"));
	cache_job_set(j, "tokens_a", json_integer(j->a.n_token));
	cache_job_set(j, "tokens_b", json_integer(j->b.n_token));
	if (token >= 0)
		cache_job_set(j, "first_token", json_integer(token));
	cache_diff_take(&x, j->reply);
	return 0;
}

/* ---- verify, on the ops thread ---- */

static void cache_verify_bad(const struct cache_entry *e, const struct cache_key *expected, json_t *bad)
{
	char key[CACHE_KEY_HEX], should[CACHE_KEY_HEX];

	if (json_array_size(bad) < CACHE_VERIFY_MAX_BAD)
		must(json_array_append_new(bad, json_pack("{s:s, s:i, s:s}", "key", cache_key_hex(&e->key, key),
				"depth", e->depth, "expected", cache_key_hex(expected, should))) == 0);
}

/* Every block's key from its tokens and its parent's key; of the first, from the model and the numbers. */
static int cache_verify_hash(struct cache_job *j, const struct cache_entry *e, int n, json_t *bad)
{
	const char *model = cache_model_id(j->cache);

	for (int i = 0; i < n; i++) {
		struct cache_key parent = e[i].parent, key;

		if (cache_job_cancelled(j))
			return RC_CANCELLED;
		if (e[i].depth == 1) {
			cache_key_root(model, e[i].numbers, &parent);
			if (!cache_key_equal(&parent, &e[i].parent))
				cache_verify_bad(&e[i], &parent, bad);
		}
		cache_key_next(&parent, e[i].token, &key);
		if (!cache_key_equal(&key, &e[i].key))
			cache_verify_bad(&e[i], &key, bad);
		cache_job_progress(j, "hash", i + 1, n);
	}
	return 0;
}

static void cache_verify_active(struct cache_job *j, uint8_t ret_numbers[32])
{
	struct kset *ks = engine_kset(j->daemon->engine);
	struct numerics n;

	engine_numerics(j->daemon->engine, &n);
	cache_numbers(ks, &n, ret_numbers);
	kset_unpin(&ks);
}

/* Draws one of those with these numbers into j->a; if there is none, or it was just evicted, j->a stays empty. */
static int cache_verify_draw(struct cache_job *j, const struct cache_entry *e, int n, const uint8_t numbers[32])
{
	uint64_t seed = (uint64_t)clock_ns() * 0x9e3779b97f4a7c15u;
	int of = 0, pick = -1, r;

	for (int i = 0; i < n; i++) {
		if (memcmp(e[i].numbers, numbers, sizeof e[i].numbers))
			continue;
		seed ^= seed << 13; /* xorshift64 */
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed % (uint64_t)++of == 0)
			pick = i;
	}
	if (pick < 0)
		return 0;
	r = cache_get(j->cache, &e[pick].key, &j->a);
	return r == RC_NOT_FOUND ? 0 : r;
}

/* What the tokens give now, as the cache would hold it. The sequence's blocks are the caller's to let go. */
static int cache_verify_computed(struct sequence *s, bool with_state, struct cache_copy *ret_c)
{
	int64_t n = sequence_pos(s) / SEQUENCE_BLOCK;
	struct cache_copy c = { .n_token = sequence_pos(s) };
	int r = 0;

	c.block = mem_try((size_t)n, sizeof(struct sequence_block *));
	if (!c.block)
		return -ENOMEM;
	for (; c.n_block < n; c.n_block++)
		c.block[c.n_block] = sequence_share(s, c.n_block);
	if (with_state)
		r = sequence_save(s, sequence_pos(s), &c.state);
	if (r)
		cache_copy_fini(&c);
	else
		*ret_c = c;
	return r;
}

static int cache_verify_recompute(struct cache_job *j, struct cache_diff *x)
{
	struct sequence *s;
	int r;

	cache_job_progress(j, "compute", 0, j->a.n_token);
	r = engine_recompute(j->daemon->engine, j->a.token, j->a.n_token, &j->job.cancel, &s, &j->why);
	if (r)
		return r;
	r = cache_verify_computed(s, j->a.state != NULL, &j->b);
	if (r == 0) {
		cache_check_compare(j, x);
		cache_job_progress(j, "compute", j->a.n_token, j->a.n_token);
	}
	sequence_free(&s);
	return r;
}

/* The tensors that are equal are only counted. */
static void cache_verify_others(struct cache_job *j)
{
	json_t *all = json_object_get(j->reply, "tensors"), *others = json_array(), *t;
	size_t i;

	json_array_foreach(all, i, t)
		if (json_integer_value(json_object_get(t, "differing")) > 0
		    || json_integer_value(json_object_get(t, "compared"))
			       != json_integer_value(json_object_get(t, "rows_a")))
			json_array_append(others, t);
	cache_job_set(j, "tensors", others);
}

/* Other bits: is a kernel that says it has ref's the reason? Then the comparison disproves it (beside.h). Its two
 * sequences come on top of what requests may have: they are not claimed, and last as long as this. */
static int cache_verify_blame(struct cache_job *j)
{
	struct engine_compare_options o = { .tokens = j->a.token, .n_tokens = (int)j->a.n_token,
					    .cancel = &j->job.cancel };
	struct kset *ref, *active = engine_kset(j->daemon->engine);
	int r = kset_build(NULL, 0, &ref, &j->why), known = disproved_count();
	struct compare_result result = { 0 };

	if (r == 0) {
		o.a.kset = ref;
		o.b.kset = active;
		engine_numerics(j->daemon->engine, &o.a.numerics);
		o.b.numerics = o.a.numerics;
		r = engine_compare(j->daemon->engine, &o, &result, &j->why);
		compare_result_fini(&result);
		kset_unpin(&ref);
	}
	kset_unpin(&active);
	if (r == RC_CANCELLED)
		return r;
	cache_job_set(j, "note", json_string(disproved_count() > known ? disproved_newest()->why :
		r ? "it could not be told whether a kernel is to blame" :
		"op by op, what is in force and marked exact has ref's bits for these tokens: the block is what is "
		"wrong"));
	buf_clear(&j->why);
	return 0;
}

/* The block that is meant, into j->a; it may be of other numbers. *ret_good: the disk's files are. */
static int cache_verify_pick(struct cache_job *j, const struct cache_entry *e, int n, const uint8_t numbers[32],
	bool *ret_good)
{
	*ret_good = true;
	if (j->disk)
		return cache_verify_disk(j, numbers, ret_good);
	return j->a.n_block ? 0 : cache_verify_draw(j, e, n, numbers);
}

static int cache_verify_sample(struct cache_job *j, const struct cache_entry *e, int n, struct cache_diff *x,
	bool *ret_good)
{
	bool named = j->a.n_block > 0 || *j->id;
	uint8_t numbers[32], after[32];
	char key[CACHE_KEY_HEX];
	int r;

	cache_verify_active(j, numbers);
	r = cache_verify_pick(j, e, n, numbers, ret_good);
	if (r)
		return r;
	if (!j->a.n_block || memcmp(j->a.entry.numbers, numbers, sizeof numbers)) {
		if (!json_object_get(j->reply, "note"))
			cache_job_set(j, "note", json_string(named
				? "the block is of other numbers than those in force: only hashed"
				: "no block is of the numbers in force: only hashed"));
		return 0;
	}
	r = cache_verify_recompute(j, x);
	cache_verify_active(j, after);
	if (r == 0 && memcmp(numbers, after, sizeof numbers))
		return buf_why(&j->why, RC_BUSY, "kernels or parameters changed meanwhile");
	if (r == 0 && !cache_diff_same(x))
		r = cache_verify_blame(j);
	if (r)
		return r;
	cache_job_set(j, "recomputed", json_string(cache_key_hex(&j->a.entry.key, key)));
	cache_job_set(j, "tokens", json_integer(j->a.n_token));
	cache_job_set(j, "state", json_boolean(j->a.state != NULL));
	return 0;
}

static int cache_verify_run(struct cache_job *j)
{
	struct cache_diff x = { 0 };
	json_t *bad = json_array();
	struct cache_entry *e;
	int n = cache_tree(j->cache, &e, INT_MAX), r;
	bool pass, good = true;

	cache_job_set(j, "verdict", json_string("fail"));
	cache_job_set(j, "blocks", json_integer(n));
	cache_job_set(j, "bad", bad);
	if (n < 0)
		return buf_why(&j->why, n, "no memory for all blocks");
	r = cache_verify_hash(j, e, n, bad);
	r = r ? r : cache_verify_sample(j, e, n, &x, &good);
	free(e);
	pass = good && json_array_size(bad) == 0 && cache_diff_same(&x);
	cache_diff_take(&x, j->reply);
	cache_verify_others(j);
	cache_job_set(j, "verdict", json_string(pass ? "pass" : "fail"));
	return r;
}

/* ---- on the control thread ---- */

static int cache_check_begin(struct call *c, int (*run)(struct cache_job *j), const char *a, const char *b,
			     struct buf *why)
{
	struct cache_job *j;
	int r = cache_job_new(c, run, &j, why);

	if (r)
		return r;
	if (a)
		r = cache_id_get(j->cache, a, &j->a, why);
	if (r == 0 && b)
		r = cache_id_get(j->cache, b, &j->b, why);
	if (r == 0)
		return cache_job_submit(&j, c, why);
	cache_job_free(&j);
	return r;
}

/* A name on disk is looked up there, by ops. */
static int cache_verify_begin_disk(struct call *c, const char *id, struct buf *why)
{
	struct cache_job *j;
	int r;

	if (strlen(id) >= CACHE_KEY_HEX || strspn(id, "0123456789abcdef") != strlen(id))
		return buf_why(why, RC_INVALID, "'%.40s' is no block: the first of 32 hex digits are one", id);
	r = cache_job_new(c, cache_verify_run, &j, why);
	if (r)
		return r;
	j->disk = true;
	strcpy(j->id, id);
	return cache_job_submit(&j, c, why);
}

int verb_cache_verify(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)ret_reply;
	if (call_flag(c, "disk"))
		return cache_verify_begin_disk(c, call_string(c, "id", ""), why);
	return cache_check_begin(c, cache_verify_run, call_string(c, "id", NULL), NULL, why);
}

int verb_cache_diff(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)ret_reply;
	return cache_check_begin(c, cache_diff_run, call_string(c, "a", ""), call_string(c, "b", ""), why);
}
