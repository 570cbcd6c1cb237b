/* SPDX-License-Identifier: MIT
 * speculate.c - drafts that are run and not committed leave nothing: logits, blocks and states are those of a sequence
 * that never saw them, and so are the draft block's after drafts made from drafts.
 * Threads: main. Locks: none. */
#include "engine/base/mem.h"
#include "engine/model/mtp.h"
#include "engine/serve/speculate.h"
#include "tests/unit/tinykit.h"

#include <stdlib.h>
#include <string.h>

/* Past two blocks, and no multiple of anything. */
#define N_TOK 275
#define N_EDGE (N_TOK / SEQUENCE_BLOCK)
#define N_MOST (1 + SPECULATE_MAX)

struct fixture {
	struct tinykit k;
	int32_t token[N_TOK + 1];
	size_t vocab, width;
	float *logits, *draft;      /* [N_TOK][vocab], all in one step */
	float *streams;             /* [tokens of the last step][width] */
	struct sequence *whole;
};

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static void see_streams(void *arg, int layer, int n_tok, const float *streams)
{
	struct fixture *f = arg;

	if (layer >= f->k.model->config->n_layers - 1)
		memcpy(f->streams, streams, (size_t)n_tok * f->width * sizeof *streams);
}

static void run(struct fixture *f, struct sequence *s, const int32_t *token, int n, bool drafts, float *logits)
{
	const struct forward_tap tap = { .arg = f, .streams = see_streams };
	const struct forward_item item = { s, token, n, n };
	const struct forward_batch b = { .kset = f->k.ref, .numerics = &f->k.native, .item = &item, .n_item = 1,
					 .tap = &tap,
					 .phase = drafts ? DSV4_DECODE : DSV4_PREFILL, .logits = logits,
					 .drafts = drafts };

	if (forward_run(f->k.forward, &b, &f->k.why) < 0)
		fail_msg("%s", buf_str(&f->k.why));
}

static void run_draft(struct fixture *f, struct sequence *s, const int32_t *next, int n, int ahead, float *logits)
{
	const struct forward_tap tap = { .arg = f, .streams = see_streams };
	const struct mtp_item item = { s, f->streams, next, n, n };
	const struct mtp_batch b = { .kset = f->k.ref, .numerics = &f->k.native, .item = &item, .n_item = 1,
				     .tap = &tap, .phase = DSV4_DECODE, .logits = logits, .ahead = ahead };

	if (mtp_run(f->k.forward, &b, &f->k.why) < 0)
		fail_msg("%s", buf_str(&f->k.why));
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	tinykit_init(&f->k, 1);
	tinykit_tokens(&f->k, 3, f->token, N_TOK + 1);
	f->vocab = (size_t)f->k.vocab;
	f->width = (size_t)f->k.model->config->hc_mult * (size_t)f->k.model->config->hidden_size;
	f->logits = malloc(N_TOK * f->vocab * sizeof *f->logits);
	f->draft = malloc(N_TOK * f->vocab * sizeof *f->draft);
	f->streams = malloc(N_TOK * f->width * sizeof *f->streams);
	f->whole = tinykit_sequence(&f->k);
	run(f, f->whole, f->token, N_TOK, false, f->logits);
	run_draft(f, f->whole, f->token + 1, N_TOK, 0, f->draft);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	sequence_free(&f->whole);
	free(f->logits);
	free(f->draft);
	free(f->streams);
	tinykit_fini(&f->k);
	free(f);
	return 0;
}

/* ---- what is kept ---- */

static void same_rows(const struct fixture *f, const struct sequence *s)
{
	const struct sequence_layout *l = &f->k.model->layout;

	assert_int_equal(sequence_pos(s), N_TOK);
	for (int64_t i = 0; i < N_EDGE; i++) {
		struct sequence_block *a = sequence_share(f->whole, i), *b = sequence_share(s, i);

		for (int layer = 0; layer < l->n_layer; layer++)
			for (int k = 0; k < SEQUENCE_N_ROWS; k++) {
				const float *ra = sequence_block_rows(l, a, layer, (enum sequence_rows)k);
				const float *rb = sequence_block_rows(l, b, layer, (enum sequence_rows)k);

				if (ra)
					assert_memory_equal(ra, rb, (size_t)(SEQUENCE_BLOCK / l->layer[layer].ratio) *
						(size_t)l->layer[layer].dim[k] * sizeof *ra);
			}
		sequence_block_unref(&a);
		sequence_block_unref(&b);
	}
}

/* States at the edges, of a sequence that stops there and of one whose steps go across with drafts. */
static void same_state(struct fixture *f, const struct sequence *s, int64_t edge)
{
	const struct sequence_layout *l = &f->k.model->layout;
	struct sequence *plain = tinykit_sequence(&f->k);
	struct sequence_state *a, *b;
	float *logits = malloc((size_t)edge * f->vocab * sizeof *logits);

	run(f, plain, f->token, (int)edge, false, logits);
	free(logits);
	assert_true(sequence_can_save(s, edge));
	assert_int_equal(sequence_save(plain, edge, &a), 0);
	assert_int_equal(sequence_save(s, edge, &b), 0);
	for (int layer = 0; layer < l->n_layer; layer++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n, m;
			const float *ra = sequence_state_rows(l, a, layer, (enum sequence_tail)t, &n);
			const float *rb = sequence_state_rows(l, b, layer, (enum sequence_tail)t, &m);

			assert_int_equal(n, m);
			if (n)
				assert_memory_equal(ra, rb, (size_t)(n * l->layer[layer].width[t]) * sizeof *ra);
		}
	sequence_state_unref(&a);
	sequence_state_unref(&b);
	sequence_free(&plain);
}

