/* SPDX-License-Identifier: MIT
 * probe_here.c - the daemon's looks into itself for probes: a request computed again, what is in force against ref.
 * Threads: ops. Locks: none. */
#include "daemon/verbs/compare_reply.h"
#include "daemon/probes/probe_peer.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HERE_LABEL "replay"
#define HERE_MOST_RECORDS 4096 /* looked through for the nth */
#define HERE_WAIT_MS 100       /* between two looks whether the run was cancelled */

/* ---- a request computed again ---- */

struct replay {
	struct probe_here *here;
	struct probe_replay *r;
	struct record_view view; /* of the request */
	int32_t *token;          /* [prompt, then output] */
	uint64_t *digest;        /* [output_tokens] */
	int n_digest;
};

static bool replay_counts(struct record *rec)
{
	struct record_view v;

	record_view(rec, &v);
	return v.finish != GEN_RUNNING && !record_is_of(rec, HERE_LABEL);
}

/* A reference on the nth newest; NULL when there are fewer. */
static struct record *replay_nth(struct engine *e, int nth)
{
	struct record **all = mem_grow(NULL, HERE_MOST_RECORDS, sizeof *all), *found = NULL;
	int n = engine_records(e, all, HERE_MOST_RECORDS);

	for (int i = 0; i < n; i++) {
		if (!found && replay_counts(all[i]) && nth-- == 0)
			found = all[i];
		else
			record_unref(&all[i]);
	}
	free(all);
	return found;
}

static int replay_skip(struct replay *p, const char *why)
{
	buf_adds(&p->r->skipped, why);
	return 0;
}

/* What was computed under numbers that are not those in force, or under two sets, has no one to be held against. */
static int replay_check(struct replay *p, int n_set)
{
	struct engine_status now;

	engine_status(p->here->engine, &now);
	if (p->view.finish == GEN_RUNNING)
		return replay_skip(p, "it has not finished");
	if (p->r->output_tokens == 0 || p->n_digest != p->r->output_tokens)
		return replay_skip(p, "it has no answer");
	if (p->view.kept)
		return replay_skip(p, "it went on from rows of other numbers, as --keep-cache asked for");
	if (n_set > 1)
		return replay_skip(p, "it ran under several kernel sets");
	if (p->view.epoch != now.epoch)
		return replay_skip(p, "the numbers in force are others than its own");
	if (p->r->max_tokens && p->r->prompt_tokens + p->r->output_tokens > p->r->max_tokens)
		return replay_skip(p, "it is longer than asked for");
	return 0;
}

static int replay_read(struct replay *p, struct buf *why)
{
	struct probe_replay *r = p->r;
	struct engine *e = p->here->engine;
	struct record *rec = r->want ? engine_record(e, r->want) : replay_nth(e, r->nth);
	struct record_set *set;
	int n_set;

	if (!rec)
		return buf_why(why, RC_NOT_FOUND, "no such request: unknown, or no longer kept");
	record_view(rec, &p->view);
	snprintf(r->id, sizeof r->id, "%s", p->view.id);
	r->output_tokens = record_tokens(rec, &p->token, &r->prompt_tokens) - r->prompt_tokens;
	p->n_digest = record_digests(rec, &p->digest);
	r->reused = p->view.reused_tokens;
	n_set = record_sets(rec, &set);
	free(set);
	record_unref(&rec);
	return replay_check(p, n_set);
}

/* To the request's end. */
static int replay_wait(struct replay *p, struct generation *g, struct buf *why)
{
	struct gen_event ev = { .kind = GEN_EV_CONTENT };
	bool done = false;
	int rc = 0;

	while (!done) {
		if (probe_here_cancelled(p->here))
			generation_cancel(g);
		if (generation_wait(g, &ev, HERE_WAIT_MS))
			continue;
		done = ev.kind == GEN_EV_FINISH;
		if (done && ev.finish == GEN_ERROR)
			rc = buf_why(why, ev.rc, "%s", ev.text);
		else if (done && ev.finish == GEN_CANCELLED)
			rc = buf_why(why, RC_CANCELLED, "the run was cancelled");
		gen_event_fini(&ev);
	}
	return rc;
}

static void replay_hold(struct replay *p, const uint64_t *digest)
{
	struct probe_replay *r = p->r;

	for (int i = 0; i < r->output_tokens; i++) {
		if (digest[i] == p->digest[i])
			continue;
		if (r->differing++ == 0)
			r->first = r->prompt_tokens + i;
	}
}

