/* SPDX-License-Identifier: MIT
 * explainkit.h - explain on the tiny model: one prompt, two layers that have an indexer, top 8.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_EXPLAINKIT_H
#define TESTS_EXPLAINKIT_H

#include "engine/beside/explain.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/tinykit.h"

#define N_TOK 103 /* no multiple of a group's 4 */
#define N_ROW (N_TOK / 4)
#define LAYERS 2  /* with an indexer: 2 and 4 */

struct explainkit {
	struct tinykit k;
	int32_t token[N_TOK];
	struct kset *set;              /* NULL: ref */
	struct explain_options o;
	struct explain_result r;
};

/* Under the set that `spec` names of the plugins `all`; NULL: ref. */
void explainkit_begin(struct explainkit *f, struct provider **all, const char *spec, uint32_t seed);
/* Fills f->r, in place of what there was. */
void explainkit_run(struct explainkit *f);
void explainkit_end(struct explainkit *f);
/* The same scores, ranks and choices, to the bit. */
void explainkit_same(const struct explain_result *a, const struct explain_result *b);

#endif
