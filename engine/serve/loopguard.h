/* SPDX-License-Identifier: MIT
 * loopguard.h - watches an answer for loops while it is made: words, lines and tokens, each part of it by itself.
 * Threads: who submits makes it, then the engine thread. Locks: none. */
#ifndef ENGINE_LOOPGUARD_H
#define ENGINE_LOOPGUARD_H

#include "engine/base/buf.h"
#include "engine/gen.h"

#include <stdbool.h>
#include <stddef.h>

struct loopguard;

/* By the limits of `want` when that is ON, else by the defaults and without ending anything. `first`: the part that
 * the answer begins in. */
struct loopguard *loopguard_new(const struct gen_guard *want, enum gen_part first);
void loopguard_free(struct loopguard **g);
/* The next token, and the text that comes with it, is one that the answer's form leaves no
 * choice about: not counted. */
void loopguard_forced(struct loopguard *g, bool forced);
void loopguard_text(struct loopguard *g, enum gen_part part, const char *text, size_t len);
/* The output's token number n, after its text. True when the answer loops now and did not before: once. */
bool loopguard_token(struct loopguard *g, int32_t token, int n);
/* Its kind is GEN_LOOP_NONE before. */
const struct gen_loop *loopguard_loop(const struct loopguard *g);

/* "reasoning", "content", "arguments" */
const char *loopguard_part_name(enum gen_part p);
/* "one line 512 times"; nothing when there is no loop. */
void loopguard_describe(const struct gen_loop *l, struct buf *out);

#endif
