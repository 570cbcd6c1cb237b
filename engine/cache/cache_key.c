/* SPDX-License-Identifier: MIT
 * cache_key.c - names of cached blocks: a hash of the model, the numbers, all tokens before and the block's own.
 * Threads: any. Locks: none. */
#include "engine/cache/cache_key.h"
#include "engine/base/buf.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <string.h>

static void cache_key_hash(const void *bytes, size_t n, struct cache_key *ret_k)
{
	uint8_t digest[SHA256_BYTES];

	sha256(digest, bytes, n);
	memcpy(ret_k->byte, digest, sizeof ret_k->byte);
}

void cache_key_root(const char *model_id, const uint8_t numbers[32], struct cache_key *ret_k)
{
	struct buf b = { 0 };

	buf_adds(&b, model_id);
	buf_addc(&b, '\0');
	buf_add(&b, numbers, 32);
	cache_key_hash(b.data, b.len, ret_k);
	buf_fini(&b);
}

/* Tokens as little-endian bytes: the names are on disk. */
void cache_key_next(const struct cache_key *parent, const int32_t token[SEQUENCE_BLOCK], struct cache_key *ret_k)
{
	uint8_t in[CACHE_KEY_BYTES + 4 * SEQUENCE_BLOCK], *p = in + CACHE_KEY_BYTES;

	memcpy(in, parent->byte, CACHE_KEY_BYTES);
	for (int i = 0; i < SEQUENCE_BLOCK; i++)
		for (int k = 0; k < 4; k++)
			*p++ = (uint8_t)((uint32_t)token[i] >> 8 * k);
	cache_key_hash(in, sizeof in, ret_k);
}

bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
	return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

char *cache_key_hex(const struct cache_key *k, char out[CACHE_KEY_HEX])
{
	for (int i = 0; i < 2 * CACHE_KEY_BYTES; i++)
		out[i] = "0123456789abcdef"[k->byte[i / 2] >> (i % 2 ? 0 : 4) & 15];
	out[2 * CACHE_KEY_BYTES] = '\0';
	return out;
}

static int cache_key_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int cache_key_parse(const char *hex, struct cache_key *ret_k)
{
	struct cache_key k = { 0 };

	if (strlen(hex) != 2 * CACHE_KEY_BYTES)
		return RC_INVALID;
	for (int i = 0; i < 2 * CACHE_KEY_BYTES; i++) {
		int d = cache_key_digit(hex[i]);

		if (d < 0)
			return RC_INVALID;
		k.byte[i / 2] = (uint8_t)(k.byte[i / 2] << 4 | d);
	}
	*ret_k = k;
	return 0;
}
