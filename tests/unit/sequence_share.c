/* SPDX-License-Identifier: MIT
 * sequence_share.c - a sequence resumed at a block edge goes on with the same bits, whatever the steps were.
 * Threads: main and the pool's. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tinykit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK 1160 /* nine edges, 256 and 1024 among them, and tokens after the last */
#define N_EDGE (N_TOK / SEQUENCE_BLOCK)
#define AFTER 37   /* computed after an edge: past the indexer's next rows, not past the next edge */

struct fixture {
	struct tinykit kit;
	int32_t token[N_TOK];
	float *whole;                          /* [N_TOK][vocab]: prefilled in one step */
	struct sequence_block *block[N_EDGE];
	struct sequence_state *state[N_EDGE];  /* [i]: at edge (i + 1) * 128 */
};

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static void forget(struct fixture *f)
{
	for (int i = 0; i < N_EDGE; i++) {
		sequence_block_unref(&f->block[i]);
		sequence_state_unref(&f->state[i]);
	}
}

/* Every edge inside the step that was just committed; what is kept already stays. */
static void keep_edges(struct fixture *f, const struct sequence *s, int64_t from)
{
	for (int64_t edge = (from + SEQUENCE_BLOCK - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK; edge <= sequence_pos(s);
	     edge += SEQUENCE_BLOCK) {
		int64_t i = edge / SEQUENCE_BLOCK - 1;

		if (edge == 0 || f->state[i])
			continue;
		assert_true(sequence_can_save(s, edge));
		assert_int_equal(sequence_save(s, edge, &f->state[i]), 0);
		assert_int_equal(sequence_state_edge(f->state[i]), edge);
		f->block[i] = sequence_share(s, i);
	}
}

static void step(struct fixture *f, const struct numerics *num, struct sequence *s, int n, float *logits)
{
	if (tinykit_step(&f->kit, f->kit.ref, num, s, f->token + sequence_pos(s), n, logits ? n : 0, logits) < 0)
		fail_msg("%s", buf_str(&f->kit.why));
}

/* Runs up to `end` in steps of at most `max` tokens, checks every token's logits, keeps the edges. */
static void go_on(struct fixture *f, struct sequence *s, int64_t end, int max, uint32_t *x, const char *what)
{
	size_t vocab = (size_t)f->kit.vocab;
	float *logits = malloc(N_TOK * vocab * sizeof *logits);

	assert_non_null(logits);
	while (sequence_pos(s) < end) {
		int64_t pos = sequence_pos(s);
		int n = 1 + (int)(next_random(x) % (uint32_t)max);

		n = n < end - pos ? n : (int)(end - pos);
		step(f, &f->kit.native, s, n, logits);
		for (int i = 0; i < n; i++)
			if (memcmp(logits + (size_t)i * vocab, f->whole + (size_t)(pos + i) * vocab,
				    vocab * sizeof *logits))
				fail_msg("%s: token %lld differs", what, (long long)pos + i);
		keep_edges(f, s, pos);
	}
	free(logits);
}

static struct sequence *resume(struct fixture *f, int64_t i)
{
	struct sequence *s = tinykit_sequence(&f->kit);

	assert_int_equal(sequence_resume(s, f->block, f->state[i]), 0);
	assert_int_equal(sequence_pos(s), (i + 1) * SEQUENCE_BLOCK);
	return s;
}

/* ---- tests ---- */

/* Steps of up to 600 tokens cross four edges; steps of up to 9 leave every edge a few tokens behind. */
static void test_every_edge_of_random_steps(void **state)
{
	static const int longest[] = { 9, 200, 600 };
	struct fixture *f = *state;
	uint32_t x = 7;

	for (size_t c = 0; c < mem_countof(longest); c += WARM_STEP) {
		struct sequence *s = tinykit_sequence(&f->kit);
		char what[64];

		go_on(f, s, N_TOK, longest[c], &x, "from the start");
		sequence_free(&s); /* what was shared and saved stands on its own */
		for (int64_t i = 0; i < N_EDGE; i++) {
			int64_t end = (i + 1) * SEQUENCE_BLOCK + AFTER;

			snprintf(what, sizeof what, "steps up to %d, resumed at %lld", longest[c],
				(long long)(i + 1) * SEQUENCE_BLOCK);
			s = resume(f, i);
			go_on(f, s, end < N_TOK ? end : N_TOK, 20, &x, what);
			sequence_free(&s);
		}
		forget(f);
	}
}

/* Each sequence computes one block, most of them in steps that begin before its end, and the next goes on. */
static void test_relay(void **state)
{
	struct fixture *f = *state;
	struct sequence *s = tinykit_sequence(&f->kit);
	uint32_t x = 3;

	for (int64_t i = 0; i < N_EDGE; i++) {
		int64_t end = (i + 1) * SEQUENCE_BLOCK + (int64_t)(i % 3) * 11;

		go_on(f, s, end < N_TOK ? end : N_TOK, 90, &x, "relay");
		sequence_free(&s);
		s = resume(f, i);
	}
	go_on(f, s, N_TOK, 90, &x, "relay");
	sequence_free(&s);
	forget(f);
}

/* Two sequences that go on from one edge do not see each other's tokens, nor does the state change. */
static void test_two_from_one_edge(void **state)
{
	struct fixture *f = *state;
	struct sequence *s = tinykit_sequence(&f->kit), *other;
	int32_t token[150];
	uint32_t x = 5;

	go_on(f, s, 3 * SEQUENCE_BLOCK, 100, &x, "from the start");
	sequence_free(&s);
	other = resume(f, 2);
	tinykit_tokens(&f->kit, 99, token, 150);
	assert_int_equal(tinykit_step(&f->kit, f->kit.ref, &f->kit.native, other, token, 150, 0, NULL), 0);
	for (int i = 0; i < 2; i++) {
		s = resume(f, 2);
		go_on(f, s, 3 * SEQUENCE_BLOCK + AFTER, 10, &x, "beside another");
		sequence_free(&s);
	}
	sequence_free(&other);
	forget(f);
}

/* A step that failed has left room reserved in the empty sequence, and may have slid a tail of a resumed one. */
static void test_after_a_failed_step(void **state)
{
	struct fixture *f = *state;
	struct sequence *s = tinykit_sequence(&f->kit);
	int32_t bad[] = { 0, f->kit.vocab };
	uint32_t x = 11;

	go_on(f, s, 2 * SEQUENCE_BLOCK + 5, 300, &x, "from the start");
	sequence_free(&s);
	s = tinykit_sequence(&f->kit);
	assert_int_equal(sequence_reserve(s, 500, queue_new(device_cpu(), NULL)), 0);
	assert_int_equal(sequence_resume(s, f->block, f->state[1]), 0);
	assert_int_equal(sequence_reserve(s, 700, queue_new(device_cpu(), NULL)), 0);
	assert_int_equal(tinykit_step(&f->kit, f->kit.ref, &f->kit.native, s, bad, 2, 0, NULL), RC_INVALID);
	go_on(f, s, 2 * SEQUENCE_BLOCK + AFTER, 10, &x, "after a failed step");
	sequence_free(&s);
	forget(f);
}

/* A copy of the state at 256 without the rows of one tail of one layer; NULL when it has none. */
static struct sequence_state *state_without(struct fixture *f, int layer, enum sequence_tail tail)
{
	const struct sequence_layout *l = &f->kit.model->layout;
	struct sequence_state *st;
	int64_t n;

	if (!sequence_state_rows(l, f->state[1], layer, tail, &n))
		return NULL;
	assert_int_equal(n, tail == SEQUENCE_WINDOW ? l->window - 1 : 4);
	assert_int_equal(sequence_state_new(l, 2 * SEQUENCE_BLOCK, &st), 0);
	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			float *to = sequence_state_rows(l, st, i, (enum sequence_tail)t, &n);

			if (to && (i != layer || t != (int)tail))
				memcpy(to, sequence_state_rows(l, f->state[1], i, (enum sequence_tail)t, &n),
					(size_t)(n * l->layer[i].width[t]) * sizeof *to);
		}
	return st;
}

