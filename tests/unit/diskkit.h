/* SPDX-License-Identifier: MIT
 * diskkit.h - a disk cache in a directory of its own, and paths of small blocks to put there and to get back.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_DISKKIT_H
#define TESTS_DISKKIT_H

#include "engine/cache/cache_dir.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DISKKIT_MODEL "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define DISKKIT_OTHER "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define DISKKIT_MAX 64

struct diskkit {
	char dir[64];
	struct sequence_layout layout;
	struct cache_disk_options options; /* for the next diskkit_open(); 64 MiB, no rate */
	struct cache_disk *d;
};

void diskkit_init(struct diskkit *k);
/* Closes what is open and removes the directory. */
void diskkit_fini(struct diskkit *k);
void diskkit_open(struct diskkit *k);
/* Writes all that is queued. */
void diskkit_close(struct diskkit *k);
void diskkit_reopen(struct diskkit *k);
/* Waits until nothing is queued. */
void diskkit_drain(struct diskkit *k);
struct cache_disk_stats diskkit_stats(struct diskkit *k);

/* n blocks one below the other; the same for the same seed, model and layout. A bit of `states` per block. */
void diskkit_path(struct diskkit *k, const char *model, uint32_t seed, int n, uint64_t states,
		  struct cache_disk_item *ret);
void diskkit_item_fini(struct cache_disk_item *item, int n);
void diskkit_put(struct diskkit *k, const struct cache_disk_item *item, int n);
/* Makes a path, puts and forgets it. */
void diskkit_write(struct diskkit *k, uint32_t seed, int n, uint64_t states);
/* Same key, tokens, edge, rows and, when both have it, state? */
void diskkit_same(const struct diskkit *k, const struct cache_disk_item *a, const struct cache_disk_item *b);

/* Reads the path of n blocks and compares what comes with it. Returns how many came; *ret_state is the block that had
 * the state, or -1. */
int diskkit_read(struct diskkit *k, uint32_t seed, int n, int *ret_state);
/* The same through the whole path, which must come, with the state of block `state`. */
void diskkit_whole(struct diskkit *k, uint32_t seed, int n, int state);

/* The file of a path's block i, below the directory. */
char *diskkit_file(struct diskkit *k, uint32_t seed, int i, enum cache_file_kind kind, bool bad, char out[256]);
bool diskkit_exists(const char *path);

/* Keeps the disk's thread from doing anything until it is let go. */
struct diskkit_hold { pthread_mutex_t m; pthread_cond_t c; bool held, let_go, gone; };
void diskkit_hold(struct diskkit *k, struct diskkit_hold *h);
/* The same in two steps: holds it after what it has to read now; waits until it does. */
void diskkit_hold_after(struct diskkit *k, struct diskkit_hold *h);
void diskkit_held(struct diskkit_hold *h);
void diskkit_let_go(struct diskkit_hold *h);

#endif
