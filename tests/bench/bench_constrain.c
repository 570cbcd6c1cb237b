/* SPDX-License-Identifier: MIT
 * bench_constrain.c - times constraints: the vocabulary's tree, a grammar, and the mask of each token of an answer.
 * Threads: main only, whose CPU time is what counts. Locks: none. */
#include "engine/base/must.h"
#include "engine/constrain/constraint.h"
#include "tests/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_MAX_TOKENS 65536

static double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return ((double)t.tv_sec + (double)t.tv_nsec / 1e9) * 1e3;
}

static int bench_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void bench_print(const char *what, double *ms, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += ms[i];
	qsort(ms, (size_t)n, sizeof *ms, bench_cmp);
	printf("%-10s %5d tokens  mean %7.3f ms  median %7.3f  p90 %7.3f  p99 %7.3f  worst %7.3f\n", what, n, sum / n,
	       ms[n / 2], ms[n * 9 / 10], ms[n * 99 / 100], ms[n - 1]);
}

/* The answer's own tokens go through the masks that allow them. */
static void bench_answer(const struct constraint_vocab *v, const struct tokenizer *t, const char *what,
			 const struct constraint_options *o, const char *answer)
{
	static double ms[BENCH_MAX_TOKENS];
	struct token_ids ids = { 0 };
	struct constraint *c = NULL;
	struct buf why = { 0 };
	double start = bench_now();
	const uint64_t *mask;
	int i;

	if (constraint_new(v, o, &c, &why)) {
		fprintf(stderr, "%s: %s\n", what, buf_str(&why));
		return;
	}
	printf("%-10s grammar %.3f ms\n", what, bench_now() - start);
	must_zero(tokenizer_encode(t, answer, strlen(answer), true, &ids));
	for (i = 0; i < ids.n && i < BENCH_MAX_TOKENS; i++) {
		int32_t id = ids.id[i];

		start = bench_now();
		must_zero(constraint_mask(c, &mask, &why));
		ms[i] = bench_now() - start;
		if (!(mask[id / 64] >> (id % 64) & 1)) {
			fprintf(stderr, "%s: token %d (%d) is not allowed\n", what, i, id);
			break;
		}
		constraint_take(c, id);
	}
	if (i)
		bench_print(what, ms, i);
	constraint_free(&c);
	token_ids_fini(&ids);
	buf_fini(&why);
}

int main(int argc, char **argv)
{
	struct constraint_options o = { .calls = GEN_CALLS_NONE, .format = GEN_FORMAT_JSON_OBJECT };
	struct buf text = { 0 }, why = { 0 }, answer = { 0 };
	struct constraint_vocab *v = NULL;
	struct tokenizer *t = NULL;
	double start;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s TOKENIZER.json[.gz] ANSWER.json [SCHEMA.json]\n", argv[0]);
		return 2;
	}
	if (vectors_read(argv[1], &text) || tokenizer_parse(buf_str(&text), text.len, argv[1], &t, &why) ||
	    vectors_read(argv[2], &answer))
		return 1;
	start = bench_now();
	must_zero(constraint_vocab_new(t, tokenizer_vocab(t), 1, &v));
	printf("%-10s %d tokens  %.1f ms  %.1f MB\n", "vocabulary", tokenizer_vocab(t), bench_now() - start,
	       (double)constraint_vocab_bytes(v) / 1e6);
	while (answer.len && answer.data[answer.len - 1] == '\n')
		answer.data[--answer.len] = '\0';
	bench_answer(v, t, "object", &o, buf_str(&answer));
	if (argc == 4) {
		o.format = GEN_FORMAT_JSON_SCHEMA;
		o.schema = vectors_load(argv[3]);
		bench_answer(v, t, "schema", &o, buf_str(&answer));
		json_decref(o.schema);
	}
	constraint_vocab_free(&v);
	tokenizer_free(&t);
	buf_fini(&text);
	buf_fini(&answer);
	buf_fini(&why);
	return 0;
}
