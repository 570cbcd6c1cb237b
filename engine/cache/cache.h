/* SPDX-License-Identifier: MIT
 * cache.h - the prefix cache: a tree of blocks of 128 tokens, some with the state to continue from them.
 * Threads: any. Lock: cache, short: never while rows are copied, hashed or written.
 *
 * A prompt is looked up when it is submitted: the path found is pinned, so that nothing evicts what a waiting request
 * needs, and the request's own blocks are published under it step by step, after the step that filled them has
 * committed. An abort or an error just lets the path go. Budgets hold before anything is inserted: of states and leaves
 * the longest unused goes first, and of those last used together the state; pinned ones never. What does not fit is not
 * kept; but of what is kept of a path, something can always be gone on from: it leaves room for a state, and keeps its
 * latest one pinned. */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include "engine/base/buf.h"
#include "engine/cache/cache_key.h"
#include "engine/model/sequence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct cache_path;
struct cache_disk;

struct cache_options {
	const struct sequence_layout *layout; /* must outlive it */
	const char *model_id;
	size_t bytes;                         /* blocks and states; 0: nothing is kept */
	struct cache_disk *disk;              /* NULL: none; must outlive it */
	/* A path that waited for the disk is ready; on the disk's thread. */
	void (*ready)(void *arg); void *ready_arg;
};

/* Why not more of the prompt was reused. */
enum cache_miss {
	CACHE_HIT,          /* all but the last tokens, which are computed for their logits */
	CACHE_OFF,          /* the budget is 0 */
	CACHE_SHORT,        /* fewer than 129 tokens */
	CACHE_COLD,         /* nothing begins like this */
	CACHE_NUMBERS,      /* it does under other numbers: kernels or parameters changed */
	CACHE_DIFFERS,      /* from diff_token on the prompt is another */
	CACHE_NO_STATE,     /* its blocks are there, but the state at their end was evicted, or
			     * there is no room to hold it */
	CACHE_ENDED,        /* all that was cached of it was reused; the rest is new */
	CACHE_BROKEN,       /* a block could not be read back, or was no numbers; see the counters */
	CACHE_REFUSED,      /* the disk may have more, but it hangs, or too many wait for it already */
	CACHE_NO_MEMORY,    /* it was there, but there was no memory for the sequence to have it */
	CACHE_N_MISS
};
const char *cache_miss_name(enum cache_miss m); /* "hit", "off", ... as request show prints it */

struct cache_find {
	int64_t reused;     /* tokens to resume after; a multiple of 128, less than the prompt */
	int64_t matched;    /* tokens whose blocks are there, >= reused and up to n; a state is worth saving there */
	enum cache_miss miss;
	int64_t diff_token; /* the first token that the nearest cached prompt has otherwise; -1 */
	bool waiting;       /* more of it is being read from disk: see cache_ready() */
	bool kept;          /* what is reused was computed under other numbers: see cache_keep() */
};

/* An empty one; what o points to outlives it. Cannot fail: its table of blocks is small beside the budget. */
struct cache *cache_new(const struct cache_options *o);
/* Every path must have been released. */
void cache_free(struct cache **c);

/* Pins the path of tokens [0, n) under the numbers. Never fails: without memory or blocks the path is empty. */
void cache_lookup(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f);
/* The same, and never from rows that are only lent to these numbers (cache_keep()). */
void cache_lookup_own(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f);
/* Has all that was asked of the disk come, or failed? True at once where nothing was. Then *ret_f is the final word;
 * until then only ret_f->matched is set, and grows with each block that comes. */
bool cache_ready(struct cache *c, struct cache_path *p, struct cache_find *ret_f);
/* Waits no longer: *ret_f is the final word, with what has come until now, from disk or from other requests. Not needed
 * before cache_release(). */
void cache_give_up(struct cache *c, struct cache_path *p, struct cache_find *ret_f);
/* For a path that neither waits nor was resumed: what others published since, or something failed on, counts. The
 * prompt is that of the lookup. */
void cache_look_again(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n, struct cache_find *ret_f);
/* Makes the empty sequence one of find.reused tokens; *ret_f is in any case what came of it. -ENOMEM, or RC_INVALID
 * when the state is no numbers, leaves it empty; the path then counts as empty. */
int cache_resume(struct cache *c, struct cache_path *p, struct sequence *s, struct cache_find *ret_f);
/* A request that was resumed failed in a way for which what it was resumed from may be the reason: the block and the
 * state there, and what continues them, are found no more, and removed when no request has them. */
