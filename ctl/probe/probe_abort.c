/* SPDX-License-Identifier: MIT
 * probe_abort.c - an answer is dropped in mid-thinking: is the next turn what it is without the drop?
 * Threads: one at a time per run. Locks: none.
 *
 * Each drop point has a conversation that no server has cached, so that the drop is the first that is seen of it: the
 * answer is dropped, the next turn is asked, then the same answer is read to its end and the same next turn asked
 * again. A first conversation without any drop tells how long the model thinks and whether it shows the first turn at
 * all. */
#include "ctl/probe/probe_run.h"
#include "ctl/probe/probe_same.h"

#include <string.h>

#define ABORT_TURNS 6
#define ABORT_ASKS 4 /* requests of a drop point */

struct abort_run {
	struct probe_run *run;
	struct probe_same same;
	size_t reasoning; /* bytes that the answer without a drop thought */
	bool shown;       /* and the turn after it showed the first one */
	int dropped, late, equal, shows, replayed;
};

/* One drop point's conversation. */
struct abort_point {
	char nonce[PROBE_NONCE];
	size_t at; /* bytes of reasoning to drop after; 0: never */
	size_t seen;
	bool dropped;
};

/* Up to the turn that is dropped, or with the one after it: of that answer nothing is left, as a client would have it
 * that had not yet shown any of it. */
static json_t *abort_messages(const struct abort_point *p, bool next)
{
	json_t *messages = json_array();
	struct buf b = { 0 };

	buf_printf(&b, "Session %s.", p->nonce);
	probe_say(messages, "system", buf_str(&b));
	buf_fini(&b);
	probe_small_talk(messages, ABORT_TURNS); /* enough to fill blocks of a prefix cache, with the tools */
	probe_say(messages, "user", "Create a tic-tac-toe HTML page.");
	if (next)
		probe_say(messages, "user", "to a file");
	return messages;
}

static json_t *abort_body(struct abort_run *a, const struct abort_point *p, bool next)
{
	return probe_body(abort_messages(p, next), true, probe_int(a->run, "tools"),
			  (int)probe_int(a->run, "max_tokens"));
}

static int abort_delta(void *arg, bool reasoning, const char *text, size_t len)
{
	struct abort_point *p = arg;

	(void)text;
	if (!reasoning)
		return 0;
	p->seen += len;
	p->dropped |= p->at && p->seen >= p->at;
	return p->dropped;
}

static bool abort_stream(struct abort_run *a, struct abort_point *p)
{
	struct probe_answer answer;
	bool ok = probe_ask(a->run, abort_body(a, p, false), abort_delta, p, &answer);

	probe_answer_fini(&answer);
	return ok;
}

static bool abort_shown(const struct probe_answer *answer)
{
	return probe_where(answer, "tic-tac-toe", "tictactoe") &
	       (PROBE_IN_CONTENT | PROBE_IN_CALLS | PROBE_IN_REASONING);
}

/* The conversation without a drop. */
static bool abort_control(struct abort_run *a)
{
	struct abort_point p = { .at = 0 };
	struct probe_answer next;

	probe_nonce(p.nonce);
	if (!abort_stream(a, &p) || !probe_ask(a->run, abort_body(a, &p, true), NULL, NULL, &next))
		return false;
	a->reasoning = p.seen;
	a->shown = abort_shown(&next);
	probe_answer_fini(&next);
	if (a->reasoning < 2)
		probe_verdict(a->run, PROBE_INCONCLUSIVE, "the server streamed no reasoning that could be dropped");
	return a->reasoning >= 2;
}

/* On a server that can look into itself: the bits behind the turn after the drop. */
static void abort_replay(struct abort_run *a, const struct abort_point *p, const char *id)
{
	struct probe_replay again = { .want = id };
	struct buf why = { 0 };
	int rc;

	if (!a->run->peer->replay || !id)
		return;
	rc = a->run->peer->replay(a->run->peer->arg, &again, &why);
	if (rc)
		probe_verdict(a->run, PROBE_INCONCLUSIVE, "request %s could not be computed again: %s", id,
			      buf_str(&why));
	a->replayed += rc == 0 && again.skipped.len == 0;
	if (rc == 0 && again.differing)
		probe_verdict(a->run, PROBE_FAIL,
			      "request %s, after a drop at byte %zu of the reasoning, has other logits than without "
			      "the cache "
			      "from token %d on (%d of its tokens were cached)",
			      id, p->at, again.first, again.reused);
	buf_fini(&again.skipped);
	buf_fini(&why);
}

static void abort_judge(struct abort_run *a, const struct abort_point *p, const struct probe_answer *after,
			const struct probe_answer *without)
{
	struct buf what = { 0 };
	bool shown = abort_shown(after);

	a->shows += shown;
	if (probe_same(&a->same, without, after, &what))
		a->equal++;
	else
		probe_verdict(a->run, PROBE_FAIL,
			      "after a drop at byte %zu of the reasoning the next turn is another than without: %s",
			      p->at, buf_str(&what));
	if (!shown && a->shown)
		probe_verdict(a->run, PROBE_FAIL,
			      "after a drop at byte %zu of the reasoning the next turn has forgotten the one before, "
			      "which it "
			      "shows in a conversation without a drop",
			      p->at);
	buf_fini(&what);
	abort_replay(a, p, json_string_value(json_object_get(after->reply, "id")));
}

static void abort_one(struct abort_run *a, size_t at)
{
	struct abort_point p = { .at = at }, whole = { .at = 0 };
	struct probe_answer after, without;

	probe_nonce(p.nonce);
	memcpy(whole.nonce, p.nonce, sizeof p.nonce);
	if (!abort_stream(a, &p))
		return;
	a->dropped += p.dropped;
	a->late += !p.dropped;
	if (!p.dropped || !probe_ask_logprobs(a->run, abort_body(a, &p, true), &after))
		return;
	if (abort_stream(a, &whole) && probe_ask_logprobs(a->run, abort_body(a, &p, true), &without)) {
		abort_judge(a, &p, &after, &without);
		probe_answer_fini(&without);
	}
	probe_answer_fini(&after);
}

static void abort_report(struct abort_run *a)
{
	struct probe_run *r = a->run;

	probe_figure(r, "dropped", a->dropped);
	probe_figure(r, "too_late", a->late);
	probe_figure(r, "equal", a->equal);
	probe_figure(r, "shown", a->shows);
	probe_figure(r, "logprobs", a->same.compared);
	probe_figure(r, "logprob_apart", a->same.apart);
	if (r->peer->replay)
		probe_figure(r, "replayed", a->replayed);
	if (a->dropped == 0 && r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_INCONCLUSIVE, "no answer was still thinking where it was to be dropped");
	else if (!a->shown && r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_INCONCLUSIVE,
			      "%d drops changed no answer, but the model does not show the first turn even without",
			      a->dropped);
	else if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d answers after a drop are what they are without%s", a->equal,
			      a->dropped, a->same.compared ? ", with the same log-probabilities" : "");
}

void probe_abort(struct probe_run *r)
{
	struct abort_run a = { .run = r, .same.tolerance = probe_real(r, "tolerance") };
	int64_t drops = probe_int(r, "drops");

	r->total = 2 + (int)drops * ABORT_ASKS;
	if (!abort_control(&a))
		return;
	for (int64_t i = 1; i <= drops; i++) {
		size_t at = a.reasoning * (size_t)i / ((size_t)drops + 1);

		abort_one(&a, at ? at : 1);
	}
	abort_report(&a);
}
