/* SPDX-License-Identifier: MIT
 * cache_keep.c - experiments: rows computed under the numbers before, gone on from under those in force.
 * Threads: any. Lock: cache.
 *
 * They are lent, not taken over: a path to them lies in the tree of the numbers that computed them, and what comes
 * behind them, which is of neither, is published nowhere, in memory or on disk. So no tree ever holds a mixture, and
 * nothing has to be cleaned up when the experiment ends. */
#include "engine/cache/cache_priv.h"

#include <string.h>

void cache_keep(struct cache *c, const uint8_t from[32], const uint8_t numbers[32])
{
	lock_take(&c->lock);
	memcpy(c->keep_from, from, sizeof c->keep_from);
	memcpy(c->keep_for, numbers, sizeof c->keep_for);
	c->keeps = true;
	lock_drop(&c->lock);
}

void cache_keep_end(struct cache *c)
{
	lock_take(&c->lock);
	c->keeps = false;
	lock_drop(&c->lock);
}

bool cache_keeps(struct cache *c)
{
	bool keeps;

	lock_take(&c->lock);
	keeps = c->keeps;
	lock_drop(&c->lock);
	return keeps;
}

/* How deep a prompt could be gone on from under this root, which may be NULL. */
static int cache_keep_depth(struct cache_root *r, const int32_t *token, int64_t n)
{
	return r ? cache_resumable(cache_node_walk(&r->node, token, n), n)->depth : 0;
}

const uint8_t *cache_keep_numbers(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n)
{
	struct cache_root *from;

	if (!c->keeps || memcmp(numbers, c->keep_for, sizeof c->keep_for) != 0)
		return numbers;
	from = cache_root_find(c, c->keep_from);
	if (cache_keep_depth(from, token, n) <= cache_keep_depth(cache_root_find(c, numbers), token, n))
		return numbers;
	return from->numbers;
}
