/* SPDX-License-Identifier: MIT
 * warmkit.h - the tiny model with a prefix cache, asked for answers that are compared bit for bit with cold ones.
 * Threads: the test's and the engine's. Locks: none. */
#ifndef TESTS_WARMKIT_H
#define TESTS_WARMKIT_H

#include "engine/engine.h"
#include "tests/unit/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WARM_MAX_OUT 160
#define WARM_MAX_PROMPT 2048
#define WARM_ENOUGH ((size_t)64 << 20) /* bytes of cache that no test fills */

struct warm_answer {
	int n, n_logprob;
	int32_t token[WARM_MAX_OUT];
	float logprob[WARM_MAX_OUT];
	enum gen_finish finish;
	int rc;
	struct gen_usage usage;
	struct record_view view;
};

/* A conversation so far. */
struct warm_prompt {
	int32_t token[WARM_MAX_PROMPT];
	int n;
};

/* With cache_bytes and the rest as given, and warm_kset(). */
struct engine *warm_open(const struct engine_options *with);
/* These over avx2's kernels, which have ref's bits in a small part of its time, or over ref where the CPU lacks them.
 * After the first warm_open(). */
struct kset *warm_kset(const struct kset_overlay *ov, int n);
/* From now on a family's ops are those of `p`, as far as it has them. */
void warm_use(struct engine *e, enum dsv4_family family, struct provider *p);
/* n more tokens, the same for the same seed. */
void warm_grow(struct warm_prompt *p, uint32_t seed, int n);
void warm_grow_answer(struct warm_prompt *p, const struct warm_answer *a);
/* Greedy, with logprobs, never ended by the end-of-sentence token. */
struct generation_spec warm_spec(const struct warm_prompt *p, int max_tokens);
struct generation *warm_submit(struct engine *e, const struct generation_spec *s);
/* The engine's thread rests in a request's events until the gate is open. */
struct warm_gate {
	atomic_bool reached, open;
};
/* A generation_spec's notify; arg: the gate. */
void warm_gate_rest(void *gate);
/* Returns when the engine's thread rests there. */
void warm_gate_reached(struct warm_gate *gate);
void warm_gate_open(struct warm_gate *gate);
/* Submits it, and returns when the engine's thread rests in its first event. */
struct generation *warm_hold(struct engine *e, struct generation_spec s, struct warm_gate *gate);
/* Reads to the end and lets go. */
struct warm_answer warm_read(struct engine *e, struct generation **g);
struct warm_answer warm_ask(struct engine *e, const struct warm_prompt *p, int max_tokens);
/* The same of an engine that has no cache and always the same kernels and numerics, one in a program: what it was asked
 * lately it is not asked again. */
struct warm_answer warm_ask_cold(struct engine *cold, const struct warm_prompt *p, int max_tokens);
/* The same tokens and the same bits of their logprobs. */
void warm_same(const struct warm_answer *a, const struct warm_answer *b);
/* What a prompt of n tokens can have at most from the cache. */
int warm_most(int n);
/* Nothing is pinned or running any more. */
void warm_idle(struct engine *e);

#endif
