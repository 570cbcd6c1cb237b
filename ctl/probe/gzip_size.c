/* SPDX-License-Identifier: MIT
 * gzip_size.c - how many bytes `gzip -6 -c <FILE` makes of a text: finds its matches, and adds up its blocks' bits.
 * Threads: any. Locks: none. */
#include "ctl/probe/gzip_size.h"
#include "ctl/probe/gzip_block.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GZIP_FRAME 18       /* header without a name, CRC and length */

/* The window of deflate (RFC 1951), and how level 6 looks through it. */
#define GZIP_WINDOW 32768
#define GZIP_MIN 3
#define GZIP_MAX 258
#define GZIP_AHEAD (GZIP_MAX + GZIP_MIN + 1) /* bytes wanted in front of a search */
#define GZIP_FAR (GZIP_WINDOW - GZIP_AHEAD)  /* the greatest distance */
#define GZIP_TOO_FAR 4096   /* from which on three bytes are not worth it */
#define GZIP_GOOD 8         /* with such a match a quarter of the chain is looked through for a better one */
#define GZIP_LAZY 16        /* with such a match none is looked for */
#define GZIP_NICE 128       /* such a match ends the search */
#define GZIP_CHAIN 128
#define GZIP_HASHES 32768

struct gzip {
	uint8_t *text;              /* [n + GZIP_MAX], zeroes after n */
	size_t n, at;
	size_t base, end;           /* where the window of 2 * GZIP_WINDOW begins; what was read so far */
	bool eof;
	int32_t head[GZIP_HASHES];  /* the latest position of each hash; 0: none, so that the first
				     * byte is never found */
	int32_t prev[GZIP_WINDOW];  /* the one before, by position modulo */
	struct gzip_block block;
};

/* Reads on as gzip does. It matters at the end only: no match is looked for in the window's last bytes, and whether
 * the window moves on from them depends on when the end was seen. */
static void gzip_fill(struct gzip *g)
{
	size_t more;

	while (g->end - g->at < GZIP_AHEAD && !g->eof) {
		more = 2 * GZIP_WINDOW - (g->end - g->base);
		if (g->at - g->base >= GZIP_WINDOW + GZIP_FAR) {
			g->base += GZIP_WINDOW;
			more += GZIP_WINDOW;
		}
		if (more > g->n - g->end)
			more = g->n - g->end;
		g->eof = more == 0;
		g->end += more;
	}
}

/* Enters the position; returns the latest one with the same hash. */
static size_t gzip_enter(struct gzip *g, size_t at)
{
	const uint8_t *t = g->text + at;
	unsigned hash = ((unsigned)t[0] << 10 ^ (unsigned)t[1] << 5 ^ t[2]) & (GZIP_HASHES - 1);
	int32_t before = g->head[hash];

	g->prev[at % GZIP_WINDOW] = before;
	g->head[hash] = (int32_t)at;
	return (size_t)before;
}

static size_t gzip_same(const uint8_t *a, const uint8_t *b)
{
	size_t n = 0;

	while (n < GZIP_MAX && a[n] == b[n])
		n++;
	return n;
}

/* The longest match of more than `best` bytes, the nearest of these; `best` when there is none. */
static size_t gzip_search(const struct gzip *g, size_t from, size_t best, size_t *ret_start)
{
	size_t limit = g->at > GZIP_FAR ? g->at - GZIP_FAR : 0, len;
	int left = best >= GZIP_GOOD ? GZIP_CHAIN / 4 : GZIP_CHAIN;
	const uint8_t *here = g->text + g->at;

	do {
		const uint8_t *there = g->text + from;

		if (there[best] == here[best] && (len = gzip_same(here, there)) > best) {
			*ret_start = from;
			best = len;
			if (len >= GZIP_NICE)
				break;
		}
		from = (size_t)g->prev[from % GZIP_WINDOW];
	} while (from > limit && --left);
	return best;
}

/* The match at the position, given that the one before it has `before` bytes: GZIP_MIN - 1 when none is better. */
static size_t gzip_match(const struct gzip *g, size_t from, size_t before, size_t *io_start)
{
	size_t len;

	if (from == 0 || before >= GZIP_LAZY || g->at - from > GZIP_FAR ||
	    g->at - g->base > 2 * GZIP_WINDOW - GZIP_AHEAD)
		return GZIP_MIN - 1;
	len = gzip_search(g, from, before, io_start);
	if (len > g->end - g->at)
		len = g->end - g->at;
	return len == GZIP_MIN && g->at - *io_start > GZIP_TOO_FAR ? GZIP_MIN - 1 : len;
}

static void gzip_end_block(struct gzip *g)
{
	gzip_block_end(&g->block, g->at - g->block.start, g->block.start >= g->base);
	g->block.start = g->at;
}

/* Takes the match of `len` bytes that begins one before the position, and goes on behind it. */
static void gzip_take(struct gzip *g, size_t len, size_t distance)
{
	bool full = gzip_block_match(&g->block, g->at, len, distance);

	for (size_t i = len - 2; i; i--)
		gzip_enter(g, ++g->at);
	g->at++;
	if (full)
		gzip_end_block(g);
}

/* The matches: each is used unless the next position has a longer one, before which a single byte is enough. */
static void gzip_run(struct gzip *g)
{
	size_t len = GZIP_MIN - 1, start = 0;
	bool waiting = false; /* the byte before the position is still to be taken */

	for (gzip_fill(g); g->at < g->end; gzip_fill(g)) {
		size_t from = gzip_enter(g, g->at), before = len, before_start = start;

		len = gzip_match(g, from, before, &start);
		if (before >= GZIP_MIN && len <= before) {
			gzip_take(g, before, g->at - 1 - before_start);
			len = GZIP_MIN - 1;
			waiting = false;
		} else {
			if (waiting && gzip_block_byte(&g->block, g->at, g->text[g->at - 1]))
				gzip_end_block(g);
			waiting = true;
			g->at++;
		}
	}
	if (waiting)
		gzip_block_byte(&g->block, g->at, g->text[g->at - 1]);
	gzip_end_block(g);
}

size_t gzip_size(const char *text, size_t len)
{
	struct gzip *g = mem_new(sizeof *g);
	size_t bits;

	must(len <= GZIP_SIZE_MAX);
	g->text = mem_grow(NULL, len + GZIP_MAX + 1, 1);
	if (len)
		memcpy(g->text, text, len);
	memset(g->text + len, 0, GZIP_MAX + 1);
	g->n = len;
	g->end = len < 2 * GZIP_WINDOW ? len : 2 * GZIP_WINDOW;
	g->eof = len == 0;
	gzip_run(g);
	bits = g->block.bits;
	free(g->text);
	free(g);
	return GZIP_FRAME + (bits + 7) / 8;
}
