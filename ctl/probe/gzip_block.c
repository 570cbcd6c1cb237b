/* SPDX-License-Identifier: MIT
 * gzip_block.c - the blocks of `gzip -6`: where they end, and how many bits each takes.
 * Threads: any. Locks: none. */
#include "ctl/probe/gzip_block.h"
#include "engine/base/mem.h"

#include <string.h>

#define GZIP_SYMBOLS 32768  /* in a block at most, one less */
#define GZIP_GUESS 4096     /* symbols after which gzip asks whether to end a block */
#define GZIP_LENGTHS 19     /* symbols of the code of code lengths */
#define GZIP_NODES (2 * GZIP_LITERALS + 1)
#define GZIP_END 256

/* ---- RFC 1951, 3.2.5 and 3.2.7 ---- */

static const uint16_t gzip_length_from[] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
					     31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
static const uint16_t gzip_distance_from[] = { 1,   2,   3,   4,   5,    7,    9,    13,   17,   25,
					       33,  49,  65,  97,  129,  193,  257,  385,  513,  769,
					       1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577 };
static const uint8_t gzip_length_order[] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };

static int gzip_literal_extra(int symbol)
{
	int i = symbol - GZIP_END - 1;

	return i < 8 || i == 28 ? 0 : i / 4 - 1;
}

static int gzip_distance_extra(int symbol)
{
	return symbol < 4 ? 0 : symbol / 2 - 1;
}

static int gzip_length_extra(int symbol)
{
	return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
}

static int gzip_fixed_bits(int symbol)
{
	return symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
}

static size_t gzip_find(const uint16_t *from, size_t n, size_t value)
{
	while (from[n - 1] > value)
		n--;
	return n - 1;
}

/* ---- code lengths ---- */

/* A code being made. Which of two equally rare symbols gets the shorter code changes how the lengths themselves are
 * written, so the order of the heap is gzip's: by frequency, then by the depth of what hangs below. */
struct gzip_code {
	int n, longest;             /* symbols, bits */
	int last;                   /* the last symbol that has a code */
	uint8_t bits[GZIP_NODES];
	uint32_t often[GZIP_NODES];
	int depth[GZIP_NODES], above[GZIP_NODES];
	int heap[GZIP_NODES + 1], n_heap; /* from 1 on */
	int sorted[GZIP_NODES], n_sorted; /* as they left the heap: rarest first */
};

static bool gzip_rarer(const struct gzip_code *c, int a, int b)
{
	return c->often[a] < c->often[b] || (c->often[a] == c->often[b] && c->depth[a] <= c->depth[b]);
}

static void gzip_sink(struct gzip_code *c, int i)
{
	int node = c->heap[i];

	for (int k = 2 * i; k <= c->n_heap; k *= 2) {
		if (k < c->n_heap && gzip_rarer(c, c->heap[k + 1], c->heap[k]))
			k++;
		if (gzip_rarer(c, node, c->heap[k]))
			break;
		c->heap[i] = c->heap[k];
		i = k;
	}
	c->heap[i] = node;
}

/* A code has at least two symbols. */
static void gzip_leaves(struct gzip_code *c)
{
	c->last = -1;
	for (int i = 0; i < c->n; i++)
		if (c->often[i]) {
			c->heap[++c->n_heap] = i;
			c->last = i;
		}
	while (c->n_heap < 2) {
		int i = c->last < 2 ? ++c->last : 0;

		c->heap[++c->n_heap] = i;
		c->often[i] = 1;
	}
	for (int i = c->n_heap / 2; i; i--)
		gzip_sink(c, i);
}

static void gzip_join(struct gzip_code *c)
{
	int node = c->n;

	do {
		int a = c->heap[1], b;

		c->heap[1] = c->heap[c->n_heap--];
		gzip_sink(c, 1);
		b = c->heap[1];
		c->sorted[c->n_sorted++] = a;
		c->sorted[c->n_sorted++] = b;
		c->often[node] = c->often[a] + c->often[b];
		c->depth[node] = 1 + (c->depth[a] > c->depth[b] ? c->depth[a] : c->depth[b]);
		c->above[a] = c->above[b] = node;
		c->heap[1] = node++;
		gzip_sink(c, 1);
	} while (c->n_heap >= 2);
	c->sorted[c->n_sorted++] = c->heap[1];
}

/* Codes that are too long are shortened, at the expense of the longest that are not; the rarest get the longest. */
static void gzip_shorten(struct gzip_code *c, int *count, int over)
{
	int next = 0;

	for (; over > 0; over -= 2) {
		int bits = c->longest - 1;

		while (!count[bits])
			bits--;
		count[bits]--;
		count[bits + 1] += 2;
		count[c->longest]--;
	}
	for (int bits = c->longest; bits; bits--)
		for (int n = count[bits]; n; next++)
			if (c->sorted[next] < c->n) {
				c->bits[c->sorted[next]] = (uint8_t)bits;
				n--;
			}
}

