/* SPDX-License-Identifier: MIT
 * engine_cache.c - the prefix cache of an open model, and tokens computed afresh to hold against it.
 * Threads: any. Lock: engine. */
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/model_id.h"
#include "engine/engine_priv.h"

#define ENGINE_RECOMPUTE_CHUNK 512
#define ENGINE_CLAIM_MS 100    /* who waits for room looks so often whether it is to go on */
#define ENGINE_CLAIM_PATIENCE 5.0
#define ENGINE_CACHE_PATIENCE 5.0
#define ENGINE_CACHE_CLOSE 5.0 /* seconds in which what is queued for the disk may still be written */

/* ---- open and close ---- */

/* A disk cache that cannot be had is no reason not to serve. */
static void engine_cache_open_disk(struct engine *e, const struct engine_options *o)
{
	const struct cache_disk_options d = {
		.dir = o->cache_dir,
		.layout = &e->model->layout,
		.model_id = e->model_id,
		.bytes = o->cache_disk_bytes,
		.write_rate = o->cache_write_rate,
		.patience = o->cache_disk_patience,
	};

	if (o->cache_dir && *o->cache_dir && cache_disk_open(&d, &e->cache_disk, &e->cache_disk_why) < 0)
		e->cache_disk = NULL;
}

int engine_cache_open(struct engine *e, const struct engine_options *o, struct buf *why)
{
	struct cache_options c = {
		.layout = &e->model->layout,
		.model_id = e->model_id,
		.bytes = o->cache_bytes == SIZE_MAX ? engine_work_share(e, 8) : o->cache_bytes,
		.ready = e->env.wake,
		.ready_arg = e->env.wake_arg,
	};
	int rc = model_id(e->model->weights->checkpoint, e->model_id, why);

	if (rc)
		return rc;
	engine_cache_open_disk(e, o);
	c.disk = e->cache_disk;
	e->recompute_patience = o->recompute_patience > 0 ? o->recompute_patience : ENGINE_CLAIM_PATIENCE;
	rc = cache_new(&c, &e->cache);
	if (rc)
		return buf_why(why, rc, "no memory for the prefix cache");
	e->env.cache = e->cache;
	e->env.disk_wait_ns =
		(long long)(1e9 * (o->cache_disk_patience > 0 ? o->cache_disk_patience : ENGINE_CACHE_PATIENCE));
	return 0;
}

void engine_cache_close(struct engine *e)
{
	/* Before the cache, which waits for its reads: of a disk that hangs they end here. */
	cache_disk_stop(e->cache_disk, ENGINE_CACHE_CLOSE);
	cache_free(&e->cache);
	cache_disk_close(&e->cache_disk, 0);
	buf_fini(&e->cache_disk_why);
	buf_fini(&e->kept);
}

struct cache *engine_cache(struct engine *e)
{
	return e->cache;
}

struct cache_disk *engine_cache_disk(struct engine *e)
{
	return e->cache_disk;
}

const char *engine_cache_disk_why(struct engine *e)
{
	return buf_str(&e->cache_disk_why);
}

/* ---- room for states ---- */

/* A claim that waits keeps no request out: it has room when they leave some, or is told that they do not. */
bool engine_take_room(struct engine *e, size_t bytes)
{
	bool room;

	lock_take(&e->lock);
	room = e->taken + e->granted + bytes <= e->env.max_state;
	if (room)
		e->taken += bytes;
	lock_drop(&e->lock);
	return room;
}

void engine_give_room(struct engine *e, size_t bytes)
{
	lock_take(&e->lock);
	e->taken -= bytes;
	must_zero(pthread_cond_broadcast(&e->room));
	lock_drop(&e->lock);
}

/* Lock held. */
static int engine_claim_wait(struct engine *e, long long until_ms, const atomic_bool *cancel, struct buf *why)
{
	if (e->stopping)
		return buf_why(why, RC_DRAINING, "the engine stops");
	if (cancel && atomic_load(cancel))
		return buf_why(why, RC_CANCELLED, "cancelled while it waited for the memory that %d requests have",
			e->count.running);
	if (clock_ms() >= until_ms)
		return buf_why(why, RC_BUSY, "waited %.3g s for the memory that %d requests have: try again when they are done",
			e->recompute_patience, e->count.running);
	lock_wait(&e->lock, &e->room, ENGINE_CLAIM_MS);
	return 0;
}

