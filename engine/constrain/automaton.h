/* SPDX-License-Identifier: MIT
 * automaton.h - follows a grammar byte by byte: all its ways at once, each set of ways a numbered state.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_AUTOMATON_H
#define ENGINE_AUTOMATON_H

#include "engine/constrain/grammar.h"

#include <stdbool.h>
#include <stdint.h>

/* States are made as they are met and remembered with their successors, so that going a known way again is one
 * look into a table. Numbers are valid until automaton_trim. */
struct automaton;

#define AUTOMATON_DEAD 0u

/* Ways followed at once, more are dropped. What is left still leads to an end: fewer texts are possible, never
 * wrong ones. No one place leads to more of them (GRAMMAR_MAX_FORK); several that are open at once may. */
#define AUTOMATON_MAX_WAYS GRAMMAR_MAX_FORK
/* States that may be met between two calls of automaton_trim; after that there is only AUTOMATON_FULL. */
#define AUTOMATON_MAX_STATES 16384
#define AUTOMATON_FULL UINT32_MAX

/* The grammar, which is finished, stays the caller's and must outlive it. */
struct automaton *automaton_new(const struct grammar *g);
void automaton_free(struct automaton **a);

uint32_t automaton_start(struct automaton *a);
/* After that byte; AUTOMATON_DEAD when none may come. */
uint32_t automaton_step(struct automaton *a, uint32_t state, uint8_t byte);
/* May the text end here? */
bool automaton_may_end(const struct automaton *a, uint32_t state);
/* Must it? */
bool automaton_must_end(const struct automaton *a, uint32_t state);
/* The one byte that may come, or -1 when there are several or the text may end. */
int automaton_only(const struct automaton *a, uint32_t state);

/* Is this the inside of a string, where every text of plain characters may come (grammar_plain)? *ret_room: how many at
 * most. */
bool automaton_plain(const struct automaton *a, uint32_t state, uint32_t *ret_room);

/* From now on so many nodes may be passed for new states, then there is only AUTOMATON_FULL; UINT64_MAX: any. */
void automaton_budget(struct automaton *a, uint64_t steps);
/* From now on new states have one way only, until the next trim. */
void automaton_one_way(struct automaton *a);
/* Nodes passed so far, each once for a state. */
uint64_t automaton_work(const struct automaton *a);

/* Is it time to forget? */
bool automaton_crowded(const struct automaton *a);
/* Forgets all states but this one, and of its ways all but so many; its new number. Also ends a budget and
 * automaton_one_way. */
uint32_t automaton_trim(struct automaton *a, uint32_t state, uint32_t ways);
/* States known now, for tests and measurements. */
uint32_t automaton_states(const struct automaton *a);

#endif