static void gzip_code_make(struct gzip_code *c)
{
	int count[17] = { 0 }, over = 0;

	gzip_leaves(c);
	gzip_join(c);
	c->bits[c->sorted[c->n_sorted - 1]] = 0;
	for (int i = c->n_sorted - 2; i >= 0; i--) {
		int node = c->sorted[i], bits = c->bits[c->above[node]] + 1;

		over += bits > c->longest;
		c->bits[node] = (uint8_t)(bits > c->longest ? c->longest : bits);
		if (node < c->n)
			count[c->bits[node]]++;
	}
	if (over)
		gzip_shorten(c, count, over);
}

/* ---- a block's bits ---- */

/* Counts the symbols that tell the lengths of a code: runs of up to 138 zeroes, and of up to 6 more of the same. */
static void gzip_tell(const struct gzip_code *c, uint32_t *often)
{
	for (int i = 0; i <= c->last;) {
		int bits = c->bits[i], run = 1, first = bits ? 1 : 0, most = bits ? 6 : 138;

		while (i + run <= c->last && c->bits[i + run] == bits)
			run++;
		i += run;
		often[bits] += (uint32_t)first;
		for (run -= first; run >= 3; run -= run < most ? run : most)
			often[bits ? 16 : run <= 10 ? 17 : 18]++;
		often[bits] += (uint32_t)run;
	}
}

static size_t gzip_cost(const struct gzip_code *c, const uint32_t *often, int (*extra)(int symbol))
{
	size_t bits = 0;

	for (int i = 0; i < c->n; i++)
		bits += often[i] * (size_t)(c->bits[i] + extra(i));
	return bits;
}

/* With codes of its own. */
static size_t gzip_own(const struct gzip_block *b)
{
	struct gzip_code literal = { .n = GZIP_LITERALS, .longest = 15 };
	struct gzip_code distance = { .n = GZIP_DISTANCES, .longest = 15 };
	struct gzip_code length = { .n = GZIP_LENGTHS, .longest = 7 };
	uint32_t often[GZIP_LENGTHS] = { 0 };
	int told = GZIP_LENGTHS;

	memcpy(literal.often, b->literal, sizeof b->literal);
	memcpy(distance.often, b->distance, sizeof b->distance);
	gzip_code_make(&literal);
	gzip_code_make(&distance);
	gzip_tell(&literal, often);
	gzip_tell(&distance, often);
	memcpy(length.often, often, sizeof often);
	gzip_code_make(&length);
	while (told > 4 && !length.bits[gzip_length_order[told - 1]])
		told--;
	return gzip_cost(&literal, b->literal, gzip_literal_extra) +
	       gzip_cost(&distance, b->distance, gzip_distance_extra) + gzip_cost(&length, often, gzip_length_extra) +
	       (size_t)(3 * told + 5 + 5 + 4);
}

/* With the fixed codes. */
static size_t gzip_fixed(const struct gzip_block *b)
{
	size_t bits = 0;

	for (int i = 0; i < GZIP_LITERALS; i++)
		bits += b->literal[i] * (size_t)(gzip_fixed_bits(i) + gzip_literal_extra(i));
	for (int i = 0; i < GZIP_DISTANCES; i++)
		bits += b->distance[i] * (size_t)(5 + gzip_distance_extra(i));
	return bits;
}

void gzip_block_end(struct gzip_block *b, size_t len, bool may_store)
{
	size_t own, fixed, least;

	b->literal[GZIP_END]++;
	own = gzip_own(b);
	fixed = gzip_fixed(b);
	least = (fixed + 10) / 8 <= (own + 10) / 8 ? (fixed + 10) / 8 : (own + 10) / 8;
	if (len + 4 <= least && may_store)
		b->bits = (b->bits + 3 + 7) / 8 * 8 + (len + 4) * 8;
	else
		b->bits += 3 + (least == (fixed + 10) / 8 ? fixed : own);
	memset(b->literal, 0, sizeof b->literal);
	memset(b->distance, 0, sizeof b->distance);
	b->n_symbol = b->n_match = 0;
}

/* ---- a block's symbols ---- */

/* Is it time for new codes? Also when the block is full; and when few matches have halved the text already, since what
 * comes may be of another kind. */
static bool gzip_block_full(const struct gzip_block *b, size_t at)
{
	size_t in = at - b->start, out = (size_t)b->n_symbol * 8;

	if (b->n_symbol % GZIP_GUESS == 0) {
		for (int i = 0; i < GZIP_DISTANCES; i++)
			out += b->distance[i] * (size_t)(5 + gzip_distance_extra(i));
		if (b->n_match < b->n_symbol / 2 && out / 8 < in / 2)
			return true;
	}
	return b->n_symbol == GZIP_SYMBOLS - 1 || b->n_match == GZIP_SYMBOLS;
}

bool gzip_block_byte(struct gzip_block *b, size_t at, uint8_t byte)
{
	b->literal[byte]++;
	b->n_symbol++;
	return gzip_block_full(b, at);
}

bool gzip_block_match(struct gzip_block *b, size_t at, size_t len, size_t distance)
{
	b->literal[GZIP_END + 1 + gzip_find(gzip_length_from, mem_countof(gzip_length_from), len)]++;
	b->distance[gzip_find(gzip_distance_from, mem_countof(gzip_distance_from), distance)]++;
	b->n_symbol++;
	b->n_match++;
	return gzip_block_full(b, at);
}