void cache_distrust(struct cache *c, struct cache_path *p);
/* Is there room for the path's next `blocks`, the first of which has these tokens, and a state at their end? If so it
 * is promised to the path. *ret_last: not for one more, so that the state is wanted there. */
bool cache_publish_room(struct cache *c, struct cache_path *p, const int32_t token[SEQUENCE_BLOCK], int blocks,
	bool *ret_last);
/* The sequence's next block is full and committed: its 128 tokens, and the state at its end or NULL (a reference is
 * taken). An existing node of that key is used instead. Where there is no room the path stays as it is: the same
 * block can be published later. */
void cache_publish(struct cache *c, struct cache_path *p, const int32_t token[SEQUENCE_BLOCK], const struct sequence *s,
	struct sequence_state *state);
/* The state at the end of what was published, for which it was not yet known whether it is worth keeping. A reference
 * is taken; where the path does not end at its edge nothing happens. */
void cache_publish_state(struct cache *c, struct cache_path *p, struct sequence_state *state);
/* Blocks the path has: publish continues here. After a lookup those reused; blocks that matched beyond are published
 * like new ones, which finds them there and adds the state. */
int64_t cache_path_blocks(const struct cache_path *p);
/* Unpins; nulls *p; NULL is fine. */
void cache_release(struct cache *c, struct cache_path **p);

/* ---- experiments ---- */

/* From now on a lookup under `numbers` of which memory has more under `from` goes on from there, and find.kept says so.
 * Such a path publishes nothing: what is computed behind it is of neither. Takes the place of an earlier one. */
void cache_keep(struct cache *c, const uint8_t from[32], const uint8_t numbers[32]);
/* No longer; so does cache_clear(). Paths found until now stay what they are. */
void cache_keep_end(struct cache *c);
bool cache_keeps(struct cache *c);

/* ---- looking in and cleaning up ---- */

struct cache_stats {
	size_t bytes, budget, block_bytes, state_bytes; /* held; block_bytes + state_bytes = bytes */
	uint64_t blocks, states, pinned;
	uint64_t lookups, hits, tokens_asked, tokens_reused;
	uint64_t published, duplicates, refused;        /* refused: no room that may be freed */
	uint64_t evicted_blocks, evicted_states;
	uint64_t fetched;                               /* blocks that came from disk */
	uint64_t distrusted;                            /* blocks that something failed on */
	uint64_t kept;                                  /* sequences begun with rows of other numbers */
	uint64_t miss[CACHE_N_MISS];
};
void cache_stats(struct cache *c, struct cache_stats *ret_s);
/* What the keys are of. */
const char *cache_model_id(const struct cache *c);

/* One block as the tree prints it. */
struct cache_entry {
	struct cache_key key, parent;
	int depth;                 /* 1: the first 128 tokens */
	int children, pins;        /* pins: 0 when no request has it or a block below it */
	bool has_state;
	uint8_t numbers[32];
	double age;                /* seconds since its last use */
	int32_t token[SEQUENCE_BLOCK];
};
/* Depth first; at most max entries; malloc'd, the caller frees. -ENOMEM. Returns the count. The lock is held for a
 * slice at a time: of blocks that come or go meanwhile some are seen and some are not, but none without its parent.
 * */
int cache_tree(struct cache *c, struct cache_entry **ret_e, int max);
/* How many blocks have a key that begins with these hex digits, 1 to 32 of them; *ret_k is one. RC_INVALID. In
 * slices, too; from five digits on it is one look. */
int cache_find(struct cache *c, const char *digits, struct cache_key *ret_k);
/* One block with references on its memory, and all tokens from the start to its end. RC_NOT_FOUND. */
struct cache_copy {
	struct cache_entry entry;
	int32_t *token; int64_t n_token;  /* [n_token], malloc'd */
	struct sequence_block **block; int64_t n_block; /* of the whole path */
	struct sequence_state *state;     /* NULL: none there */
};
int cache_get(struct cache *c, const struct cache_key *k, struct cache_copy *ret_c);
void cache_copy_fini(struct cache_copy *c);
/* The block and all below it, from disk as well as far as the tree has them. RC_NOT_FOUND: neither has it; RC_BUSY
 * when a request has one of them pinned. Waits for the disk, as does cache_clear. */
int cache_evict(struct cache *c, const struct cache_key *k);
/* All that is not pinned, and all files of the model. Returns the number of blocks removed from memory. */
uint64_t cache_clear(struct cache *c);
/* Evicts down to it. */
void cache_set_budget(struct cache *c, size_t bytes);

#endif
