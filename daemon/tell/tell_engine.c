/* SPDX-License-Identifier: MIT
 * tell_engine.c - metrics of the engine: requests, tokens, steps, times.
 * Threads: control. Locks: the engine's and the tally's, one after the other, inside calls. */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/tell/tell.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <stdio.h>

/* ---- counts ---- */

static void tell_counts(const struct engine_status *s, struct metrics *m)
{
	const struct {
		enum metric id;
		double value;
	} row[] = {
		{ METRIC_requests_submitted_total, (double)s->requests },
		{ METRIC_requests_running, s->running },
		{ METRIC_requests_queued, s->queued },
		{ METRIC_prompt_tokens_total, (double)s->prompt_tokens },
		{ METRIC_cached_tokens_total, (double)s->cached_tokens },
		{ METRIC_generated_tokens_total, (double)s->generated_tokens },
		{ METRIC_steps_total, (double)s->steps },
		{ METRIC_step_age_seconds, s->step_age },
		{ METRIC_state_bytes, (double)s->state_bytes },
		{ METRIC_threads, s->n_threads },
		{ METRIC_repack_experts, s->repack.n_total },
		{ METRIC_repacked_experts, s->repack.n_done },
		{ METRIC_repacked_bytes, (double)s->repack.bytes },
		{ METRIC_kernel_failures_total, (double)s->kernel_failures },
		{ METRIC_kernels_steps, (double)s->set_steps },
		{ METRIC_kernels_failures, (double)s->set_failures },
		{ METRIC_epoch, (double)s->epoch },
	};

	for (size_t i = 0; i < mem_countof(row); i++)
		metrics_put(m, row[i].id, row[i].value, NULL);
}

/* "busy" for RC_BUSY. */
static void tell_error_name(enum tally_error e, char out[32])
{
	const char *name = rc_name(tally_error_rc(e));
	size_t i;

	if (e == TALLY_ERRNO)
		name = "RC_system";
	for (i = 0; i < 31 && name[i + 3]; i++)
		out[i] = (char)tolower((unsigned char)name[i + 3]);
	out[i] = 0;
}

static void tell_errors(const uint64_t n[TALLY_N_ERROR], enum metric id, struct metrics *m)
{
	for (int e = 0; e < TALLY_N_ERROR; e++) {
		char name[32];

		tell_error_name((enum tally_error)e, name);
		metrics_put(m, id, (double)n[e], METRICS_LABELS(name));
	}
}

static void tell_ends(const struct tally_view *t, struct metrics *m)
{
	static const char *const finish[] = { NULL, "stop", "length", "tool_calls", "cancelled", "error" };

	_Static_assert(mem_countof(finish) == mem_countof(t->finished), "a name for every way to end");
	for (int i = GEN_STOP; i <= GEN_ERROR; i++)
		metrics_put(m, METRIC_requests_finished_total, (double)t->finished[i], METRICS_LABELS(finish[i]));
	for (int i = 0; i < GEN_N_PART; i++)
		for (int ended = 0; ended < 2; ended++)
			metrics_put(m, METRIC_requests_looped_total, (double)t->looped[i][ended],
				    METRICS_LABELS(loopguard_part_name((enum gen_part)i), ended ? "ended" : "off"));
	for (int i = 0; i < TALLY_N_STOP; i++)
		metrics_put(m, METRIC_requests_cancelled_total, (double)t->stopped[i],
			    METRICS_LABELS(tally_stop_name((enum tally_stop)i)));
	tell_errors(t->errors, METRIC_request_errors_total, m);
	tell_errors(t->refused, METRIC_requests_refused_total, m);
}

/* ---- distributions ---- */

static const struct tell_hist {
	enum tally_name of;
	enum metric id;
	const char *phase;
} tell_hists[] = {
	{ TALLY_queue, METRIC_queue_seconds, NULL },
	{ TALLY_first_token, METRIC_first_token_seconds, NULL },
	{ TALLY_output_token, METRIC_output_token_seconds, NULL },
	{ TALLY_request, METRIC_request_seconds, NULL },
	{ TALLY_step, METRIC_step_seconds, NULL },
	{ TALLY_batch_prefill, METRIC_batch_requests, "prefill" },
	{ TALLY_batch_decode, METRIC_batch_requests, "decode" },
};
_Static_assert(mem_countof(tell_hists) == TALLY_N, "every distribution is told");

static void tell_distributions(const struct tally_view *t, struct metrics *m)
{
	for (size_t i = 0; i < mem_countof(tell_hists); i++) {
		const struct tell_hist *row = &tell_hists[i];
		struct metrics_hist h = { .n = t->hist[row->of].n, .sum = t->hist[row->of].sum };

		h.bound = tally_bounds(row->of, &h.n_bound);
		metrics_put_hist(m, row->id, &h, row->phase ? METRICS_LABELS(row->phase) : NULL);
	}
}

void tell_engine(struct daemon *d, struct metrics *m)
{
	struct engine_status s;
	struct tally_view t;

	engine_status(d->engine, &s);
	engine_tally(d->engine, &t);
	tell_counts(&s, m);
	metrics_put(m, METRIC_prefill_tokens_total, (double)t.tokens[DSV4_PREFILL], NULL);
	metrics_put(m, METRIC_beside_steps_total, (double)t.beside_steps, NULL);
	metrics_put(m, METRIC_beside_tokens_total, (double)t.beside_tokens, NULL);
	metrics_put(m, METRIC_reasoning_tokens_total, (double)t.reasoning_tokens, NULL);
	metrics_put(m, METRIC_drafted_tokens_total, (double)t.drafted_tokens, NULL);
	metrics_put(m, METRIC_accepted_tokens_total, (double)t.accepted_tokens, NULL);
	tell_ends(&t, m);
	tell_distributions(&t, m);
}
