/* SPDX-License-Identifier: MIT
 * cachekit.h - prompts that branch, and sequences whose memory tells which tokens it is of, for tests of the cache.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_CACHEKIT_H
#define TESTS_CACHEKIT_H

#include "engine/cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIT_BLOCKS 6
#define KIT_CHOICES 3
#define KIT_TOKENS ((KIT_BLOCKS + 1) * SEQUENCE_BLOCK)

/* n_block whole blocks and `extra` tokens of one more; each block is one of a few, by its place and choice. */
struct kit_prompt {
	uint8_t numbers;                /* which set of them */
	int n_block, extra;             /* extra < 128 */
	uint8_t choice[KIT_BLOCKS + 1];
};

extern const char kit_model[];

struct cachekit {
	struct sequence_layout layout;
	struct cache *cache;
	struct cache_disk *disk;        /* for the next cachekit_init(); NULL: none */
	size_t node_bytes, state_bytes; /* what the cache counts for one; of an edge beyond the window */
};

/* A cache of its own layout with room for that many blocks with a state each. */
void cachekit_init(struct cachekit *k, int n_block);
/* Also proves that nothing is held any more. */
void cachekit_fini(struct cachekit *k);
size_t cachekit_room(const struct cachekit *k, int n_block, int n_state);
/* Two blocks of different choice have this many tokens in common. */
int kit_common(int choice_a, int choice_b);
/* Returns how many. */
int64_t kit_tokens(const struct kit_prompt *p, int32_t token[KIT_TOKENS]);
/* As if computed: up to the end of block n. */
void kit_compute(struct sequence *s, const struct kit_prompt *p, int n);
/* The sequence holds just what kit_compute() wrote for these tokens. */
void kit_check(const struct cachekit *k, struct sequence *s, const struct kit_prompt *p);

/* A prompt on its way through the cache. */
struct kit_run {
	struct kit_prompt prompt;
	int32_t token[KIT_TOKENS];
	int64_t n;
	struct cache_path *path;
	struct cache_find find;
	struct sequence *seq;
};
/* Waits for what comes from disk. */
void kit_lookup(struct cachekit *k, struct kit_run *r, const struct kit_prompt *p);
/* Resumes, and checks what came. */
void kit_resume(struct cachekit *k, struct kit_run *r);
/* Computes and publishes the next block, with or without a state at its end. */
void kit_publish(struct cachekit *k, struct kit_run *r, bool with_state);
void kit_release(struct cachekit *k, struct kit_run *r);
/* All of it: publishes all whole blocks, a state at the end of those in the bits of `states`. Returns the find. */
struct cache_find kit_serve(struct cachekit *k, const struct kit_prompt *p, unsigned states);

#endif
