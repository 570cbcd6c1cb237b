/* SPDX-License-Identifier: MIT
 * cache_node.c - the tree itself: children in order of their tokens, blocks by key, roots by numbers.
 * Threads: any. Lock: cache, held by the caller. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_MIN_BUCKETS ((size_t)1 << 8)
#define CACHE_MAX_BUCKETS ((size_t)1 << 20)

/* ---- children ---- */

/* The first child whose first n tokens are not below these. */
static int cache_node_lower(const struct cache_node *node, const int32_t *token, int n)
{
	int low = 0, high = node->n_child;

	while (low < high) {
		int mid = low + (high - low) / 2;

		if (memcmp(node->child[mid]->token, token, (size_t)n * sizeof *token) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct cache_node *cache_node_child(const struct cache_node *n, const int32_t *token)
{
	int i = cache_node_lower(n, token, SEQUENCE_BLOCK);

	if (i < n->n_child && memcmp(n->child[i]->token, token, sizeof n->child[i]->token) == 0)
		return n->child[i];
	return NULL;
}

struct cache_node *cache_node_walk(const struct cache_node *root, const int32_t *token, int64_t n)
{
	const struct cache_node *at = root, *child;

	for (; n >= SEQUENCE_BLOCK; n -= SEQUENCE_BLOCK, token += SEQUENCE_BLOCK) {
		child = cache_node_child(at, token);
		if (!child || child->doubt)
			break;
		at = child;
	}
	return (struct cache_node *)(uintptr_t)at;
}

static int cache_node_prefix(const struct cache_node *n, const int32_t *token, int n_tok)
{
	int i = 0;

	while (i < n_tok && n->token[i] == token[i])
		i++;
	return i;
}

/* In order, the nearest are neighbours. */
int cache_node_common(const struct cache_node *n, const int32_t *token, int n_tok)
{
	int i = cache_node_lower(n, token, n_tok), after, before;

	after = i < n->n_child ? cache_node_prefix(n->child[i], token, n_tok) : 0;
	before = i > 0 ? cache_node_prefix(n->child[i - 1], token, n_tok) : 0;
	return after > before ? after : before;
}

/* The one after n and all below it. */
static struct cache_node *cache_node_skip(const struct cache_node *top, const struct cache_node *n)
{
	for (; n != top; n = n->parent) {
		int i = cache_node_lower(n->parent, n->token, SEQUENCE_BLOCK) + 1;

		if (i < n->parent->n_child)
			return n->parent->child[i];
	}
	return NULL;
}

struct cache_node *cache_node_next(const struct cache_node *top, const struct cache_node *n)
{
	return n->n_child ? n->child[0] : cache_node_skip(top, n);
}

struct cache_node *cache_node_behind(const struct cache_node *top, const struct cache_node *parent,
				     const int32_t *token)
{
	int i = cache_node_lower(parent, token, SEQUENCE_BLOCK);

	return i < parent->n_child ? parent->child[i] : cache_node_skip(top, parent);
}

static void cache_node_link(struct cache_node *parent, struct cache_node *n)
{
	int i = cache_node_lower(parent, n->token, SEQUENCE_BLOCK);

	if (parent->n_child == parent->cap_child) {
		parent->cap_child = parent->cap_child ? 2 * parent->cap_child : 1;
		parent->child = mem_grow(parent->child, (size_t)parent->cap_child, sizeof *parent->child);
	}
	memmove(parent->child + i + 1, parent->child + i, (size_t)(parent->n_child - i) * sizeof *parent->child);
	parent->child[i] = n;
	parent->n_child++;
}

static void cache_node_unlink(struct cache_node *parent, struct cache_node *n)
{
	int i = cache_node_lower(parent, n->token, SEQUENCE_BLOCK);

	must(i < parent->n_child && parent->child[i] == n);
	parent->n_child--;
	memmove(parent->child + i, parent->child + i + 1, (size_t)(parent->n_child - i) * sizeof *parent->child);
}

/* ---- by key ---- */

/* Keys are hashes, so their first bits are as good as any; and those that begin alike lie side by side. */
size_t cache_node_bucket_of(const struct cache *c, const struct cache_key *k)
{
	uint64_t first = 0;

	for (int i = 0; i < 8; i++)
		first = first << 8 | k->byte[i];
	return (size_t)(first / (UINT64_MAX / c->n_bucket + 1));
}

static struct cache_node **cache_node_bucket(struct cache *c, const struct cache_key *k)
{
	return &c->bucket[cache_node_bucket_of(c, k)];
}

struct cache_node *cache_node_find(struct cache *c, const struct cache_key *k)
{
	struct cache_node *n = *cache_node_bucket(c, k);

	while (n && !cache_key_equal(&n->key, k))
		n = n->next;
	return n;
}

static void cache_node_put(struct cache *c, struct cache_node *n)
{
	struct cache_node **b = cache_node_bucket(c, &n->key);

	n->next = *b;
	*b = n;
}

void cache_node_buckets(struct cache *c)
{
	struct cache_node **old = c->bucket;
	size_t n_old = c->n_bucket, n = CACHE_MIN_BUCKETS;

	while (n < CACHE_MAX_BUCKETS && n < c->o.bytes / c->node_bytes)
		n *= 2;
	if (n <= n_old)
		return;
	c->bucket = mem_new(n * sizeof *c->bucket);
	c->n_bucket = n;
	for (size_t i = 0; i < n_old; i++)
		for (struct cache_node *node = old[i], *next; node; node = next) {
			next = node->next;
			cache_node_put(c, node);
		}
	free(old);
}

/* ---- in and out ---- */

void cache_node_insert(struct cache *c, struct cache_node *parent, struct cache_node *n)
{
	must(!parent->doubt);
	must(parent->holds > 0); /* else the list of the idle would have it before its child */
	n->parent = parent;
	n->root = parent->root;
	n->depth = parent->depth + 1;
	list_init(&n->state_idle);
	list_put(&c->idle, &n->idle);
	cache_node_link(parent, n);
	cache_node_put(c, n);
	c->stats.blocks++;
	c->stats.block_bytes += c->node_bytes;
	c->stats.bytes += c->node_bytes;
}

static void cache_node_unput(struct cache *c, struct cache_node *n)
{
	struct cache_node **at = cache_node_bucket(c, &n->key);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
}

void cache_node_cut(struct cache *c, struct cache_node *top, struct cache_dead *dead)
{
	must(!top->doubt);
	cache_node_unlink(top->parent, top);
	top->cut = true;
	for (struct cache_node *n = top; n; n = cache_node_next(top, n)) {
		n->doubt = true;
		c->n_doubt++;
		cache_node_unput(c, n);
		dead->doubted = mem_grow(dead->doubted, (size_t)dead->n_doubted + 1, sizeof *dead->doubted);
		dead->doubted[dead->n_doubted++] = n->key;
	}
}

void cache_node_remove(struct cache *c, struct cache_node *n)
{
	must(n->depth > 0 && n->holds == 0 && n->n_child == 0 && !n->state);
	if (!n->doubt)
		cache_node_unput(c, n);
	c->n_doubt -= n->doubt;
	list_del(&n->idle);
	if (!n->cut) {
		cache_node_unlink(n->parent, n);
		if (n->parent->depth == 0)
			cache_root_drop(c, n->root);
	}
	c->stats.blocks--;
	c->stats.block_bytes -= c->node_bytes;
	c->stats.bytes -= c->node_bytes;
}

/* ---- roots ---- */

struct cache_root *cache_root_find(struct cache *c, const uint8_t numbers[32])
{
	list_each(r, &c->roots, struct cache_root, list)
		if (memcmp(r->numbers, numbers, sizeof r->numbers) == 0)
			return r;
	return NULL;
}

void cache_root_drop(struct cache *c, struct cache_root *r)
{
	(void)c;
	if (r->node.n_child || r->node.holds)
		return;
	list_del(&r->list);
	free(r->node.child);
	free(r);
}
