/* SPDX-License-Identifier: MIT
 * guard.h - buffers that show who wrote outside them, and who changed what was only to be read.
 * Threads: one per buffer. Locks: none. */
#ifndef CHECK_GUARD_H
#define CHECK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum guard_place {
	GUARD_BYTES,       /* known bytes before and after */
	GUARD_FENCE_END,   /* also: an unmapped page right after the last byte */
	GUARD_FENCE_START  /* also: an unmapped page right before the first */
};

/* Where memory comes from that has no fences, 64-byte aligned. Where a fence would be, a piece of it ends or begins:
 * who watches its bounds (compute-sanitizer, tests/cusim) sees what is read past them. */
struct guard_memory {
	void *arg;
	void *(*alloc)(void *arg, size_t bytes); /* NULL if short */
	void (*free)(void *arg, void *p);
};

struct guard {
	uint8_t *data;     /* [size], the caller's */
	size_t size;
	uint8_t *lo, *hi;  /* guard bytes are [lo, data) and [data + size, hi) */
	const struct guard_memory *from; /* what lo is of; NULL: malloc */
	uint8_t *map;      /* mapping with its fences, or NULL: lo is from there */
	size_t map_size;
	uint8_t *copy;     /* what guard_keep() saw, or NULL */
};

/* `skew` bytes off a 64-byte boundary (at FENCE_START off the page); at FENCE_END the size decides. Contents
 * are GUARD_FILL bytes. -ENOMEM. */
#define GUARD_FILL 0xcd
int guard_new(struct guard *g, size_t size, size_t skew, enum guard_place place);
/* Of other memory than malloc's; from NULL is malloc's, at GUARD_BYTES. */
int guard_new_from(struct guard *g, size_t size, size_t skew, enum guard_place place, const struct guard_memory *from);
void guard_free(struct guard *g); /* zeroes *g; zeroes are fine */
/* Are all guard bytes as they were? *ret_at: the first that is not, as an offset from data. */
bool guard_intact(const struct guard *g, ptrdiff_t *ret_at);
/* Remembers the contents. -ENOMEM. */
int guard_keep(struct guard *g);
/* Offset of the first byte that differs from what was kept, or -1. */
ptrdiff_t guard_changed(const struct guard *g);
/* Makes guard bytes and contents what they were when they were kept. */
void guard_restore(const struct guard *g);
/* From now on whoever writes to it dies, also who puts back what was there: a checkpoint's pages are mapped that way.
 * Of GUARD_BYTES nothing. */
void guard_lock(const struct guard *g);

#endif
