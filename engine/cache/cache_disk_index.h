/* SPDX-License-Identifier: MIT
 * cache_disk_index.h - which cached files there are, their bytes, and which of them is the longest unused.
 * Threads: any, under the owner's lock. Locks: none; no I/O.
 *
 * A file's last use is a stamp, nanoseconds of the wall clock, kept in its modification time. Along a path of blocks
 * stamps only fall, so that a path is deleted from its end: a block without those before it is of no use. */
#ifndef ENGINE_CACHE_DISK_INDEX_H
#define ENGINE_CACHE_DISK_INDEX_H

#include "engine/cache/cache_file.h"

/* KEY.MODEL.block or .state: MODEL is 8 hex digits made of the model's id, which tell one's own files without opening
 * any. What their headers say is what counts. */
struct cache_disk_name {
	struct cache_key key;
	uint32_t model;
	enum cache_file_kind kind;
};
#define CACHE_DISK_NAME (CACHE_KEY_HEX + 16)
#define CACHE_DISK_TMP ".tmp" /* after a name: not yet renamed */
uint32_t cache_disk_name_model(const char *model_id);
char *cache_disk_name_print(const struct cache_disk_name *n, char out[CACHE_DISK_NAME]);
/* Is this such a name, or one with CACHE_DISK_TMP after it? */
bool cache_disk_name_parse(const char *text, struct cache_disk_name *ret_n, bool *ret_tmp);

enum cache_disk_place {
	CACHE_DISK_OWN,
	CACHE_DISK_FOREIGN,  /* another model's */
	CACHE_DISK_BAD,      /* in bad/ */
	CACHE_DISK_N_PLACE
};

struct cache_disk_entry {
	struct cache_disk_name name;
	enum cache_disk_place place;
	uint64_t bytes;
	int64_t stamp, saved;       /* saved: the stamp that the file has */
	struct cache_key parent; bool has_parent; /* known once the block was written or read by this process */
	size_t heap;                /* its place there */
	struct cache_disk_entry *next;
};

/* Start from zeroes. */
struct cache_disk_index {
	struct cache_disk_entry **bucket; size_t n_bucket;
	struct cache_disk_entry **heap; size_t n, cap; /* smallest stamp first */
	uint64_t bytes;
	uint64_t count[CACHE_DISK_N_PLACE];
};
void cache_disk_index_fini(struct cache_disk_index *x);

struct cache_disk_entry *cache_disk_index_find(struct cache_disk_index *x, const struct cache_disk_name *n,
	enum cache_disk_place place);
/* Takes the place of an entry of the same name there. */
struct cache_disk_entry *cache_disk_index_add(struct cache_disk_index *x, const struct cache_disk_name *n,
	enum cache_disk_place place, uint64_t bytes, int64_t stamp);
/* NULL is fine; nulls *e. */
void cache_disk_index_remove(struct cache_disk_index *x, struct cache_disk_entry **e);
/* NULL: none at all. */
struct cache_disk_entry *cache_disk_index_oldest(struct cache_disk_index *x);
struct cache_disk_entry *cache_disk_index_oldest_bad(struct cache_disk_index *x);

/* The stamp for a block about to be written under `parent`: just below the parent's when that was used a moment ago. */
int64_t cache_disk_index_stamp(struct cache_disk_index *x, const struct cache_disk_name *parent, int64_t now);
/* Was the last use known of not just a moment ago? */
bool cache_disk_index_stale(const struct cache_disk_entry *e, int64_t now);
/* The block was used, and with it all before it as far as they are known; the states there too. */
void cache_disk_index_touch(struct cache_disk_index *x, const struct cache_disk_name *block, int64_t now);
/* Files on the path up from the block whose stamps have moved so far from what the files have that it is time to save
 * them: at most max, which then count as saved. Returns how many. */
struct cache_disk_stamp { struct cache_disk_name name; int64_t stamp; };
int cache_disk_index_unsaved(struct cache_disk_index *x, const struct cache_disk_name *block,
	struct cache_disk_stamp *ret_s, int max);

#endif
