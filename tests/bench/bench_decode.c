/* SPDX-License-Identifier: MIT
 * bench_decode.c - steps of one token for each of some sequences, in turns with reads of as many bytes.
 * Threads: main; a pool's. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/bench/bench_model.h"

#include <math.h>
#include <stdlib.h>

#define BENCH_DECODE_WARM 2
#define BENCH_DECODE_MIN 8      /* steps, which take longer than the time there is with slow kernels */

static const struct bench_column bench_decode_columns[] = {
	{ "context", "CONTEXT", 7, 0 }, { "batch", "BATCH", 5, 0 }, { "ms", "MS/STEP", 8, 2 },
	{ "ms_p10", "P10", 8, 2 },
	{ "ms_p90", "P90", 8, 2 }, { "tokens_s", "TOK/S", 7, 1 }, { "mb", "MB/STEP", 8, 1 }, { "gflop", "GFLOP", 6, 2 },
	{ "gbs", "GB/S", 6, 1 }, { "read_gbs", "READ", 6, 1 }, { "ratio", "RATIO", 5, 3 }, { "ratio_p25", "P25", 5, 3 },
	{ "ratio_p75", "P75", 5, 3 }, { "other_ms", "OTHER_MS", 8, 2 },
};

struct bench_decode_samples {
	bool alone;             /* nothing is read in between */
	double seconds;
	struct bench_samples ms, read, ratio;
	struct bench_watch watch;
};

static int bench_decode_step(struct bench_model *m, struct sequence *const *seq, int n_seq,
			     struct bench_decode_samples *s)
{
	struct bench_watch w = { 0 };
	double took = s->alone ? bench_model_step(m, seq, n_seq, 1, DSV4_DECODE, NULL) :
				 bench_model_watched(m, seq, n_seq, 1, DSV4_DECODE, &w), bytes, read;
	struct op_cost cost = bench_watch_sum(&w, false).cost;

	if (took < 0)
		return (int)took;
	bench_samples_add(&s->ms, took * 1e3);
	if (s->alone)
		return 0;
	bytes = cost.weights + cost.rows;
	read = bench_model_read(m, bytes);
	if (read < 0)
		return RC_DEVICE;
	bench_samples_add(&s->read, read);
	bench_samples_add(&s->ratio, bytes / took / 1e9 / read);
	bench_watch_add(&s->watch, &w);
	return 0;
}

/* What all steps read: weights and rows, each once a step; inputs are what the op before has left in a cache. */
static void bench_decode_row(struct bench_model *m, int64_t context, int n_seq, struct bench_decode_samples *s)
{
	struct bench_watch_row all = bench_watch_sum(&s->watch, false), matrix = bench_watch_sum(&s->watch, true);
	double steps = s->watch.steps, ms = bench_samples_at(&s->ms, 0.5),
		bytes = (all.cost.weights + all.cost.rows) / steps;
	json_t *row = json_pack("{s:I, s:i, s:i, s:f, s:f, s:f, s:f}", "context", (json_int_t)context, "batch", n_seq,
				"steps", s->watch.steps, "ms", ms, "ms_p10", bench_samples_at(&s->ms, 0.1), "ms_p90",
				bench_samples_at(&s->ms, 0.9), "tokens_s", n_seq / ms * 1e3);

	json_object_set_new(row, "mb", json_real(bytes / 1e6));
	json_object_set_new(row, "mb_weights", json_real(all.cost.weights / steps / 1e6));
	json_object_set_new(row, "mb_rows", json_real(all.cost.rows / steps / 1e6));
	json_object_set_new(row, "gflop", json_real(all.cost.flops / steps / 1e9));
	json_object_set_new(row, "gbs", json_real(bytes / ms / 1e6));
	json_object_set_new(row, "read_gbs", json_real(bench_samples_at(&s->read, 0.5)));
	json_object_set_new(row, "ratio", json_real(bench_samples_at(&s->ratio, 0.5)));
	json_object_set_new(row, "ratio_p25", json_real(bench_samples_at(&s->ratio, 0.25)));
	json_object_set_new(row, "ratio_p75", json_real(bench_samples_at(&s->ratio, 0.75)));
	json_object_set_new(row, "other_ms", json_real((s->watch.seconds - matrix.seconds) / steps * 1e3));
	bench_print_row(&m->b->out, row);
	if (n_seq == 1 && !m->told++)
		buf_printf(&m->last, "decode ms/token %.2f\n", ms);
}

static void bench_decode_fini(struct bench_decode_samples *s)
{
	bench_samples_fini(&s->ms);
	bench_samples_fini(&s->read);
	bench_samples_fini(&s->ratio);
}

static int bench_decode_run(struct bench_model *m, struct sequence *const *seq, int n_seq,
			    struct bench_decode_samples *s)
{
	double begin;
	int rc = 0;

	for (int i = 0; i < BENCH_DECODE_WARM && rc == 0; i++)
		rc = (int)fmin(0, bench_model_step(m, seq, n_seq, 1, DSV4_DECODE, NULL));
	begin = clock_s();
	for (int i = 0; rc == 0 && (i < BENCH_DECODE_MIN || clock_s() - begin < s->seconds); i++) {
		rc = bench_decode_step(m, seq, n_seq, s);
		bench_progress_show(&m->b->bar, "decode", clock_s() - begin, s->seconds);
	}
	return rc;
}

static int bench_decode_at(struct bench_model *m, int64_t context, int n_seq, struct bench_decode_samples *s)
{
	struct sequence **seq = mem_new((size_t)n_seq * sizeof *seq);
	int rc = 0;

	for (int i = 0; i < n_seq && rc == 0; i++)
		rc = bench_state_new(&m->seed, &m->m->layout, context, (uint64_t)i + 1, bench_model_queue(m), &seq[i]);
	if (rc)
		buf_why(m->why, rc, "no memory for %d sequences of %lld tokens", n_seq, (long long)context);
	else
		rc = bench_decode_run(m, seq, n_seq, s);
	for (int i = 0; i < n_seq; i++)
		sequence_free(&seq[i]);
	free(seq);
	return rc;
}

int bench_decode_ms(struct bench_model *m, int64_t context, int n_seq, double seconds, double *ret_ms)
{
	struct bench_decode_samples s = { .alone = true, .seconds = seconds };
	int rc = bench_decode_at(m, context, n_seq, &s);

	*ret_ms = bench_samples_at(&s.ms, 0.5);
	bench_decode_fini(&s);
	return rc;
}

int bench_decode(struct bench_model *m)
{
	const struct bench_list *context = &m->b->args.contexts, *batch = &m->b->args.batch;
	struct bench_watch *watch = mem_new((size_t)context->n * sizeof *watch);
	int rc = 0;

	bench_print_table(&m->b->out, "decode", bench_decode_columns, (int)mem_countof(bench_decode_columns));
	for (int c = 0; c < context->n && rc == 0; c++)
		for (int i = 0; i < batch->n && rc == 0; i++) {
			struct bench_decode_samples s = { .seconds = m->b->args.seconds };

			rc = bench_decode_at(m, context->v[c], (int)batch->v[i], &s);
			if (rc == 0)
				bench_decode_row(m, context->v[c], (int)batch->v[i], &s);
			if (i == 0)
				watch[c] = s.watch;
			bench_decode_fini(&s);
		}
	if (rc == 0)
		bench_watch_table(&m->b->out, "decode_ops");
	for (int c = 0; c < context->n && rc == 0; c++)
		bench_watch_print(&m->b->out, "decode", context->v[c], (int)batch->v[0], &watch[c]);
	free(watch);
	return rc;
}
