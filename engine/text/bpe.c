/* SPDX-License-Identifier: MIT
 * bpe.c - byte-pair encoding: a list of symbols, and a heap of the pairs in it that can merge.
 * Threads: any; a bpe is read-only after loading, a bpe_work belongs to one call. Locks: none. */
#include "engine/text/bpe.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/text/tokenizer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BPE_WORD_MAX 15 /* bytes of a cached word */
#define BPE_WORD_IDS 4
#define BPE_CACHE_MAX 16384

/* A run of the word's bytes that is one token so far. */
struct bpe_symbol {
	int32_t id;
	int32_t prev, next;   /* -1 at the ends */
	int32_t rank, merged; /* of the pair with next: rank -1 when it cannot merge */
};

/* A cached word: its bytes padded with zeros, the last one its length; 0 for an empty slot. */
struct bpe_word {
	uint64_t text[2];
	int32_t id[BPE_WORD_IDS]; /* -1 ends them */
};

int bpe_init(struct bpe *b, int n)
{
	uint32_t size = 16;

	must(n >= 0 && n <= INT32_MAX / 4);
	while (size < (uint32_t)n * 2)
		size *= 2;
	b->slot = mem_try(size, sizeof *b->slot);
	if (!b->slot)
		return -ENOMEM;
	b->mask = size - 1;
	for (uint32_t i = 0; i < size; i++)
		b->slot[i].left = -1;
	return 0;
}

void bpe_fini(struct bpe *b)
{
	free(b->slot);
	b->slot = NULL;
}

/* The slot of the pair, or the empty one where it would go. */
static struct bpe_merge *bpe_slot(const struct bpe *b, int32_t left, int32_t right)
{
	uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;

	for (uint32_t i = (uint32_t)(h >> 32) & b->mask;; i = (i + 1) & b->mask) {
		struct bpe_merge *m = &b->slot[i];

		if (m->left < 0 || (m->left == left && m->right == right))
			return m;
	}
}

void bpe_add(struct bpe *b, const struct bpe_merge *m)
{
	*bpe_slot(b, m->left, m->right) = *m;
}

void bpe_work_init(struct bpe_work *w, size_t len)
{
	size_t size = 64;

	while (size < BPE_CACHE_MAX && size < len / 8)
		size *= 2;
	w->cache = mem_try(size, sizeof *w->cache);
	w->cache_mask = (uint32_t)size - 1;
}

void bpe_work_fini(struct bpe_work *w)
{
	free(w->symbol);
	free(w->heap);
	free(w->cache);
	*w = (struct bpe_work){ 0 };
}

/* ---- the heap: rank above position, so that of equal pairs the leftmost merges first ---- */

static void bpe_push(struct bpe_work *w, size_t *n, uint64_t key)
{
	size_t i = (*n)++, up;

	for (; i > 0 && w->heap[up = (i - 1) / 2] > key; i = up)
		w->heap[i] = w->heap[up];
	w->heap[i] = key;
}

static uint64_t bpe_pop(struct bpe_work *w, size_t *n)
{
	uint64_t top = w->heap[0], key = w->heap[--*n];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < *n) {
		if (down + 1 < *n && w->heap[down + 1] < w->heap[down])
			down++;
		if (w->heap[down] >= key)
			break;
		w->heap[i] = w->heap[down];
		i = down;
	}
	w->heap[i] = key;
	return top;
}

/* ---- one word ---- */

/* Room for a word of n bytes: each merge takes one pair off the heap and puts at most two on it. */
static int bpe_room(struct bpe_work *w, size_t n)
{
	size_t cap = w->n_symbols ? w->n_symbols : 256;

	if (n <= w->n_symbols)
		return 0;
	while (cap < n)
		cap *= 2;
	free(w->symbol);
	free(w->heap);
	w->symbol = malloc(cap * sizeof *w->symbol);
	w->heap = malloc(cap * 2 * sizeof *w->heap);
	w->n_symbols = w->symbol && w->heap ? cap : 0;
	return w->n_symbols ? 0 : -ENOMEM;
}

