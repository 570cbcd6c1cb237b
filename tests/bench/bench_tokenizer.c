/* SPDX-License-Identifier: MIT
 * bench_tokenizer.c - times a tokenizer: loading it, and encoding and decoding each file.
 * Threads: main only, whose CPU time is what counts. Locks: none. */
#include "engine/text/tokenizer.h"
#include "tests/vectors.h"

#include <stdio.h>
#include <time.h>

#define BENCH_LOADS 5
#define BENCH_SECONDS 1.0

static double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The first load and the best of a few. */
static int bench_load(const char *path, struct tokenizer **ret_t)
{
	struct buf text = { 0 }, why = { 0 };
	double first = 0, best = 1e9, start, took;
	int rc = vectors_read(path, &text);

	for (int i = 0; i < BENCH_LOADS && rc == 0; i++) {
		tokenizer_free(ret_t);
		start = bench_now();
		rc = tokenizer_parse(buf_str(&text), text.len, path, ret_t, &why);
		took = bench_now() - start;
		first = i == 0 ? took : first;
		best = took < best ? took : best;
	}
	if (rc == 0)
		printf("load    %8.1f ms (first %.1f)  %s, %.1f MB\n", best * 1e3, first * 1e3, path,
		       (double)text.len / 1e6);
	else
		fprintf(stderr, "%s\n", buf_str(&why));
	buf_fini(&text);
	buf_fini(&why);
	return rc;
}

/* One row: the whole file in one call, over and over. Each call starts with an empty word cache. */
static void bench_file(const struct tokenizer *t, const char *path)
{
	struct buf text = { 0 }, back = { 0 };
	struct token_ids ids = { 0 };
	double start, encode, decode;
	int n = 0, rc = vectors_read(path, &text);

	for (start = bench_now(); rc == 0 && (n == 0 || bench_now() - start < BENCH_SECONDS); n++) {
		ids.n = 0;
		rc = tokenizer_encode(t, buf_str(&text), text.len, n % 2, &ids);
	}
	encode = (bench_now() - start) / n;
	start = bench_now();
	tokenizer_decode(t, ids.id, ids.n, false, &back);
	decode = bench_now() - start;
	if (rc == 0)
		printf("encode  %8.2f MB/s  decode %8.2f MB/s  %9zu bytes %8d tokens  %s\n",
		       (double)text.len / encode / 1e6, (double)text.len / decode / 1e6, text.len, ids.n,
		       path);
	token_ids_fini(&ids);
	buf_fini(&text);
	buf_fini(&back);
}

int main(int argc, char **argv)
{
	struct tokenizer *t = NULL;

	if (argc < 2) {
		fprintf(stderr, "usage: %s TOKENIZER.json[.gz] FILE...\n", argv[0]);
		return 2;
	}
	if (bench_load(argv[1], &t) != 0)
		return 1;
	for (int i = 2; i < argc; i++)
		bench_file(t, argv[i]);
	tokenizer_free(&t);
	return 0;
}
