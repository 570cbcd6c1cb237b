/* SPDX-License-Identifier: MIT
 * tinykit.h - the tiny model, opened, with a pool and the reference kernels, for tests of the forward pass.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_TINYKIT_H
#define TESTS_TINYKIT_H

#include "engine/model/forward.h"
#include "engine/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct tinykit {
	struct model *model;
	struct pool *pool;
	struct forward *forward;
	struct kset *ref;
	struct numerics native, exact;
	int vocab;
	struct buf why;
};

/* In the environment TINYKIT_MODEL names another one. */
void tinykit_init(struct tinykit *k, int n_threads);
void tinykit_fini(struct tinykit *k);
/* For cmocka's groups: *state is a kit with one thread. */
int tinykit_setup(void **state);
int tinykit_teardown(void **state);
/* n tokens of the vocabulary, the same for the same seed. */
void tinykit_tokens(const struct tinykit *k, uint32_t seed, int32_t *token, int n);
struct sequence *tinykit_sequence(struct tinykit *k);
/* One step of one sequence; logits [n_logits][vocab] of its last tokens. */
int tinykit_step(struct tinykit *k, const struct kset *ks, const struct numerics *num, struct sequence *s,
	const int32_t *token, int n, int n_logits, float *logits);
/* Prefills n tokens in one step into a new sequence; logits [n][vocab], malloc'd. */
float *tinykit_prefill(struct tinykit *k, const struct kset *ks, const struct numerics *num,
	const int32_t *token, int n);

#endif
