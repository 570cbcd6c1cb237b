/* SPDX-License-Identifier: MIT
 * bench_print.h - results as tables for people, line by line as they come, or as one JSON object at the end.
 * Threads: one. Locks: none. */
#ifndef TESTS_BENCH_PRINT_H
#define TESTS_BENCH_PRINT_H

#include "engine/device/device.h"
#include "tests/bench/bench_host.h"
#include "tests/bench/bench_progress.h"

#include <jansson.h>
#include <stdbool.h>

struct bench_column {
	const char *key, *title;
	int width;           /* of text: to the left where negative */
	int digits;          /* of numbers, behind the point */
};

struct bench_out {
	bool json;
	json_t *root;
	struct bench_progress *bar; /* wiped before a line is printed */
	const struct bench_column *column; /* of the table that rows are of */
	int n_column;
	json_t *rows;
};

/* ---- samples ---- */

/* Start from zeroes. */
struct bench_samples {
	double *v;
	int n, cap;
};

void bench_samples_add(struct bench_samples *s, double v);
/* The value that a share p of them does not exceed; NaN without any. Sorts them. */
double bench_samples_at(struct bench_samples *s, double p);
void bench_samples_fini(struct bench_samples *s);

/* ---- output ---- */

void bench_print_init(struct bench_out *o, bool json, const char *mode, struct bench_progress *bar);
/* What day and machine it is. */
void bench_print_host(struct bench_out *o, const struct bench_host *h, int threads);
void bench_print_gpu(struct bench_out *o, struct device *d);
/* A fact about the run: text, printed as "name  text". */
void bench_print_note(struct bench_out *o, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* From here on rows are of this table, whose name in JSON is `name`. */
void bench_print_table(struct bench_out *o, const char *name, const struct bench_column *column, int n);
/* Takes the row over: an object with the columns' keys (others are in the JSON alone), NaN and
 * absent ones shown as "-". */
void bench_print_row(struct bench_out *o, json_t *row);
/* A number for a row: null where it is none. */
json_t *bench_real(double v);
/* Prints the JSON object, if the results are whole. */
void bench_print_end(struct bench_out *o, bool whole);

#endif
