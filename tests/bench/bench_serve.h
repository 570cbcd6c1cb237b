/* SPDX-License-Identifier: MIT
 * bench_serve.h - a daemon of one's own, and streams of any chat server: between the files of `dsv4-bench serve`.
 * Threads: main, and one for each stream. Locks: none. */
#ifndef TESTS_BENCH_SERVE_H
#define TESTS_BENCH_SERVE_H

#include "tests/bench/bench.h"

#include <sys/types.h>

/* ---- bench_daemon.c ---- */

struct bench_daemon {
	pid_t pid;           /* 0: none */
	char dir[64];        /* where its configuration, sockets and log are */
	char url[64];
};

/* Starts dsv4d on a free port, with the model, the threads and the kernels of the arguments and no cache on disk, and
 * waits until it is ready. RC_INTERNAL with the end of its log. */
int bench_daemon_start(struct bench_daemon *d, const struct bench_args *a, struct buf *why);
/* Ends it and removes what it left. */
void bench_daemon_stop(struct bench_daemon *d);

/* ---- bench_client.c ---- */

struct bench_client_options {
	const char *url, *key, *model;
	int tokens;          /* of each answer */
	int words;           /* of each prompt, about */
	double temperature;
};

/* What streams that ran at the same time saw, in ms: to the first text; between texts; of a token while all of them
 * ran. A text may have several tokens or a part of one: tokens are those that the server counts, spread over the
 * texts. */
struct bench_client_sum {
	struct bench_samples first, gap, token;
	double seconds;      /* from the first request to the last answer's end */
	int tokens, prompt_tokens, streams;
};

/* n requests at once, each with a prompt of its own that no round before had; adds up. */
int bench_client_round(const struct bench_client_options *o, int n, int round, struct bench_client_sum *sum,
		       struct buf *why);
void bench_client_sum_fini(struct bench_client_sum *sum);

/* What a long prompt does to streams that run: ms between their texts, before it came and until its own first text. */
struct bench_client_beside {
	struct bench_samples before, during;
	double first;        /* ms, of the long one; NaN: it had none */
	int prompt_tokens;   /* its own */
};
/* n streams; when all have begun, one more request with a prompt of so many words. */
int bench_client_beside(const struct bench_client_options *o, int n, int round, int words,
			struct bench_client_beside *sum, struct buf *why);
void bench_client_beside_fini(struct bench_client_beside *sum);

#endif
