/* SPDX-License-Identifier: MIT
 * disproved.c - files whose kernels are marked EXACT and were found to compute other bits than ref.
 * Threads: any. Locks: none (a list that only grows, of entries that never change). */
#include "engine/kernels/disproved.h"
#include "engine/base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(struct disproved *) disproved_list;

const struct disproved *disproved_newest(void)
{
	return atomic_load(&disproved_list);
}

static const struct disproved *disproved_search(const struct disproved *d, const char *key)
{
	while (d && strcmp(d->key, key) != 0)
		d = d->older;
	return d;
}

const struct disproved *disproved_find(const char *key)
{
	return disproved_search(disproved_newest(), key);
}

int disproved_count(void)
{
	const struct disproved *d = disproved_newest();

	return d ? d->n : 0;
}

bool disproved_add(const char *name, const char *key, const char *why, bool believed)
{
	struct disproved *newest = atomic_load(&disproved_list), *d = mem_new(sizeof *d);

	*d = (struct disproved){ .name = mem_strdup(name), .key = mem_strdup(key), .why = mem_strdup(why),
				 .believed = believed };
	do {
		if (disproved_search(newest, key)) {
			free(d->name);
			free(d->key);
			free(d->why);
			free(d);
			return false;
		}
		d->older = newest;
		d->n = newest ? newest->n + 1 : 1;
	} while (!atomic_compare_exchange_weak(&disproved_list, &newest, d));
	return true;
}