/* Memory for a sequence that is no request's: waits a while until those that run leave it. */
static int engine_claim(struct engine *e, size_t bytes, const atomic_bool *cancel, struct buf *why)
{
	long long until_ms = clock_ms() + (long long)(1000 * e->recompute_patience);
	int rc = 0;

	lock_take(&e->lock);
	while (rc == 0 && e->taken + e->granted + bytes > e->env.max_state)
		rc = engine_claim_wait(e, until_ms, cancel, why);
	if (rc == 0)
		e->granted += bytes;
	lock_drop(&e->lock);
	return rc;
}

static void engine_unclaim(struct engine *e, size_t bytes)
{
	lock_take(&e->lock);
	e->granted -= bytes;
	e->woken = true;
	must_zero(pthread_cond_signal(&e->cond));
	must_zero(pthread_cond_broadcast(&e->room));
	lock_drop(&e->lock);
}

/* ---- computing afresh ---- */

struct engine_recompute {
	struct forward *forward;
	struct forward_batch batch;
	struct forward_item item;
	struct numerics numerics;
	struct kset *kset;
	struct pool *pool;
};

static int engine_recompute_check(struct engine *e, const int32_t *token, int64_t n, struct buf *why)
{
	size_t need = sequence_layout_bytes(&e->model->layout, n);

	must(n > 0);
	if (need > e->env.max_state)
		return buf_why(why, RC_TOO_LARGE, "%lld tokens need %zu bytes of state, there are %zu", (long long)n, need,
			e->env.max_state);
	for (int64_t i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= e->model->config->vocab_size)
			return buf_why(why, RC_INVALID, "token %d is outside 0 to %d", token[i],
				e->model->config->vocab_size - 1);
	return 0;
}

static int engine_recompute_run(struct engine_recompute *c, const int32_t *token, int64_t n, const atomic_bool *cancel,
	struct buf *why)
{
	int rc = 0;

	for (int64_t at = 0; at < n && !rc; at += c->item.n) {
		int64_t left = n - at;

		if (cancel && atomic_load(cancel))
			return buf_why(why, RC_CANCELLED, "cancelled after %lld of %lld tokens", (long long)at, (long long)n);
		c->item.tokens = token + at;
		c->item.n = left < ENGINE_RECOMPUTE_CHUNK ? (int)left : ENGINE_RECOMPUTE_CHUNK;
		rc = forward_run(c->forward, &c->batch, why);
	}
	return rc;
}

/* With the active set; *ret_s is empty before. */
static int engine_recompute_active(struct engine *e, struct engine_recompute *c, const int32_t *token, int64_t n,
	const atomic_bool *cancel, struct buf *why)
{
	int threads = pool_threads(e->pool) / 2, rc = pool_new(threads > 0 ? threads : 1, &c->pool);

	if (rc)
		return buf_why(why, rc, "cannot start %d threads", threads);
	lock_take(&e->lock);
	c->kset = kset_pin(e->kset);
	c->numerics = e->numerics;
	lock_drop(&e->lock);
	c->forward = forward_new(e->model, c->pool);
	c->batch.kset = c->kset;
	c->batch.numerics = &c->numerics;
	rc = engine_recompute_run(c, token, n, cancel, why);
	forward_free(&c->forward);
	kset_unpin(&c->kset);
	pool_free(&c->pool);
	return rc;
}

int engine_recompute(struct engine *e, const int32_t *token, int64_t n, const atomic_bool *cancel,
	struct sequence **ret_s, struct buf *why)
{
	struct engine_recompute c = { .batch = { .phase = DSV4_PREFILL, .item = &c.item, .n_item = 1 } };
	size_t bytes = sequence_layout_bytes(&e->model->layout, n);
	int rc = engine_recompute_check(e, token, n, why);

	rc = rc ? rc : engine_claim(e, bytes, cancel, why);
	if (rc)
		return rc;
	rc = sequence_new(&e->model->layout, &c.item.seq);
	if (rc == 0)
		rc = engine_recompute_active(e, &c, token, n, cancel, why);
	if (rc)
		sequence_free(&c.item.seq);
	else
		*ret_s = c.item.seq;
	engine_unclaim(e, bytes);
	return rc;
}
