/* SPDX-License-Identifier: MIT
 * cusim_page.h - what is known of every byte that kernels may touch.
 * Threads: one at a time. Locks: none.
 *
 * Addresses lead through two tables to pages of 4 KiB. A page has a bit for every byte that is memory, and one for every
 * byte that was written; and for every word two stamps: who wrote it last and who read it, when. */
#ifndef CUSIM_PAGE_H
#define CUSIM_PAGE_H

#include "tests/cusim/cusim_priv.h"

#define CUSIM_PAGE 4096
#define CUSIM_PAGE_WORDS (CUSIM_PAGE / 4)
#define CUSIM_PAGE_BITS (CUSIM_PAGE / 64)

/* The parts of a stamp's `who`. */
#define CUSIM_WHO_THREAD 0x3ffu
#define CUSIM_WHO_BYTES(who) ((who) >> 10 & 15u)
#define CUSIM_WHO_FLAGS 0xc000u
#define CUSIM_BY_ATOMIC 0x4000u    /* of a writer */
#define CUSIM_BY_LATE 0x8000u      /* of a writer that had published before, in this epoch */
#define CUSIM_BY_LANES 0x4000u     /* of readers: several lanes of a warp, several warps, several blocks */
#define CUSIM_BY_WARPS 0x8000u
#define CUSIM_BY_BLOCKS 0xc000u

struct cusim_word { struct cusim_stamp w, r; };

struct cusim_page {
	uint64_t valid[CUSIM_PAGE_BITS], written[CUSIM_PAGE_BITS]; /* what is written is valid, too */
	struct cusim_word *word;    /* [CUSIM_PAGE_WORDS], from the first access on */
	uint32_t bytes;             /* that are valid */
	bool shared;                /* each block has its own */
	uint8_t owner;              /* 1 << device, whose alone it is; 0: anybody's */
};

extern struct cusim_page **cusim_pages[1 << 18];   /* by address >> 30, then by >> 12 */

static inline struct cusim_page *cusim_page(uintptr_t p)
{
	struct cusim_page **t = p >> 48 ? NULL : cusim_pages[p >> 30];

	return t ? t[p >> 12 & 0x3ffff] : NULL;
}

/* Sets or clears n of them. */
void cusim_page_bits(uint64_t *bits, size_t at, size_t n, bool on);
/* Makes the stamps of a page. */
void cusim_page_stamps(struct cusim_page *page);
/* Of the kernel's object and no shared variable: may be read. */
bool cusim_page_constant(uintptr_t p);

#endif
