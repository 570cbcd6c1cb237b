/* SPDX-License-Identifier: MIT
 * bit_identity.c - a token's logits are the same bits however its tokens were cut, batched and threaded.
 * Threads: main and the pool's. Locks: none. */
#include "engine/model/forward_priv.h"
#include "tests/unit/tinykit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Past two blocks, past where the indexer begins to choose, and no multiple of anything. */
#define N_TOK 275
#define MAX_MATES 4

/* How the same tokens are computed. */
struct variant {
	const char *name;
	int chunk;     /* tokens per prefill step */
	int split;     /* from this token on, one at a time by the decode slots */
	int mates;     /* other sequences in every step, half of them before this one */
	int64_t scores; /* index scores held at once; 0: as many as usual */
};

static const struct variant variants[] = {
	{ "chunks of 128", 128, N_TOK, 0, 0 },
	{ "chunks of 64", 64, N_TOK, 0, 0 },
	{ "chunks of 7", 7, N_TOK, 0, 0 },
	{ "chunks of 1", 1, N_TOK, 0, 0 },
	{ "decode from 127", 127, 127, 0, 0 },
	{ "decode from 200, chunks of 30", 30, 200, 0, 0 },
	{ "2 mates, chunks of 50", 50, N_TOK, 2, 0 },
	{ "2 mates, chunks of 60, scored in slices", 60, N_TOK, 2, 1000 },
	{ "3 mates, chunks of 64, decode from 260", 64, 260, 3, 0 },
};

struct fixture {
	struct tinykit one, two; /* by threads */
	int32_t token[N_TOK];
	float *whole[2];         /* native, exact: prefilled in one step */
};

static const struct numerics *profile(struct fixture *f, int p)
{
	return p ? &f->one.exact : &f->one.native;
}

/* The mates of a step: sequences with other tokens and other lengths. */
static int add_mates(struct tinykit *k, const struct variant *v, struct sequence **seq, int32_t token[][64],
	int n, struct forward_item *item)
{
	for (int i = 0; i < v->mates; i++) {
		int mate_n = n == 1 ? 1 : 3 + 17 * i;

		tinykit_tokens(k, (uint32_t)(100 + i + sequence_pos(seq[i])), token[i], mate_n);
		item[i < v->mates / 2 ? i : i + 1] = (struct forward_item){ seq[i], token[i], mate_n, i % 2 };
	}
	return v->mates / 2;
}

static void run(struct fixture *f, struct tinykit *k, const struct numerics *num, const struct variant *v,
	float *logits)
{
	struct sequence *s = tinykit_sequence(k), *mate[MAX_MATES];
	size_t vocab = (size_t)k->vocab;
	float *out = malloc((N_TOK + MAX_MATES) * vocab * sizeof *out);

	int64_t max_scores = k->forward->max_scores;

	k->forward->max_scores = v->scores ? v->scores : max_scores;
	for (int i = 0; i < v->mates; i++)
		mate[i] = tinykit_sequence(k);
	for (int pos = 0, n; pos < N_TOK; pos += n) {
		struct forward_item item[MAX_MATES + 1];
		int32_t token[MAX_MATES][64];
		int before, skip = 0;
		struct forward_batch b = { .kset = k->ref, .numerics = num, .item = item,
			.n_item = v->mates + 1 };

		n = pos >= v->split ? 1 : v->split - pos < v->chunk ? v->split - pos : v->chunk;
		before = add_mates(k, v, mate, token, n, item);
		item[before] = (struct forward_item){ s, f->token + pos, n, n };
		b.phase = pos >= v->split ? DSV4_DECODE : DSV4_PREFILL;
		b.logits = out;
		if (forward_run(k->forward, &b, &k->why) < 0)
			fail_msg("%s: %s", v->name, buf_str(&k->why));
		for (int i = 0; i < before; i++)
			skip += item[i].n_logits;
		memcpy(logits + (size_t)pos * vocab, out + (size_t)skip * vocab,
			(size_t)n * vocab * sizeof *out);
	}
	k->forward->max_scores = max_scores;
	sequence_free(&s);
	for (int i = 0; i < v->mates; i++)
		sequence_free(&mate[i]);
	free(out);
}

static void compare(struct fixture *f, const float *a, const float *b, const char *name, int p, int threads)
{
	size_t vocab = (size_t)f->one.vocab;

	for (size_t t = 0; t < N_TOK; t++)
		if (memcmp(a + t * vocab, b + t * vocab, vocab * sizeof *a))
			fail_msg("%s, %s, %d threads: token %zu differs", name, p ? "exact" : "native",
				threads, t);
}

static void test_variants(void **state)
{
	struct fixture *f = *state;
	float *logits = malloc(N_TOK * (size_t)f->one.vocab * sizeof *logits);

	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
		int p = i % 4 == 3; /* mostly native, whose rounding makes a last bit a whole step */
		bool two = i % 2;

		run(f, two ? &f->two : &f->one, profile(f, p), &variants[i], logits);
		compare(f, logits, f->whole[p], variants[i].name, p, 1 + two);
	}
	free(logits);
}

static void test_threads(void **state)
{
	struct fixture *f = *state;

	for (int p = 0; p < 2; p++) {
		float *logits = tinykit_prefill(&f->two, f->two.ref, profile(f, p), f->token, N_TOK);

		compare(f, logits, f->whole[p], "whole", p, 2);
		free(logits);
	}
}

static void test_other_tokens_differ(void **state)
{
	struct fixture *f = *state;
	size_t vocab = (size_t)f->one.vocab;

	/* the comparison above could not fail on logits that never change */
	for (size_t t = 1; t < N_TOK; t++)
		assert_memory_not_equal(f->whole[0] + t * vocab, f->whole[0] + (t - 1) * vocab,
			vocab * sizeof(float));
	assert_memory_not_equal(f->whole[0], f->whole[1], N_TOK * vocab * sizeof(float));
}

static int setup(void **state)
{
	static struct fixture f;

	tinykit_init(&f.one, 1);
	tinykit_init(&f.two, 2);
	tinykit_tokens(&f.one, 1, f.token, N_TOK);
	for (int p = 0; p < 2; p++)
		f.whole[p] = tinykit_prefill(&f.one, f.one.ref, profile(&f, p), f.token, N_TOK);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->whole[0]);
	free(f->whole[1]);
	tinykit_fini(&f->one);
	tinykit_fini(&f->two);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_other_tokens_differ),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
