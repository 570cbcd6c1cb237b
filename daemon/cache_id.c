/* SPDX-License-Identifier: MIT
 * cache_id.c - cached blocks as people name them: by the first digits of their key.
 * Threads: any. Locks: none (the cache's, inside calls). */
#include "daemon/cache_id.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_ID_DIGITS 6

int cache_id_find(struct cache *c, const char *id, struct cache_key *ret_k, struct buf *why)
{
	struct cache_entry *e;
	char hex[CACHE_KEY_HEX];
	size_t len = strlen(id);
	int n, found = 0;

	if (cache_key_parse(id, ret_k) == 0)
		return 0;
	if (len == 0 || len > CACHE_KEY_HEX || id[strspn(id, "0123456789abcdef")])
		return buf_why(why, RC_INVALID, "'%.40s' is no block: the first of 32 hex digits are one", id);
	n = cache_tree(c, &e, INT_MAX);
	if (n < 0)
		return buf_why(why, n, "no memory to look through all blocks; give all 32 digits");
	for (int i = 0; i < n; i++)
		if (strncmp(cache_key_hex(&e[i].key, hex), id, len) == 0 && found++ == 0)
			*ret_k = e[i].key;
	free(e);
	if (found > 1)
		return buf_why(why, RC_INVALID, "%d blocks begin with '%s'", found, id);
	return found ? 0 : buf_why(why, RC_NOT_FOUND, "no block '%s' is cached", id);
}

int cache_id_get(struct cache *c, const char *id, struct cache_copy *ret_c, struct buf *why)
{
	struct cache_key k;
	int r = cache_id_find(c, id, &k, why);

	if (r)
		return r;
	r = cache_get(c, &k, ret_c);
	if (r == RC_NOT_FOUND)
		return buf_why(why, r, "no block '%s' is cached", id);
	return r ? buf_why(why, r, "no memory for the block's tokens") : 0;
}

/* ---- how short a name may be ---- */

static int cache_id_order(const void *a, const void *b)
{
	const struct cache_entry *const *x = a, *const *y = b;

	return memcmp((*x)->key.byte, (*y)->key.byte, CACHE_KEY_BYTES);
}

/* Digits that two keys have in common. */
static int cache_id_common(const struct cache_entry *a, const struct cache_entry *b)
{
	char x[CACHE_KEY_HEX], y[CACHE_KEY_HEX];
	int n = 0;

	cache_key_hex(&a->key, x);
	cache_key_hex(&b->key, y);
	while (x[n] && x[n] == y[n])
		n++;
	return n;
}

/* Of those in order, the neighbours are the nearest. */
int cache_id_digits(const struct cache_entry *e, int n, int **ret_digits)
{
	const struct cache_entry **order = mem_try((size_t)n, sizeof *order);
	int *digits = mem_try((size_t)n, sizeof *digits);

	if (!order || !digits) {
		free(order);
		free(digits);
		return -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		order[i] = &e[i];
		digits[i] = CACHE_ID_DIGITS;
	}
	qsort(order, (size_t)n, sizeof(const struct cache_entry *), cache_id_order);
	for (int i = 1; i < n; i++) {
		int need = cache_id_common(order[i - 1], order[i]) + 1;

		if (need > digits[order[i - 1] - e])
			digits[order[i - 1] - e] = need;
		if (need > digits[order[i] - e])
			digits[order[i] - e] = need;
	}
	free(order);
	*ret_digits = digits;
	return 0;
}
