/* SPDX-License-Identifier: MIT
 * bench.h - what dsv4-bench is asked for, and its four ways of measuring.
 * Threads: main; pools of the engine. Locks: none. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"
#include "tests/bench/bench_gpu.h"
#include "tests/bench/bench_host.h"
#include "tests/bench/bench_print.h"
#include "tests/bench/bench_progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_LIST 16

struct bench_list {
	int n;
	int64_t v[BENCH_MAX_LIST];
};

struct bench_texts {
	int n;
	const char *v[BENCH_MAX_LIST];
};

struct bench_args {
	const char *what;            /* plugin, model directory or URL */
	const char *device;          /* "cpu", or a GPU's name */
	bool json, repack;
	int threads;                 /* 0: one per CPU */
	double seconds;              /* for each item */
	size_t memory;               /* working set */
	int op, format;              /* -1: all */
	int64_t rows, cols;          /* 0: those of the model */
	struct bench_list tokens;
	struct bench_list contexts, prefill, batch, streams;
	int answer, words, beside;   /* tokens of an answer, words of a prompt, of a long one beside others */
	int max_gap;                 /* the server's; -1: its own default */
	struct bench_texts plugins, kernels;
};

/* One run: its arguments, where results go, and what they are of. */
struct bench {
	struct bench_args args;
	struct bench_out out;
	struct bench_host host;
	struct bench_gpu *gpu;       /* NULL: the CPU */
	struct bench_progress bar;
};

/* Each prints its tables. 0, or a code with why. */
int bench_roof(struct bench *b, struct buf *why);
int bench_op(struct bench *b, struct buf *why);
int bench_model(struct bench *b, struct buf *why);
int bench_serve(struct bench *b, struct buf *why);

#endif
