/* SPDX-License-Identifier: MIT
 * modelkit.h - a list of prefixes that does what the prefix cache does, the slow way.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_MODELKIT_H
#define TESTS_MODELKIT_H

#include "tests/unit/cachekit.h"

#define MODEL_ENTRIES 400
#define MODEL_RUNS 4

/* A block of the model, named by all the choices up to it. */
struct model_entry {
	struct kit_prompt p;               /* n_block: its depth */
	bool has_state;
	int used, state_used;
};

struct model_run {
	struct kit_run r;
	int at, end;                       /* depths */
	int last;                          /* of the state it is to resume from, or its latest; 0: none */
	bool resumed, off;
	size_t promised;
};

struct model_world {
	struct cachekit kit;
	size_t budget;
	struct model_entry entry[MODEL_ENTRIES];
	int n, now;
	struct model_run run[MODEL_RUNS];
	int n_run;
	uint64_t evicted_blocks, evicted_states;
	uint32_t x;
};

/* In [0, n), the same ones for the same x at the beginning. */
uint32_t model_dice(struct model_world *w, uint32_t n);
/* Are the first `depth` blocks of the two the same? */
bool model_agree(const struct kit_prompt *a, const struct kit_prompt *b, int depth);
/* The prompt's block of this depth; NULL: it is not there. */
struct model_entry *model_entry(struct model_world *w, const struct kit_prompt *p, int depth);
/* By a run. */
bool model_is_held(const struct model_world *w, const struct model_entry *e);
bool model_is_pinned(const struct model_world *w, const struct model_entry *e);
/* By another run than that one. */
bool model_is_pinned_but(struct model_world *w, const struct model_entry *e, int but);
/* What all of it counts for, or what runs hold. */
size_t model_bytes(const struct model_world *w, bool only_held);
/* Entries move. */
void model_remove(struct model_world *w, struct model_entry *e);
/* Evicts down to the budget, as far as that goes. */
void model_shrink(struct model_world *w);
/* How many of the first `most` blocks are there. */
int model_deepest(struct model_world *w, const struct kit_prompt *p, int most);
/* The nearest of the prompts that share all matched blocks. */
int64_t model_diff(struct model_world *w, const struct model_run *r, int found);
enum cache_miss model_why(struct model_world *w, const struct model_run *r, int found, int64_t diff);
/* What holding the prompt's first `depth` blocks, and the state at their end, adds. */
size_t model_adds(struct model_world *w, const struct kit_prompt *p, int depth, bool with_state);
bool model_holdable(struct model_world *w, size_t more);
/* The deepest with a state, and then the deepest at all that leaves room for one. The run is not yet one of the
 * world's. */
void model_find(struct model_world *w, struct model_run *r, int deepest);
/* As much beside what is held as its next `blocks` and a state need. */
bool model_promise(struct model_world *w, struct model_run *r, int blocks);
/* The next block, perhaps with a state at its end; or nothing where there is no room. */
void model_publish(struct model_world *w, struct model_run *r, bool with_state);

#endif
