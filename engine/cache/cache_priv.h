/* SPDX-License-Identifier: MIT
 * cache_priv.h - the prefix cache's tree and lists, for the files that fill, search, shrink and show it.
 * Threads: as cache.h. Lock: cache, held by every caller of what is declared here, if nothing else is said. */
#ifndef ENGINE_CACHE_PRIV_H
#define ENGINE_CACHE_PRIV_H

#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/cache/cache.h"

/* One block, or the root of all prompts under one set of numbers (depth 0, no block).
 *
 * A node is held while a path ends at it or a child is held; it is in the list of the idle else. Holding takes it and
 * its ancestors out of the list, letting go puts them back at the end, children before parents. So a child always
 * stands before its parent, and the first of the list is a leaf: the one that was not used for longest. Those with
 * doubt have a list of their own, and go first. */
struct cache_node {
	struct cache_node *parent;
	struct cache_node **child;     /* [n_child], in the order of memcmp of their tokens */
	int n_child, cap_child;
	struct cache_root *root;
	struct cache_node *next;       /* of the same bucket; among the dead, the next of them */
	struct cache_key key;
	int depth;
	int holds;                     /* paths that end here, and children that are held */
	bool doubt;                    /* a request failed on it: out of the tree, kept for those that hold it only */
	bool cut;                      /* it is the top of those: its parent, which may go before
					* it, does not know it */
	long long used;                /* clock_ns() when it was last held or let go */
	struct list idle;
	struct sequence_block *block;
	struct sequence_state *state;  /* NULL: none */
	int state_pins;                /* paths that are going to resume from it, or have none later */
	long long state_used;
	struct list state_idle;        /* in the list of states that nobody pinned */
	int32_t token[SEQUENCE_BLOCK];
};

struct cache_root {
	struct cache_node node;
	struct list list;              /* in order of `serial` */
	uint64_t serial;               /* never the same twice */
	uint8_t numbers[32];
};

struct cache {
	struct lock lock;
	struct cache_options o;        /* o.bytes: the budget */
	size_t node_bytes;             /* what a block costs, with its node */
	size_t state_bytes;            /* what a state costs at most */
	size_t held_bytes;             /* of held nodes and pinned states: what cannot be evicted now */
	size_t promised;               /* room that paths were promised beside that */
	long long now;                 /* the last that cache_now() told */
	struct list roots, idle, states; /* both least recently used first */
	struct list doubted;           /* nodes with doubt that nobody holds any more */
	struct cache_node **bucket;    /* by key */
	size_t n_bucket;               /* a power of two */
	uint64_t n_root;               /* that there ever were */
	struct cache_stats stats;
	int n_doubt;                   /* nodes with doubt */
	bool keeps;                    /* for prompts under keep_for, rows of keep_from; see cache_keep.c */
	uint8_t keep_from[32], keep_for[32];
	struct list fetches;           /* what the disk is reading for paths; see cache_fetch.c */
	int n_fetch; pthread_cond_t no_fetch; /* of n_fetch reads the disk's thread may still call */
};

struct cache_path {
	struct cache_node *at;         /* the next block is published under it; held. NULL: the cache was off */
	struct cache_node *end;        /* what was found; held until blocks are published up to there. NULL: none */
	struct cache_node *resume;     /* its state is pinned; NULL: nothing to resume from, or it has been */
	struct cache_node *keep;       /* then: the path's latest state, pinned, so that one stays while it grows */
	struct cache_node *from;       /* what it was resumed from; held, as it is above `at`. NULL: nothing */
	size_t promised;               /* of the cache's promises */
	int broken;                    /* depth up to which the disk had something that could not be read; 0: nothing */
	bool refused;                  /* the disk was not asked: too many wait for it */
	bool kept;                     /* it lies under other numbers than the request's, and publishes nothing */
	struct cache_fetch *fetch;     /* what is coming from disk for it; NULL: nothing, or all has come */
	struct cache_find find;
};

/* What was taken out of the tree, to be freed when the lock is no longer held. */
struct cache_dead {
	struct cache_node *node;
	struct sequence_state **state;
	int n_state;
	struct cache_key *doubted;     /* what came to be doubted: the disk is to have nothing of it */
	int n_doubted;
};

/* ---- paths (cache.c) ---- */

/* Has the path something that something failed on? */
bool cache_doubted(const struct cache_path *p);
/* Lets go of all that the path holds. */
void cache_let_go(struct cache *c, struct cache_path *p, long long now, struct cache_dead *dead);
/* A node that is held, and all below it, are found no more. */
void cache_doubt(struct cache *c, struct cache_node *n, struct cache_dead *dead);
/* The path no longer keeps room at what came to be doubted beyond its end. */
void cache_forget_end(struct cache *c, struct cache_path *p);

/* ---- what is found (cache_lookup.c) ---- */

/* The deepest node from which a prompt of n tokens can go on, with at least one left to compute; or the root. */
struct cache_node *cache_resumable(struct cache_node *end, int64_t n);
/* The find of one of the lookups, counted or taken back. */
void cache_recount(struct cache *c, const struct cache_find *f, bool back);

/* The path goes on from n, whose state is pinned as p->resume. */
void cache_go_on_at(struct cache *c, struct cache_path *p, struct cache_node *n);
/* What the tree has more of the prompt than a path that was not resumed has found; its find does not say so yet. */
void cache_search(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n);
/* What the find of a path says that has its end and the node to go on from. */
void cache_conclude(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n);
void cache_count(struct cache *c, const struct cache_find *f, int64_t n);
/* Holds no more beyond `at` than leaves room for a state of the path. */
void cache_trim(struct cache *c, struct cache_path *p, long long now);

