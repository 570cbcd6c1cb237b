/* SPDX-License-Identifier: MIT
 * nametab.h - a hash table from names to numbers; names stay the caller's.
 * Threads: any, one writer. Locks: none. */
#ifndef ENGINE_NAMETAB_H
#define ENGINE_NAMETAB_H

#include <stdint.h>

/* Start from {0}. The hash is seeded per process, so that a file cannot be made to collide. */
struct nametab {
	struct nametab_slot *slot;
	uint32_t n, mask;
};

/* Adds name, or finds it. 1 when added, 0 when it was there (*ret_value is the old one), -ENOMEM. */
int nametab_put(struct nametab *t, const char *name, int value, int *ret_value);
/* -1 when absent. */
int nametab_find(const struct nametab *t, const char *name);
void nametab_fini(struct nametab *t);

#endif
