/* SPDX-License-Identifier: MIT
 * bpe.h - byte-pair encoding: which two neighbours merge, in which order.
 * Threads: any; a bpe is read-only after loading, a bpe_work belongs to one call. Locks: none. */
#ifndef ENGINE_BPE_H
#define ENGINE_BPE_H

#include <stddef.h>
#include <stdint.h>

struct token_ids;

struct bpe_merge {
	int32_t left, right; /* ids; left -1: an empty slot */
	int32_t rank;        /* lower ranks merge first */
	int32_t id;          /* what they become */
};

struct bpe {
	struct bpe_merge *slot; /* open addressing by (left, right) */
	uint32_t mask;
	int32_t byte_id[256]; /* the token of each single byte */
};

/* Room for n merges; 0 or -ENOMEM. */
int bpe_init(struct bpe *b, int n);
void bpe_fini(struct bpe *b);
/* A pair that comes again takes the later rank, as in the Hugging Face library. */
void bpe_add(struct bpe *b, const struct bpe_merge *m);

/* One text's scratch memory and its cache of short words. Start from {0}. */
struct bpe_work {
	struct bpe_symbol *symbol;
	uint64_t *heap;
	size_t n_symbols, n_heap; /* capacities */
	struct bpe_word *cache;
	uint32_t cache_mask;
};

/* Sizes the cache for a text of len bytes; without it every word is worked out. */
void bpe_work_init(struct bpe_work *w, size_t len);
void bpe_work_fini(struct bpe_work *w);
/* Appends the ids of one word (what the pre-tokenizer cut out). n log n in its length. 0 or -ENOMEM. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len, struct token_ids *out);

#endif
