/* SPDX-License-Identifier: MIT
 * probe_warmcold.c - is an answer that goes on from cached rows the one computed without?
 * Threads: one at a time per run. Locks: none.
 *
 * A server that can look into itself computes finished requests again without its cache, fed with their own answers:
 * the bits of all logits are held against those of then. Of any other server a conversation that it cannot have
 * cached is asked for twice, with one in between that branches off it. */
#include "ctl/probe/probe_run.h"
#include "ctl/probe/probe_same.h"
#include "engine/base/rc.h"

#define WARM_SENTENCES 45 /* of the first turn: some blocks of a prefix cache */
#define WARM_TURNS 3
#define WARM_TOKENS 48 /* of each answer */
#define WARM_MAX 1000  /* requests replayed, rounds */
#define WARM_LOOKS 4   /* requests looked at for one that can be replayed */

static const char *const warm_questions[WARM_TURNS] = {
	"What is the access code for the radio?",
	"What is my codeword?",
	"Repeat the word heron.",
};

struct warm {
	struct probe_run *run;
	struct probe_same same;
	int replayed, skipped, differing, positions;
	int reused, most;      /* replayed ones that had tokens from the cache; the most of one */
	int compared, unequal; /* answers of another server */
	int cached;            /* and its tokens from the cache in a warm one; -1: it never said */
	json_t *done;          /* {id: true} */
};

/* A first turn with two facts in much text; front: what stands before it, "" for nothing. */
static json_t *warm_messages(const char *front)
{
	json_t *messages = json_array();
	struct buf b = { 0 };

	buf_printf(&b, "%sRead these notes.\n\n My codeword is poppy.", front);
	for (unsigned i = 0; i < WARM_SENTENCES; i++)
		probe_sentence(&b, i);
	buf_printf(&b, " The access code for the radio is coral.\n\n%s", warm_questions[0]);
	probe_say(messages, "user", buf_str(&b));
	buf_fini(&b);
	return messages;
}

/* ---- a server that can look into itself ---- */

static void warm_judge(struct warm *w, const struct probe_replay *p)
{
	if (p->skipped.len) {
		w->skipped++;
		return;
	}
	probe_request(w->run, p->again);
	w->replayed++;
	w->positions += p->output_tokens;
	w->reused += p->reused > 0;
	w->most = p->reused > w->most ? p->reused : w->most;
	if (!p->differing)
		return;
	w->differing++;
	probe_verdict(
		w->run, PROBE_FAIL,
		"request %s, with %d of %d prompt tokens from the cache, has other logits than without it: first at "
		"token %d, in all %d of %d",
		p->id, p->reused, p->prompt_tokens, p->first, p->differing, p->output_tokens);
}

/* False when there is no such request. */
static bool warm_replay(struct warm *w, struct probe_replay *p)
{
	const struct probe_peer *peer = w->run->peer;
	struct buf why = { 0 };
	int rc = peer->replay(peer->arg, p, &why);
	bool known = rc != RC_NOT_FOUND && json_object_get(w->done, p->id);

	if (rc && rc != RC_NOT_FOUND)
		probe_verdict(w->run, PROBE_INCONCLUSIVE, "request %s could not be computed again: %s", p->id,
			      buf_str(&why));
	else if (rc == 0 && !known)
		warm_judge(w, p);
	if (rc == 0)
		json_object_set_new(w->done, p->id, json_true());
	buf_fini(&p->skipped);
	buf_fini(&why);
	return rc != RC_NOT_FOUND;
}

/* Each turn goes on from the one before. The last is sampled: it is its tokens that are computed again. Their ids. */
static json_t *warm_conversation(struct warm *w)
{
	json_t *messages = warm_messages(""), *ids = json_array(), *body;
	struct probe_answer a;

	for (int i = 0; i < WARM_TURNS; i++) {
		if (i > 0)
			probe_say(messages, "user", warm_questions[i]);
		body = probe_body(json_deep_copy(messages), false, false, WARM_TOKENS);
		json_object_set_new(body, "temperature", json_real(i == WARM_TURNS - 1 ? 1 : 0));
		json_object_set_new(body, "seed", json_integer(1));
		if (!probe_ask(w->run, body, NULL, NULL, &a))
			break;
		probe_say(messages, "assistant", a.content);
		json_array_append(ids, json_object_get(a.reply, "id"));
		probe_answer_fini(&a);
	}
	json_decref(messages);
	return ids;
}

static void warm_own_conversation(struct warm *w)
{
	json_t *ids = warm_conversation(w), *id;
	size_t i;

	json_array_foreach(ids, i, id)
	{
		struct probe_replay p = { .want = json_string_value(id) };

		if (!warm_replay(w, &p))
			probe_verdict(w->run, PROBE_INCONCLUSIVE,
				      "request %s is no longer kept: the ring is too small", p.want);
		probe_step(w->run);
	}
	json_decref(ids);
}

