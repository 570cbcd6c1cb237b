/* SPDX-License-Identifier: MIT
 * cache_id.c - cached blocks as people name them: by the first digits of their key.
 * Threads: any. Locks: none (the cache's, inside calls). */
#include "daemon/verbs/cache_id.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CACHE_ID_DIGITS 6

int cache_id_find(struct cache *c, const char *id, struct cache_key *ret_k, struct buf *why)
{
	int found;

	if (cache_key_parse(id, ret_k) == 0)
		return 0;
	found = cache_find(c, id, ret_k);
	if (found < 0)
		return buf_why(why, RC_INVALID, "'%.40s' is no block: the first of 32 hex digits are one", id);
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

/* So many that of `total` random keys hardly any two have them in common: those that are not looked at count, too. */
static int cache_id_fewest(uint64_t total)
{
	uint64_t pairs = total < UINT32_MAX ? total * total : UINT64_MAX;
	int digits = CACHE_ID_DIGITS;

	while (digits < 2 * CACHE_KEY_BYTES && 4 * digits < 64 && pairs >> 4 * digits)
		digits++;
	return digits;
}

/* Of those in order, the neighbours are the nearest. */
int cache_id_digits(const struct cache_entry *e, int n, uint64_t total, int **ret_digits)
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
		digits[i] = cache_id_fewest(total);
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

/* ---- for those who may not know prompts ---- */

static uint8_t cache_id_salt[32];
static pthread_once_t cache_id_salted = PTHREAD_ONCE_INIT;

static void cache_id_draw(void)
{
	must(getrandom(cache_id_salt, sizeof cache_id_salt, 0) == (ssize_t)sizeof cache_id_salt);
}

static void cache_id_hide_key(struct cache_key *k)
{
	uint8_t in[sizeof cache_id_salt + CACHE_KEY_BYTES], digest[SHA256_BYTES];

	memcpy(in, cache_id_salt, sizeof cache_id_salt);
	memcpy(in + sizeof cache_id_salt, k->byte, CACHE_KEY_BYTES);
	sha256(digest, in, sizeof in);
	memcpy(k->byte, digest, CACHE_KEY_BYTES);
}

void cache_id_hide(struct cache_entry *e, int n)
{
	must_zero(pthread_once(&cache_id_salted, cache_id_draw));
	for (int i = 0; i < n; i++) {
		cache_id_hide_key(&e[i].key);
		cache_id_hide_key(&e[i].parent);
		memset(e[i].token, 0, sizeof e[i].token);
	}
}