/* Is a layer's compressed row of tokens 256 to 259 as the whole sequence has it? */
static bool same_row(struct fixture *f, const struct sequence *s, int layer, enum sequence_rows k)
{
	struct dsv4_rows r = sequence_rows(s, layer, k, 65);

	return memcmp(r.page[2], sequence_block_rows(&f->kit.model->layout, f->block[2], layer, k),
		       r.dim * sizeof(float)) == 0;
}

/* The comparisons above could not fail if a state did not matter: every tail of every layer does. */
static void test_every_tail_matters(void **state)
{
	struct fixture *f = *state;
	size_t vocab = (size_t)f->kit.vocab;
	float *logits = malloc(vocab * sizeof *logits);
	struct sequence *s = tinykit_sequence(&f->kit);
	uint32_t x = 13;

	assert_non_null(logits);
	go_on(f, s, 3 * SEQUENCE_BLOCK, 300, &x, "from the start");
	sequence_free(&s);
	for (int i = 0; i < f->kit.model->layout.n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			struct sequence_state *st = state_without(f, i, (enum sequence_tail)t);

			if (!st)
				continue;
			s = tinykit_sequence(&f->kit);
			assert_int_equal(sequence_resume(s, f->block, st), 0);
			step(f, &f->kit.native, s, 3, NULL);
			step(f, &f->kit.native, s, 1, logits);
			if (t == SEQUENCE_WINDOW)
				assert_memory_not_equal(logits, f->whole + (2 * SEQUENCE_BLOCK + 3) * vocab,
					vocab * sizeof *logits);
			else
				assert_false(same_row(f, s, i, t < SEQUENCE_INDEX_KV ? SEQUENCE_ROWS_KV :
									     SEQUENCE_ROWS_KEY));
			sequence_free(&s);
			sequence_state_unref(&st);
		}
	free(logits);
	forget(f);
}