/* Its record has the digests, unless the numbers have changed just before it began. */
static int replay_judge(struct replay *p, struct buf *why)
{
	struct record *rec = engine_record(p->here->engine, p->r->again);
	struct record_view v;
	uint64_t *digest;
	int n, rc = 0;

	if (!rec)
		return buf_why(why, RC_NOT_FOUND, "its replay is no longer kept: the ring is too small");
	record_view(rec, &v);
	n = record_digests(rec, &digest);
	if (v.epoch != p->view.epoch)
		rc = replay_skip(p, "the numbers in force changed meanwhile");
	else if (n != p->r->output_tokens)
		rc = buf_why(why, RC_INTERNAL, "its replay has %d tokens of %d", n, p->r->output_tokens);
	else
		replay_hold(p, digest);
	free(digest);
	record_unref(&rec);
	return rc;
}

static int replay_run(struct replay *p, struct buf *why)
{
	const struct probe_replay *r = p->r;
	struct generation_spec s = {
		.tokens = p->token,
		.n_tokens = r->prompt_tokens,
		.answer = p->token + r->prompt_tokens,
		.n_answer = r->output_tokens,
		.sampling = { .top_p = 1, .repetition_penalty = 1 },
		.label = HERE_LABEL,
		.cache_off = true,
	};
	struct generation *g;
	int rc = engine_submit(p->here->engine, &s, &g, why);

	if (rc)
		return rc;
	snprintf(p->r->again, sizeof p->r->again, "%s", generation_id(g));
	rc = replay_wait(p, g, why);
	if (rc == 0)
		rc = replay_judge(p, why);
	generation_unref(&g);
	return rc;
}

int probe_here_replay(void *here, struct probe_replay *r, struct buf *why)
{
	struct replay p = { .here = here, .r = r };
	int rc = probe_here_begin(here, why);

	rc = rc ? rc : replay_read(&p, why);
	r->first = -1;
	if (rc == 0 && r->skipped.len == 0)
		rc = replay_run(&p, why);
	free(p.token);
	free(p.digest);
	return rc;
}

/* ---- what is in force, or the given set, against ref ---- */

static int here_prompt(struct probe_here *o, const struct probe_compare *c, struct token_ids *ids, struct buf *why)
{
	int rc = tokenizer_encode(engine_tokenizer(o->engine), c->prompt, strlen(c->prompt), true, ids);

	if (rc)
		return buf_why(why, rc, "prompt: %s", rc_text(rc));
	if (ids->n > c->prompt_tokens)
		ids->n = c->prompt_tokens;
	return 0;
}

/* Do b's kernels count as ref's? Before they are held against it: who is caught then counts no more. */
static bool here_exact(const struct compare_side *a, const struct compare_side *b)
{
	uint8_t ref[32], now[32];

	cache_numbers(a->kset, &b->numerics, ref);
	cache_numbers(b->kset, &b->numerics, now);
	return memcmp(ref, now, sizeof ref) == 0;
}

static void here_progress(void *arg, int64_t done, int64_t total)
{
	(void)done;
	(void)total;
	(void)probe_here_cancelled(arg); /* looks; the comparison itself sees `cancel` */
}

static int here_compare(struct probe_here *o, const struct probe_compare *c, struct compare_reply *reply,
		       json_t **ret_reply, struct buf *why)
{
	struct engine_compare_options opt = {
		.a = reply->side[0],
		.b = reply->side[1],
		.max_tokens = c->tokens,
		.cancel = o->cancel,
		.progress = here_progress,
		.arg = o,
	};
	bool exact = here_exact(&opt.a, &opt.b);
	struct compare_result result = { 0 };
	struct token_ids ids = { 0 };
	int rc = here_prompt(o, c, &ids, why);

	opt.tokens = ids.id;
	opt.n_tokens = ids.n;
	rc = rc ? rc : engine_compare(o->engine, &opt, &result, why);
	if (rc == 0) {
		*ret_reply = compare_reply_json(reply, &result);
		must(json_object_set_new(*ret_reply, "exact", json_boolean(exact)) == 0);
		compare_result_fini(&result);
	}
	token_ids_fini(&ids);
	return rc;
}

int probe_here_compare(void *here, const struct probe_compare *c, json_t **ret_reply, struct buf *why)
{
	struct probe_here *o = here;
	struct compare_reply reply = { .tokenizer = engine_tokenizer(o->engine), .source = "text" };
	struct kset *ref, *active;
	int rc = probe_here_begin(o, why);

	rc = rc ? rc : kset_build(NULL, 0, &ref, why);
	if (rc)
		return rc;
	active = o->under.set ? kset_pin(o->under.set) : engine_kset(o->engine);
	if (o->under.numerics)
		reply.in_force = *o->under.numerics;
	else
		engine_numerics(o->engine, &reply.in_force);
	reply.side[0] = (struct compare_side){ ref, reply.in_force };
	reply.side[1] = (struct compare_side){ active, reply.in_force };
	if (!c->same_numerics)
		numerics_init(&reply.side[0].numerics, NUMERICS_EXACT, engine_config(o->engine)->index_topk);
	rc = here_compare(o, c, &reply, ret_reply, why);
	kset_unpin(&active);
	kset_unpin(&ref);
	return rc;
}
