/* SPDX-License-Identifier: MIT
 * engine_recompute.c - tokens computed afresh beside the requests, to hold against what the cache has.
 * Threads: any. Lock: engine, never while computing. */
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"

#define ENGINE_RECOMPUTE_CHUNK 512

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
		return buf_why(why, RC_TOO_LARGE, "%lld tokens need %zu bytes of state, there are %zu", (long long)n,
			       need, e->env.max_state);
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
			return buf_why(why, RC_CANCELLED, "cancelled after %lld of %lld tokens", (long long)at,
				       (long long)n);
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

	rc = rc ? rc : engine_memory_claim(e, bytes, cancel, why);
	if (rc)
		return rc;
	rc = sequence_new(&e->model->layout, &c.item.seq);
	if (rc == 0)
		rc = engine_recompute_active(e, &c, token, n, cancel, why);
	if (rc)
		sequence_free(&c.item.seq);
	else
		*ret_s = c.item.seq;
	engine_memory_unclaim(e, bytes);
	return rc;
}
