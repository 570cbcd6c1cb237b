/* SPDX-License-Identifier: MIT
 * guard.c - buffers that show who wrote outside them, and who changed what was only to be read.
 * Threads: one per buffer. Locks: none. */
#include "plugins/check/guard.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_PAD ((size_t)256) /* more than the widest vector store that starts at the last element */

/* Differs from byte to byte, so that no fill and no shifted copy looks intact. */
static uint8_t guard_byte(const uint8_t *p)
{
	return (uint8_t)(0x5a ^ (uintptr_t)p * 37);
}

static int guard_malloc(struct guard *g, size_t skew, enum guard_place place)
{
	size_t before = (place == GUARD_FENCE_START ? 0 : GUARD_PAD) + skew;
	size_t after = place == GUARD_FENCE_END ? 0 : GUARD_PAD, all = before + g->size + after;

	g->lo = g->from ? g->from->alloc(g->from->arg, all) : aligned_alloc(64, (all + 63) / 64 * 64);
	if (!g->lo)
		return -ENOMEM;
	g->data = g->lo + before;
	g->hi = g->data + g->size + after;
	return 0;
}

static int guard_map(struct guard *g, size_t skew, enum guard_place place)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (g->size + skew + GUARD_PAD + page - 1) / page * page;
	uint8_t *m = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return -ENOMEM;
	g->map = m;
	g->map_size = inner + 2 * page;
	if (mprotect(m + page, inner, PROT_READ | PROT_WRITE)) {
		guard_free(g);
		return -ENOMEM;
	}
	g->lo = m + page;
	g->hi = m + page + inner;
	g->data = place == GUARD_FENCE_END ? g->hi - g->size : g->lo + skew;
	/* Only the nearest bytes: the whole page would be time spent on what no kernel reaches by mistake. */
	if ((size_t)(g->data - g->lo) > GUARD_PAD)
		g->lo = g->data - GUARD_PAD;
	if ((size_t)(g->hi - g->data) - g->size > GUARD_PAD)
		g->hi = g->data + g->size + GUARD_PAD;
	return 0;
}

static void guard_fill(const struct guard *g)
{
	for (uint8_t *p = g->lo; p < g->data; p++)
		*p = guard_byte(p);
	for (uint8_t *p = g->data + g->size; p < g->hi; p++)
		*p = guard_byte(p);
}

static int guard_make(struct guard *g, size_t skew, enum guard_place place)
{
	int rc;

	if (g->size > SIZE_MAX / 4)
		return -ENOMEM;
	rc = place == GUARD_BYTES || g->from ? guard_malloc(g, skew, place) : guard_map(g, skew, place);
	if (rc)
		return rc;
	guard_fill(g);
	memset(g->data, GUARD_FILL, g->size);
	return 0;
}

int guard_new(struct guard *g, size_t size, size_t skew, enum guard_place place)
{
	*g = (struct guard){ .size = size };
	return guard_make(g, skew, place);
}

int guard_new_from(struct guard *g, size_t size, size_t skew, enum guard_place place, const struct guard_memory *from)
{
	*g = (struct guard){ .size = size, .from = from };
	return guard_make(g, skew, from ? place : GUARD_BYTES);
}

void guard_free(struct guard *g)
{
	if (g->map)
		must_zero(munmap(g->map, g->map_size));
	else if (g->from && g->lo)
		g->from->free(g->from->arg, g->lo);
	else
		free(g->lo);
	free(g->copy);
	*g = (struct guard){ 0 };
}

bool guard_intact(const struct guard *g, ptrdiff_t *ret_at)
{
	for (const uint8_t *p = g->data + g->size; p < g->hi; p++)
		if (*p != guard_byte(p)) {
			*ret_at = p - g->data;
			return false;
		}
	for (const uint8_t *p = g->data; p > g->lo; p--)
		if (p[-1] != guard_byte(p - 1)) {
			*ret_at = p - 1 - g->data;
			return false;
		}
	return true;
}

int guard_keep(struct guard *g)
{
	if (!g->copy)
		g->copy = malloc(g->size ? g->size : 1);
	if (!g->copy)
		return -ENOMEM;
	memcpy(g->copy, g->data, g->size);
	return 0;
}

ptrdiff_t guard_changed(const struct guard *g)
{
	size_t i = 0;

	if (memcmp(g->data, g->copy, g->size) == 0)
		return -1;
	while (g->data[i] == g->copy[i])
		i++;
	return (ptrdiff_t)i;
}

void guard_lock(const struct guard *g)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (g->map)
		must_zero(mprotect(g->map + page, g->map_size - 2 * page, PROT_READ));
}

void guard_restore(const struct guard *g)
{
	guard_fill(g);
	memcpy(g->data, g->copy, g->size);
}
