/* SPDX-License-Identifier: MIT
 * cache_key.h - names of cached blocks: a hash of the model, the numbers, all tokens before and the block's own.
 * Threads: any. Locks: none. */
#ifndef ENGINE_CACHE_KEY_H
#define ENGINE_CACHE_KEY_H

#include "engine/model/sequence.h"

#include <stdbool.h>
#include <stdint.h>

#define CACHE_KEY_BYTES 16
#define CACHE_KEY_HEX (2 * CACHE_KEY_BYTES + 1)

/* The first 128 bits of a SHA-256. */
struct cache_key { uint8_t byte[CACHE_KEY_BYTES]; };

/* The key before the first block: which model (64 hex digits, model_id.h) and which numbers (cache_numbers.h). */
void cache_key_root(const char *model_id, const uint8_t numbers[32], struct cache_key *ret_k);
/* Of the block that holds the next 128 tokens after `parent`. */
void cache_key_next(const struct cache_key *parent, const int32_t token[SEQUENCE_BLOCK], struct cache_key *ret_k);
bool cache_key_equal(const struct cache_key *a, const struct cache_key *b);
char *cache_key_hex(const struct cache_key *k, char out[CACHE_KEY_HEX]);
/* RC_INVALID. */
int cache_key_parse(const char *hex, struct cache_key *ret_k);

#endif
