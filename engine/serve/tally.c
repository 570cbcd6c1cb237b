/* SPDX-License-Identifier: MIT
 * tally.c - what the engine has done since it was opened: counts, and distributions of times and batch sizes.
 * Threads: the engine thread adds, who submits adds refusals, anyone reads a copy. Lock: tally. */
#include "engine/serve/tally.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <string.h>

/* ---- tables ---- */

static const double tally_seconds[] = { 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,
					2,     5,     10,    20,   50,   100,  200, 500, 1000 };
static const double tally_count[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
_Static_assert(mem_countof(tally_seconds) <= TALLY_MAX_BOUNDS, "as many as the counts have room for");
_Static_assert(mem_countof(tally_count) <= TALLY_MAX_BOUNDS, "as many as the counts have room for");

static const struct tally_row {
	const double *bound;
	int n;
} tally_rows[] = {
#define TALLY_SECONDS { tally_seconds, (int)mem_countof(tally_seconds) },
#define TALLY_COUNT { tally_count, (int)mem_countof(tally_count) },
#define TALLY(name, bounds) TALLY_##bounds
#include "engine/serve/tally.def"
#undef TALLY
};

const double *tally_bounds(enum tally_name h, int *ret_n)
{
	*ret_n = tally_rows[h].n;
	return tally_rows[h].bound;
}

const char *tally_stop_name(enum tally_stop s)
{
	static const char *const names[] = { "client", "operator", "drain" };

	return names[s];
}

static const int tally_errors[] = {
#define RC(name, code, http, type, varlink, text) code,
#include "engine/base/rc.def"
#undef RC
};

int tally_error_rc(enum tally_error e)
{
	return e < TALLY_ERRNO ? tally_errors[e] : 0;
}

static enum tally_error tally_error_of(int rc)
{
	int i = 0;

	while (i < TALLY_ERRNO && tally_errors[i] != rc)
		i++;
	return (enum tally_error)i;
}

/* ---- keeping ---- */

void tally_init(struct tally *t)
{
	memset(&t->view, 0, sizeof t->view);
	lock_init(&t->lock, "tally");
}

void tally_fini(struct tally *t)
{
	lock_fini(&t->lock);
}

void tally_read(struct tally *t, struct tally_view *ret_v)
{
	lock_take(&t->lock);
	*ret_v = t->view;
	lock_drop(&t->lock);
}

static void tally_add(struct tally *t, enum tally_name h, double value)
{
	const struct tally_row *row = &tally_rows[h];
	int i = 0;

	must(lock_held(&t->lock));
	while (i < row->n && value > row->bound[i])
		i++;
	t->view.hist[h].n[i]++;
	t->view.hist[h].sum += value;
}

void tally_refused(struct tally *t, int rc)
{
	lock_take(&t->lock);
	t->view.refused[tally_error_of(rc)]++;
	lock_drop(&t->lock);
}

void tally_admitted(struct tally *t, double seconds, int missed, enum cache_miss why)
{
	lock_take(&t->lock);
	tally_add(t, TALLY_queue, seconds);
	t->view.missed_tokens[why] += (uint64_t)missed;
	lock_drop(&t->lock);
}

void tally_token(struct tally *t, bool first, double seconds, int reasoning)
{
	lock_take(&t->lock);
	tally_add(t, first ? TALLY_first_token : TALLY_output_token, seconds);
	t->view.reasoning_tokens += (uint64_t)reasoning;
	lock_drop(&t->lock);
}

void tally_batch(struct tally *t, enum dsv4_phase phase, int requests, int tokens)
{
	lock_take(&t->lock);
	tally_add(t, phase == DSV4_PREFILL ? TALLY_batch_prefill : TALLY_batch_decode, requests);
	t->view.tokens[phase] += (uint64_t)tokens;
	lock_drop(&t->lock);
}

void tally_drafts(struct tally *t, int drafted, int accepted)
{
	if (!drafted && !accepted)
		return;
	lock_take(&t->lock);
	t->view.drafted_tokens += (uint64_t)drafted;
	t->view.accepted_tokens += (uint64_t)accepted;
	lock_drop(&t->lock);
}

void tally_step(struct tally *t, double seconds, int beside)
{
	lock_take(&t->lock);
	tally_add(t, TALLY_step, seconds);
	t->view.beside_steps += beside > 0;
	t->view.beside_tokens += (uint64_t)beside;
	lock_drop(&t->lock);
}

void tally_looped(struct tally *t, const struct gen_loop *l)
{
	lock_take(&t->lock);
	t->view.looped[l->part][l->ended]++;
	lock_drop(&t->lock);
}

static enum tally_stop tally_stop_of(int rc, bool left)
{
	return rc == RC_DRAINING ? TALLY_DRAIN : left || rc == RC_UNREAD ? TALLY_CLIENT : TALLY_OPERATOR;
}

void tally_ended(struct tally *t, enum gen_finish finish, int rc, bool left, double seconds)
{
	must(finish != GEN_RUNNING);
	lock_take(&t->lock);
	t->view.finished[finish]++;
	if (finish == GEN_CANCELLED)
		t->view.stopped[tally_stop_of(rc, left)]++;
	if (finish == GEN_ERROR)
		t->view.errors[tally_error_of(rc)]++;
	tally_add(t, TALLY_request, seconds);
	lock_drop(&t->lock);
}
