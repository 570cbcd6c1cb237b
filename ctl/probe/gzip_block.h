/* SPDX-License-Identifier: MIT
 * gzip_block.h - the blocks of `gzip -6`: where they end, and how many bits each takes. Private to gzip_size.c.
 * Threads: any. Locks: none. */
#ifndef CTL_GZIP_BLOCK_H
#define CTL_GZIP_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GZIP_LITERALS 286   /* bytes, the end of a block, lengths */
#define GZIP_DISTANCES 30

/* Zero-initialise. */
struct gzip_block {
	uint32_t literal[GZIP_LITERALS], distance[GZIP_DISTANCES]; /* how often each occurs */
	int n_symbol, n_match;
	size_t start;               /* in the text */
	size_t bits;                /* of all blocks so far */
};

/* Adds a symbol, when the search is at position `at`. True: the block ends after it. */
bool gzip_block_byte(struct gzip_block *b, size_t at, uint8_t byte);
bool gzip_block_match(struct gzip_block *b, size_t at, size_t len, size_t distance);
/* Ends the block of that many bytes; may_store: its text is still in the window. */
void gzip_block_end(struct gzip_block *b, size_t len, bool may_store);

#endif
