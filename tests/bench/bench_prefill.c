/* SPDX-License-Identifier: MIT
 * bench_prefill.c - steps of many tokens of one sequence, in turns with the fastest multiply-adds.
 * Threads: main; a pool's. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/bench/bench_model.h"

#include <stdlib.h>

#define BENCH_PREFILL_PEAK 0.005 /* seconds of multiply-adds after a step */

static const struct bench_column bench_prefill_columns[] = {
	{ "context", "CONTEXT", 7, 0 }, { "tokens", "TOKENS", 6, 0 }, { "ms", "MS", 9, 1 },
	{ "tokens_s", "TOK/S", 7, 1 },
	{ "gflop", "GFLOP/TOK", 9, 3 }, { "gflops", "GFLOP/S", 8, 1 }, { "peak", "PEAK", 8, 1 },
	{ "ratio", "RATIO", 5, 3 },
	{ "other_ms", "OTHER_MS", 8, 1 },
};

struct bench_prefill_samples {
	struct bench_samples ms, peak, ratio;
	struct bench_watch watch;
};

static int bench_prefill_step(struct bench_model *m, int64_t context, int n, struct bench_prefill_samples *s)
{
	struct bench_watch w = { 0 };
	struct sequence *seq = NULL;
	int rc = bench_state_new(&m->seed, &m->m->layout, context, 1, bench_model_queue(m), &seq);
	double took, flops, best;

	if (rc)
		return buf_why(m->why, rc, "no memory for a sequence of %lld tokens", (long long)context);
	took = bench_model_watched(m, &seq, 1, n, DSV4_PREFILL, &w);
	sequence_free(&seq);
	if (took < 0)
		return (int)took;
	flops = bench_watch_sum(&w, false).cost.flops;
	best = bench_model_peak(m, BENCH_PREFILL_PEAK);
	if (best < 0)
		return RC_DEVICE;
	bench_samples_add(&s->ms, took * 1e3);
	bench_samples_add(&s->peak, best / 1e9);
	bench_samples_add(&s->ratio, flops / took / best);
	bench_watch_add(&s->watch, &w);
	return 0;
}

static void bench_prefill_row(struct bench_model *m, int64_t context, int n, struct bench_prefill_samples *s)
{
	struct bench_watch_row all = bench_watch_sum(&s->watch, false), matrix = bench_watch_sum(&s->watch, true);
	double steps = s->watch.steps, ms = bench_samples_at(&s->ms, 0.5), flops = all.cost.flops / steps;

	bench_print_row(&m->b->out,
			json_pack("{s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "context", (json_int_t)context,
				  "tokens",
				  n, "steps", s->watch.steps, "ms", ms, "tokens_s", n / ms * 1e3, "gflop",
				  flops / n / 1e9,
				  "gflops", flops / ms / 1e6, "peak", bench_samples_at(&s->peak, 0.5), "ratio",
				  bench_samples_at(&s->ratio, 0.5), "other_ms",
				  (s->watch.seconds - matrix.seconds) / steps * 1e3));
	if (context == 0)
		buf_printf(&m->last, "prefill %d tok/s %.2f\n", n, n / ms * 1e3);
}

static int bench_prefill_at(struct bench_model *m, int64_t context, int n, struct bench_watch *ret_w)
{
	struct bench_prefill_samples s = { 0 };
	double begin = clock_s();
	int rc = 0;

	do {
		rc = bench_prefill_step(m, context, n, &s);
		bench_progress_show(&m->b->bar, "prefill", clock_s() - begin, m->b->args.seconds);
	} while (rc == 0 && clock_s() - begin < m->b->args.seconds);
	if (rc == 0)
		bench_prefill_row(m, context, n, &s);
	*ret_w = s.watch;
	bench_samples_fini(&s.ms);
	bench_samples_fini(&s.peak);
	bench_samples_fini(&s.ratio);
	return rc;
}

/* From the beginning, and behind each context. */
int bench_prefill(struct bench_model *m)
{
	const struct bench_list *context = &m->b->args.contexts, *n = &m->b->args.prefill;
	struct bench_watch watch[2] = { 0 };
	int64_t last = 0;
	int rc = 0;

	bench_print_table(&m->b->out, "prefill", bench_prefill_columns, (int)mem_countof(bench_prefill_columns));
	for (int c = -1; c < context->n && rc == 0; c++) {
		last = c < 0 ? 0 : context->v[c];
		for (int i = 0; i < n->n && rc == 0; i++)
			rc = bench_prefill_at(m, last, (int)n->v[i], &watch[c >= 0]);
	}
	if (rc == 0 && n->n) {
		bench_watch_table(&m->b->out, "prefill_ops");
		bench_watch_print(&m->b->out, "prefill", 0, (int)n->v[n->n - 1], &watch[0]);
		if (last)
			bench_watch_print(&m->b->out, "prefill", last, (int)n->v[n->n - 1], &watch[1]);
	}
	return rc;
}
