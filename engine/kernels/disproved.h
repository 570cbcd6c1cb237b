/* SPDX-License-Identifier: MIT
 * disproved.h - files whose kernels are marked EXACT and were found to compute other bits than ref.
 * Threads: any. Locks: none (a list that only grows, of entries that never change).
 *
 * A disproved file counts as itself from then on, as a LOSSY one does. If it was believed until then
 * (provider_exact()), nobody can tell which cached rows it had a part in: such records are a part of every cache
 * identity (cache_numbers.h), so that what was computed before is never found again, by any set. What a stranger
 * computed was found by itself alone and harms nobody. The list is the process's; the daemon keeps it over restarts. */
#ifndef ENGINE_DISPROVED_H
#define ENGINE_DISPROVED_H

#include <stdbool.h>

struct disproved {
	const struct disproved *older; /* NULL: this was the first */
	char *name, *key, *why;        /* key: the file's sha256, or the name of what has no file */
	bool believed;                 /* until then: its rows were shared with ref */
	int n;                         /* of them, with this one */
};

/* False when the key is there already. */
bool disproved_add(const char *name, const char *key, const char *why, bool believed);
/* NULL when it is not there. */
const struct disproved *disproved_find(const char *key);
const struct disproved *disproved_newest(void);
int disproved_count(void);

#endif