/* Looks up the pair that begins at symbol i and queues it when it can merge. */
static void bpe_pair(const struct bpe *b, struct bpe_work *w, int32_t i, size_t *n_heap)
{
	struct bpe_symbol *s = &w->symbol[i];
	const struct bpe_merge *m;

	s->rank = -1;
	if (s->next < 0)
		return;
	m = bpe_slot(b, s->id, w->symbol[s->next].id);
	if (m->left < 0)
		return;
	s->rank = m->rank;
	s->merged = m->id;
	bpe_push(w, n_heap, (uint64_t)m->rank << 32 | (uint32_t)i);
}

/* Joins symbol i and its right neighbour. */
static void bpe_join(const struct bpe *b, struct bpe_work *w, int32_t i, size_t *n_heap)
{
	struct bpe_symbol *s = &w->symbol[i], *gone = &w->symbol[s->next];

	s->id = s->merged;
	gone->rank = -1;
	s->next = gone->next;
	if (s->next >= 0)
		w->symbol[s->next].prev = i;
	bpe_pair(b, w, i, n_heap);
	if (s->prev >= 0)
		bpe_pair(b, w, s->prev, n_heap);
}

/* Merges until no pair can; the symbols that are left are a list from symbol 0. */
static int bpe_merge_all(const struct bpe *b, struct bpe_work *w, const char *word, size_t len)
{
	size_t n_heap = 0;

	must(len > 0 && len < INT32_MAX);
	if (bpe_room(w, len) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++)
		w->symbol[i] = (struct bpe_symbol){ .id = b->byte_id[(unsigned char)word[i]],
						    .prev = (int32_t)i - 1,
						    .next = i + 1 < len ? (int32_t)i + 1 : -1 };
	for (size_t i = 0; i < len; i++)
		bpe_pair(b, w, (int32_t)i, &n_heap);
	while (n_heap > 0) {
		uint64_t key = bpe_pop(w, &n_heap);
		int32_t i = (int32_t)(uint32_t)key;

		/* A pair whose symbols have merged with others since has another rank now, or none. */
		if (w->symbol[i].rank == (int32_t)(key >> 32))
			bpe_join(b, w, i, &n_heap);
	}
	return 0;
}

/* The cache's slot for a word; text becomes its key. */
static struct bpe_word *bpe_cached(const struct bpe_work *w, const char *word, size_t len, uint64_t text[2])
{
	char padded[16] = { 0 };
	uint64_t h;

	memcpy(padded, word, len);
	padded[BPE_WORD_MAX] = (char)len;
	memcpy(text, padded, sizeof padded);
	h = (text[0] * 0x9E3779B97F4A7C15u ^ text[1]) * 0xD6E8FEB86659FD93u;
	return &w->cache[(uint32_t)(h >> 32) & w->cache_mask];
}

/* Appends the list's ids, and keeps them for the word's next time when they fit. */
static int bpe_emit(const struct bpe_work *w, struct bpe_word *keep, const uint64_t text[2],
		    struct token_ids *out)
{
	int first = out->n, rc = 0;

	for (int32_t i = 0; i >= 0 && rc == 0; i = w->symbol[i].next)
		rc = token_ids_try(out, w->symbol[i].id);
	if (rc < 0 || !keep || out->n - first > BPE_WORD_IDS)
		return rc;
	memcpy(keep->text, text, sizeof keep->text);
	for (int i = 0; i < BPE_WORD_IDS; i++)
		keep->id[i] = first + i < out->n ? out->id[first + i] : -1;
	return 0;
}

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len, struct token_ids *out)
{
	struct bpe_word *c = NULL;
	uint64_t text[2] = { 0 };
	int rc = 0;

	if (w->cache && len <= BPE_WORD_MAX) {
		c = bpe_cached(w, word, len, text);
		if (c->text[0] == text[0] && c->text[1] == text[1]) {
			for (int i = 0; i < BPE_WORD_IDS && c->id[i] >= 0 && rc == 0; i++)
				rc = token_ids_try(out, c->id[i]);
			return rc;
		}
	}
	rc = bpe_merge_all(b, w, word, len);
	return rc < 0 ? rc : bpe_emit(w, c, text, out);
}