/* ---- a run with drafts ---- */

/* The tokens that come next, of which the first is right and each other one with a chance of `right` in 8; returns how
 * many stand. */
static int guess(const struct fixture *f, uint32_t *x, int64_t pos, int n, unsigned right, int32_t *token)
{
	int stand = 0;

	for (int i = 0; i < n; i++) {
		bool ok = i == 0 || next_random(x) % 8 < right;

		token[i] = ok ? f->token[pos + i] :
			(f->token[pos + i] + 1 + (int32_t)(next_random(x) % 2000)) % (int32_t)f->vocab;
		if (stand == i && token[i] == f->token[pos + i])
			stand++;
	}
	return stand;
}

static void same_logits(const struct fixture *f, const float *of, int64_t pos, const float *logits, int n)
{
	for (int i = 0; i < n; i++)
		if (memcmp(of + (size_t)(pos + i) * f->vocab, logits + (size_t)i * f->vocab, f->vocab * sizeof *of))
			fail_msg("position %lld", (long long)pos + i);
}

static void step(struct fixture *f, struct sequence *s, uint32_t *x, unsigned right, float *logits)
{
	int64_t pos = sequence_pos(s), edge;
	int n = 1 + (int)(next_random(x) % N_MOST), stand, chain = (int)(next_random(x) % N_MOST);
	int32_t token[N_MOST];

	n = n < N_TOK - pos ? n : (int)(N_TOK - pos);
	stand = guess(f, x, pos, n, right, token);
	run(f, s, token, n, true, logits);
	assert_int_equal(sequence_pos(s), pos + 1);
	same_logits(f, f->logits, pos, logits, stand);
	for (int i = 1; i < stand; i++)
		sequence_commit(s, 1);
	edge = (pos + stand) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;
	run_draft(f, s, f->token + pos + 1, stand, 0, logits);
	same_logits(f, f->draft, pos, logits, stand);
	for (int k = 1; k <= chain; k++)
		run_draft(f, s, token, 1, k, logits); /* whatever it drafts from */
	assert_int_equal(sequence_mtp_pos(s), sequence_pos(s));
	if (edge > pos)
		same_state(f, s, edge);
}

static void drafts_leave_nothing(void **state)
{
	static const unsigned rights[] = { 0, 4, 6, 8 };
	struct fixture *f = *state;
	float *logits = malloc(N_TOK * f->vocab * sizeof *logits);
	uint32_t x = 1;

	for (size_t i = 0; i < mem_countof(rights); i++) {
		struct sequence *s = tinykit_sequence(&f->k);
		int prompt = 90 + 17 * (int)i;

		run(f, s, f->token, prompt, false, logits);
		run_draft(f, s, f->token + 1, prompt, 0, logits);
		while (sequence_pos(s) < N_TOK)
			step(f, s, &x, rights[i], logits);
		same_rows(f, s);
		sequence_free(&s);
	}
	free(logits);
}

/* A sequence that the cache resumed has no rows of the draft block: it begins where it is. */
static void drafts_begin_anywhere(void **state)
{
	struct fixture *f = *state;
	struct sequence *s = tinykit_sequence(&f->k), *warm = tinykit_sequence(&f->k);
	struct sequence_block *block;
	struct sequence_state *st;
	float *logits = malloc(N_TOK * f->vocab * sizeof *logits);
	uint32_t x = 9;

	run(f, s, f->token, SEQUENCE_BLOCK, false, logits);
	assert_int_equal(sequence_save(s, SEQUENCE_BLOCK, &st), 0);
	block = sequence_share(s, 0);
	assert_int_equal(sequence_resume(warm, &block, st), 0);
	while (sequence_pos(warm) < N_TOK) {
		int64_t pos = sequence_pos(warm);
		int n = N_TOK - pos < 3 ? (int)(N_TOK - pos) : 3, stand;
		int32_t token[3];

		stand = guess(f, &x, pos, n, 5, token);
		run(f, warm, token, n, true, logits);
		same_logits(f, f->logits, pos, logits, stand);
		sequence_commit(warm, stand - 1);
		run_draft(f, warm, f->token + pos + 1, stand, 0, logits);
		assert_int_equal(sequence_mtp_pos(warm), sequence_pos(warm) - SEQUENCE_BLOCK);
	}
	same_rows(f, warm);
	sequence_block_unref(&block);
	sequence_state_unref(&st);
	sequence_free(&s);
	sequence_free(&warm);
	free(logits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts_leave_nothing),
		cmocka_unit_test(drafts_begin_anywhere),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