static void test_what_can_be_saved(void **state)
{
	struct fixture *f = *state;
	struct sequence *s = tinykit_sequence(&f->kit);

	assert_false(sequence_can_save(s, 0));
	assert_false(sequence_can_save(s, 128));
	step(f, &f->kit.native, s, 300, NULL);
	assert_true(sequence_can_save(s, 128));
	assert_true(sequence_can_save(s, 256));
	assert_false(sequence_can_save(s, 384));
	step(f, &f->kit.native, s, 400, NULL); /* 700: the rows before 128 are gone */
	assert_false(sequence_can_save(s, 128));
	assert_true(sequence_can_save(s, 384));
	assert_true(sequence_can_save(s, 640));
	step(f, &f->kit.native, s, 1, NULL);
	assert_false(sequence_can_save(s, 384));
	sequence_free(&s);
}

static void test_bytes(void **state)
{
	struct fixture *f = *state;
	const struct sequence_layout *l = &f->kit.model->layout;
	struct sequence *s = tinykit_sequence(&f->kit), *again;
	size_t empty = sequence_bytes(s), rows = 0;
	uint32_t x = 17;

	go_on(f, s, 4 * SEQUENCE_BLOCK, 100, &x, "from the start");
	again = resume(f, 3);
	assert_true(sequence_bytes(again) > empty + 4 * sequence_block_bytes(l));
	assert_in_range(sequence_bytes(again), sequence_layout_bytes(l, 4 * SEQUENCE_BLOCK) / 2, sequence_bytes(s));
	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n;

			sequence_state_rows(l, f->state[3], i, (enum sequence_tail)t, &n);
			rows += (size_t)(n * l->layer[i].width[t]) * sizeof(float);
		}
	assert_in_range(sequence_state_bytes(l, 4 * SEQUENCE_BLOCK), rows, rows + 64);
	sequence_free(&again);
	sequence_free(&s);
	forget(f);
}

static int setup(void **state)
{
	static struct fixture f;

	tinykit_init(&f.kit, 1);
	tinykit_tokens(&f.kit, 1, f.token, N_TOK);
	f.whole = tinykit_prefill(&f.kit, f.kit.ref, &f.kit.native, f.token, N_TOK);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->whole);
	tinykit_fini(&f->kit);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_edge_of_random_steps),
		cmocka_unit_test(test_relay),
		cmocka_unit_test(test_two_from_one_edge),
		cmocka_unit_test(test_after_a_failed_step),
		cmocka_unit_test(test_every_tail_matters),
		cmocka_unit_test(test_what_can_be_saved),
		cmocka_unit_test(test_bytes),
	};

	warm_say();
	return cmocka_run_group_tests(tests, setup, teardown);
}
