/* SPDX-License-Identifier: MIT
 * tinykit.c - the tiny model, opened, with a pool and the reference kernels, for tests of the forward pass.
 * Threads: the test's. Locks: none. */
#include "tests/unit/tinykit.h"

#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>

void tinykit_init(struct tinykit *k, int n_threads)
{
	const char *top = getenv("top_srcdir"), *other = getenv("TINYKIT_MODEL");
	char dir[4096];
	int rc;

	*k = (struct tinykit){ 0 };
	snprintf(dir, sizeof dir, "%s%s", other ? other : top ? top : ".", other ? "" : "/etc/tiny");
	rc = model_open(dir, &k->model, &k->why);
	if (rc < 0)
		fail_msg("%s: %s", dir, buf_str(&k->why));
	assert_int_equal(pool_new(n_threads, &k->pool), 0);
	assert_int_equal(kset_build(NULL, 0, &k->ref, &k->why), 0);
	k->forward = forward_new(k->model, k->pool);
	k->vocab = k->model->config->vocab_size;
	numerics_init(&k->native, NUMERICS_NATIVE, k->model->config->index_topk);
	numerics_init(&k->exact, NUMERICS_EXACT, k->model->config->index_topk);
}

void tinykit_fini(struct tinykit *k)
{
	forward_free(&k->forward);
	kset_unpin(&k->ref);
	pool_free(&k->pool);
	model_free(&k->model);
	buf_fini(&k->why);
}

int tinykit_setup(void **state)
{
	static struct tinykit k;

	tinykit_init(&k, 1);
	*state = &k;
	return 0;
}

int tinykit_teardown(void **state)
{
	tinykit_fini(*state);
	return 0;
}

void tinykit_tokens(const struct tinykit *k, uint32_t seed, int32_t *token, int n)
{
	uint32_t x = seed * 2654435761u + 1;

	for (int i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		token[i] = (int32_t)((x >> 8) % (uint32_t)k->vocab);
	}
}

struct sequence *tinykit_sequence(struct tinykit *k)
{
	struct sequence *s;

	assert_int_equal(sequence_new(&k->model->layout, &s), 0);
	return s;
}

int tinykit_step(struct tinykit *k, const struct kset *ks, const struct numerics *num, struct sequence *s,
	const int32_t *token, int n, int n_logits, float *logits)
{
	struct forward_item item = { s, token, n, n_logits };
	struct forward_batch b = {
		.kset = ks,
		.numerics = num,
		.phase = n == 1 ? DSV4_DECODE : DSV4_PREFILL,
		.item = &item,
		.n_item = 1,
		.logits = logits,
	};

	return forward_run(k->forward, &b, &k->why);
}

float *tinykit_prefill(struct tinykit *k, const struct kset *ks, const struct numerics *num,
	const int32_t *token, int n)
{
	float *logits = malloc((size_t)n * (size_t)k->vocab * sizeof *logits);
	struct sequence *s = tinykit_sequence(k);

	assert_non_null(logits);
	if (tinykit_step(k, ks, num, s, token, n, n, logits) < 0)
		fail_msg("%s", buf_str(&k->why));
	sequence_free(&s);
	return logits;
}
