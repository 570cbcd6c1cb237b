/* SPDX-License-Identifier: MIT
 * cache_write.c - the prefix cache and its disk: what is new is written, what is dead is not to come back.
 * Threads: any. Lock: none is held. */
#include "engine/base/mem.h"
#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>
#include <string.h>

static void cache_write_item(struct cache *c, const struct cache_node *n, struct sequence_state *state)
{
	struct cache_disk_item item = { .key = n->key, .parent = n->parent->key, .block = n->block, .state = state,
					.edge = (int64_t)n->depth * SEQUENCE_BLOCK };

	memcpy(item.token, n->token, sizeof item.token);
	cache_disk_put(c->o.disk, &item);
}

void cache_disk_publish(struct cache *c, const struct cache_node *n, struct sequence_state *state)
{
	if (c->o.disk)
		cache_write_item(c, n, state);
}

void cache_disk_refill(struct cache *c, const struct cache_node *end)
{
	const struct cache_node **path;
	bool state;

	if (!c->o.disk || end->doubt || !(path = mem_try((size_t)end->depth, sizeof(*path))))
		return;
	for (const struct cache_node *n = end; n->depth > 0; n = n->parent)
		path[n->depth - 1] = n;
	for (int i = 0; i < end->depth; i++)
		if (path[i] == end || !cache_disk_has(c->o.disk, &path[i]->key, &state))
			cache_write_item(c, path[i], path[i] == end ? end->state : NULL);
	free(path);
}

void cache_disk_forget(struct cache *c, const struct cache_dead *dead, bool wait)
{
	for (const struct cache_node *n = dead->node; n && wait && c->o.disk; n = n->next)
		cache_disk_drop(c->o.disk, &n->key);
	for (int i = 0; i < dead->n_doubted && c->o.disk; i++)
		cache_disk_disown(c->o.disk, &dead->doubted[i]);
}