/* The newest that others asked for, as many as can be had. */
static void warm_recent(struct warm *w)
{
	int count = (int)probe_int(w->run, "count"), before = w->replayed;

	for (int i = 0; i < WARM_TURNS + WARM_LOOKS * count && w->replayed - before < count; i++) {
		struct probe_replay p = { .nth = i, .max_tokens = (int)probe_int(w->run, "max_tokens") };
		int replayed = w->replayed;

		if (!warm_replay(w, &p))
			return;
		if (w->replayed > replayed)
			probe_step(w->run);
	}
}

static void warm_own(struct warm *w)
{
	struct probe_run *r = w->run;

	r->total = 2 * WARM_TURNS + (int)probe_int(r, "count");
	w->done = json_object();
	warm_own_conversation(w);
	warm_recent(w);
	json_decref(w->done);
	probe_figure(r, "replayed", w->replayed);
	probe_figure(r, "skipped", w->skipped);
	probe_figure(r, "positions", w->positions);
	probe_figure(r, "differing", w->differing);
	probe_figure(r, "reused", w->reused);
	probe_figure(r, "most_reused", w->most);
	if (r->result->verdict == PROBE_PASS && w->reused == 0)
		probe_verdict(r, PROBE_INCONCLUSIVE, "none of %d requests had anything from the cache", w->replayed);
	else if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS,
			      "%d requests, %d of them with up to %d tokens from the cache, have the logits they "
			      "have without it, bit for bit",
			      w->replayed, w->reused, w->most);
}

/* ---- any server ---- */

/* The conversation to its end, as it could have gone. */
static json_t *warm_whole(const char *front)
{
	json_t *messages = warm_messages(front);

	probe_say(messages, "assistant", "The access code for the radio is coral.");
	probe_say(messages, "user", warm_questions[1]);
	return messages;
}

static bool warm_ask(struct warm *w, json_t *messages, struct probe_answer *ret_a)
{
	return probe_ask_logprobs(w->run, probe_body(messages, false, false, WARM_TOKENS), ret_a);
}

/* Shares the first turn, and goes on otherwise. */
static bool warm_branch(struct warm *w, const char *front)
{
	json_t *messages = warm_messages(front);
	struct probe_answer a;
	bool ok;

	probe_say(messages, "assistant", "It stands at the end of the notes.");
	probe_say(messages, "user", warm_questions[2]);
	ok = warm_ask(w, messages, &a);
	probe_answer_fini(&a);
	return ok;
}

static void warm_hold(struct warm *w, const struct probe_answer *cold, const struct probe_answer *warm)
{
	struct buf what = { 0 };

	w->compared++;
	w->cached = warm->cached_tokens > w->cached ? warm->cached_tokens : w->cached;
	if (!probe_same(&w->same, cold, warm, &what)) {
		w->unequal++;
		probe_verdict(w->run, PROBE_FAIL, "the same prompt of %d tokens again, %d of them from the cache: %s",
			      warm->prompt_tokens, warm->cached_tokens > 0 ? warm->cached_tokens : 0, buf_str(&what));
	}
	buf_fini(&what);
}

static void warm_round(struct warm *w)
{
	char nonce[PROBE_NONCE];
	struct probe_answer cold, warm;
	struct buf front = { 0 };

	probe_nonce(nonce);
	buf_printf(&front, "Session %s. ", nonce);
	if (warm_ask(w, warm_whole(buf_str(&front)), &cold)) {
		if (warm_branch(w, buf_str(&front)) && warm_ask(w, warm_whole(buf_str(&front)), &warm)) {
			warm_hold(w, &cold, &warm);
			probe_answer_fini(&warm);
		}
		probe_answer_fini(&cold);
	}
	buf_fini(&front);
}

static void warm_other(struct warm *w)
{
	struct probe_run *r = w->run;
	int rounds = (int)probe_int(r, "rounds");

	r->total = 3 * rounds;
	w->cached = -1;
	for (int i = 0; i < rounds; i++)
		warm_round(w);
	probe_figure(r, "compared", w->compared);
	probe_figure(r, "differing", w->unequal);
	probe_figure(r, "logprobs", w->same.compared);
	probe_figure(r, "logprob_apart", w->same.apart);
	if (w->cached >= 0)
		probe_figure(r, "most_reused", w->cached);
	if (r->result->verdict == PROBE_PASS && w->cached <= 0)
		probe_verdict(r, PROBE_INCONCLUSIVE, "%d answers are the same twice, but the server %s", w->compared,
			      w->cached < 0 ? "does not say whether it reused anything"
					    : "says that it reused nothing");
	else if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d answers are the same with up to %d tokens from the cache%s",
			      w->compared, w->cached, w->same.compared ? ", with the same log-probabilities" : "");
}

void probe_warmcold(struct probe_run *r)
{
	struct warm w = { .run = r, .same.tolerance = probe_real(r, "tolerance") };

	if (probe_int(r, "count") > WARM_MAX || probe_int(r, "rounds") < 1 || probe_int(r, "rounds") > WARM_MAX) {
		probe_verdict(r, PROBE_INCONCLUSIVE, "count must be at most %d and rounds 1 to %d", WARM_MAX,
			      WARM_MAX);
		return;
	}
	if (r->peer->replay)
		warm_own(&w);
	else
		warm_other(&w);
}
