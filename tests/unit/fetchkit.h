/* SPDX-License-Identifier: MIT
 * fetchkit.h - a prefix cache over a disk, both of which are begun anew from the directory, and its prompts.
 * Threads: the test's and the disk's. Locks: none. */
#ifndef TESTS_FETCHKIT_H
#define TESTS_FETCHKIT_H

#include "tests/unit/cachekit.h"
#include "tests/unit/diskkit.h"

extern struct fetch {
	struct diskkit disk;
	struct cachekit kit;
} fetch;

/* Of four blocks each; the first two are the same. */
extern const struct kit_prompt fetch_four, fetch_branch;

/* For cmocka: an empty directory, and room in memory for 20 blocks with states. */
int fetch_setup(void **state);
int fetch_teardown(void **state);
/* Both from nothing but the directory; memory has room for n blocks with states. */
void fetch_restart(int n);
/* Looks up, waits and resumes: so many blocks of the prompt are reused and matched, and this is why no more. */
void fetch_expect(const struct kit_prompt *p, int reused, int matched, enum cache_miss miss);
struct cache_stats fetch_stats(void);
/* Of the prompt's block i. */
void fetch_name(const struct kit_prompt *p, int i, enum cache_file_kind kind, struct cache_disk_name *ret_n);
/* Without waiting for what comes from disk. */
void fetch_lookup(struct kit_run *r, const struct kit_prompt *p);
/* Until all of it has come. */
void fetch_wait(struct kit_run *r);

#endif