/* ---- experiments (cache_keep.c) ---- */

/* Under which numbers to look for the prompt: these, or those that are kept for them and have more of it. */
const uint8_t *cache_keep_numbers(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n);

/* ---- growing (cache_publish.c) ---- */

/* The state at a node that the path holds is pinned in the place of *last, which is one of the path's or NULL. A node
 * that has none gets st, of which a reference is taken, in the room that the path was promised or that *last gives
 * up. False: there is no room. */
bool cache_keep_state(struct cache *c, struct cache_path *p, struct cache_node **last, struct cache_node *n,
	struct sequence_state *st, struct cache_dead *dead);
/* One more block of the path is going to be held: what it was promised for that is given back. */
void cache_take_promise(struct cache *c, struct cache_path *p);

/* ---- disk (cache_fetch.c): without the lock ---- */

/* Asks the disk for what it has more than the tree, for a path just looked up; false: nothing. *ret_f is the find. */
bool cache_fetch_start(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n,
		       struct cache_find *ret_f);
/* Nothing more comes for the path: its find is final. */
void cache_fetch_cancel(struct cache *c, struct cache_path *p);

/* ---- disk (cache_write.c): without the lock ---- */

/* A node that is held, and the state at its end or NULL, is to be on disk, if there is one. */
void cache_disk_publish(struct cache *c, const struct cache_node *n, struct sequence_state *state);
/* All blocks up to a node that is held, and its state, which is pinned: without one of them those behind are of no
 * use. */
void cache_disk_refill(struct cache *c, const struct cache_node *end);
/* The dead must not come back from disk; their files are gone when it returns. Or, without waiting, what came to be
 * doubted is only not known any more, until it is written again. */
void cache_disk_forget(struct cache *c, const struct cache_dead *dead, bool wait);

/* ---- nodes (cache_node.c) ---- */

/* The child that holds these 128 tokens, or NULL. */
struct cache_node *cache_node_child(const struct cache_node *n, const int32_t *token);
/* The deepest node of tokens [0, n) below the root. */
struct cache_node *cache_node_walk(const struct cache_node *root, const int32_t *token, int64_t n);
/* How many of the tokens [0, n) begin like one of the children: the most of any. */
int cache_node_common(const struct cache_node *n, const int32_t *token, int n_tok);
/* The one after n among `top` and all below it, depth first, parents before children; NULL after the last. */
struct cache_node *cache_node_next(const struct cache_node *top, const struct cache_node *n);
/* The first child whose tokens are not below these, or what comes after `parent` and all below it; NULL after the
 * last. */
struct cache_node *cache_node_behind(const struct cache_node *top, const struct cache_node *parent,
				     const int32_t *token);
/* Into the tree, under a node that is held; itself it is not. */
void cache_node_insert(struct cache *c, struct cache_node *parent, struct cache_node *n);
/* A leaf that is not held, out of the tree; a root that is empty then goes, too. */
void cache_node_remove(struct cache *c, struct cache_node *n);
/* The node and all below it out of the tree, marked with doubt; they stay linked among each other. */
void cache_node_cut(struct cache *c, struct cache_node *top, struct cache_dead *dead);
struct cache_node *cache_node_find(struct cache *c, const struct cache_key *k);
/* In which bucket a key is; those of greater keys are behind it. */
size_t cache_node_bucket_of(const struct cache *c, const struct cache_key *k);
struct cache_root *cache_root_find(struct cache *c, const uint8_t numbers[32]);
/* Frees a root without children that is not held. */
void cache_root_drop(struct cache *c, struct cache_root *r);
/* Buckets for as many nodes as the budget has room for. */
void cache_node_buckets(struct cache *c);

/* ---- budget and use (cache_evict.c) ---- */

/* clock_ns(), and never the same twice, so that there always is a longest unused one. */
long long cache_now(struct cache *c);
void cache_hold(struct cache *c, struct cache_node *n, long long now);
void cache_unhold(struct cache *c, struct cache_node *n, long long now);
void cache_state_pin(struct cache *c, struct cache_node *n);
void cache_state_unpin(struct cache *c, struct cache_node *n, long long now);
/* The longest unused goes last again. */
void cache_state_touch(struct cache *c, struct cache_node *n, long long now);
/* Takes the reference over. The node has none and there is room. */
void cache_state_attach(struct cache *c, struct cache_node *n, struct sequence_state *st, long long now);
/* Room beside what is held, in the place of what the path was promised before. False, and as it was, if there is
 * none. */
bool cache_promise(struct cache *c, struct cache_path *p, size_t bytes);
/* What the node and those above it add to what is held. */
size_t cache_hold_bytes(const struct cache *c, const struct cache_node *n);
/* Evicts until `need` more bytes fit beside what was promised; false, and nothing done, when they cannot. */
bool cache_make_room(struct cache *c, size_t need, struct cache_dead *dead);
/* Evicts down to the budget, as far as that goes. */
void cache_shrink(struct cache *c, struct cache_dead *dead);
/* Takes a leaf that is not held out of the tree, with its state. */
void cache_kill(struct cache *c, struct cache_node *n, struct cache_dead *dead);
/* A node that is not held, and all below it. */
void cache_kill_below(struct cache *c, struct cache_node *top, struct cache_dead *dead);
/* What is doubted and no longer held. */
void cache_sweep(struct cache *c, struct cache_dead *dead);
/* All that is not in use. */
void cache_kill_idle(struct cache *c, struct cache_dead *dead);
/* Frees; without the lock. */
void cache_bury(struct cache_dead *dead);

#endif
