/* SPDX-License-Identifier: MIT
 * verbs_compare.c - io.dsv4.Kernels.Compare: one prompt through two sets, on the ops thread, beside the running engine.
 * Threads: control; compare_job_run() and its progress on ops. Locks: none (ops.h hands everything over). */
#include "daemon/verbs/compare_reply.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/side.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COMPARE_TOKENS 32
#define COMPARE_MAX_TOKENS 4096
#define COMPARE_SECONDS 600
#define COMPARE_MAX_SECONDS 86400
#define COMPARE_NOTE_MS 100    /* between two notes of progress */

/* The control thread fills it, ops runs it, control answers. */
struct compare_job {
	struct warming warming;        /* before the job; its call is control's alone; NULL once the peer is gone */
	struct ops_job job;
	struct daemon *daemon;
	struct side side[2];           /* as they were typed */
	struct kset *set[2];           /* pins; reply.side has them too */
	struct compare_reply reply;
	struct token_ids prompt;
	int max_tokens, seconds;
	long long noted;               /* clock_ms() of the last note */
	int rc;
	struct buf why;
	struct compare_result result;
};

struct compare_note {
	struct ops_note note;
	struct compare_job *job;
	long long done, total;
};

static void compare_job_free(struct compare_job *j)
{
	kset_unpin(&j->set[0]);
	kset_unpin(&j->set[1]);
	side_fini(&j->side[0]);
	side_fini(&j->side[1]);
	token_ids_fini(&j->prompt);
	compare_result_fini(&j->result);
	buf_fini(&j->why);
	free(j);
}

/* ---- on the ops thread ---- */

static void compare_job_note_deliver(struct ops_note *n)
{
	struct compare_note *p = list_entry(n, struct compare_note, note);

	if (p->job->warming.call)
		call_progress(p->job->warming.call,
			      json_pack("{s:{s:s, s:I, s:I}}", "progress", "op", "compare", "done",
					(json_int_t)p->done, "total", (json_int_t)p->total));
	free(p);
}

static void compare_job_progress(void *arg, int64_t done, int64_t total)
{
	struct compare_job *j = arg;
	struct compare_note *n;

	if (done < total && clock_ms() - j->noted < COMPARE_NOTE_MS)
		return;
	j->noted = clock_ms();
	n = mem_new(sizeof *n);
	*n = (struct compare_note){ .note.fn = compare_job_note_deliver, .job = j, .done = done, .total = total };
	ops_post(j->daemon->ops, &n->note);
}

static void compare_job_run(struct ops_job *job)
{
	struct compare_job *j = list_entry(job, struct compare_job, job);
	struct engine_compare_options o = {
		.a = j->reply.side[0],
		.b = j->reply.side[1],
		.tokens = j->prompt.id,
		.n_tokens = j->prompt.n,
		.max_tokens = j->max_tokens,
		.seconds = j->seconds,
		.cancel = &job->cancel,
		.progress = compare_job_progress,
		.arg = j,
	};

	j->rc = engine_compare(j->daemon->engine, &o, &j->result, &j->why);
}

/* ---- on the control thread ---- */

static void compare_job_done(struct ops_job *job)
{
	struct compare_job *j = list_entry(job, struct compare_job, job);

	if (j->warming.call && j->rc)
		call_fail(&j->warming.call, j->rc, buf_str(&j->why));
	else if (j->warming.call)
		call_reply(&j->warming.call, compare_reply_json(&j->reply, &j->result));
	compare_job_free(j);
}

static void compare_job_gone(struct call *c)
{
	struct compare_job *j = c->arg;

	j->warming.call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

/* ---- what to compare ---- */

static int compare_job_side(struct compare_job *j, int side, const char *text, struct buf *why)
{
	int r = side_read(&j->side[side], &j->reply.in_force, text, why);

	j->reply.side[side].numerics = j->side[side].numerics;
	if (r == 0 && j->side[side].numerics.drop_thinking != j->reply.in_force.drop_thinking)
		r = buf_why(why, RC_INVALID, "drop_thinking: both sides run the same prompt");
	return r;
}

static int compare_job_request_prompt(struct compare_job *j, const char *id, struct buf *why)
{
	struct record *rec = engine_record(j->daemon->engine, id);
	int32_t *ids;
	int n_prompt, r = 0;

	if (!rec)
		return buf_why(why, RC_NOT_FOUND, "no request '%.96s': unknown, or no longer kept", id);
	record_tokens(rec, &ids, &n_prompt);
	for (int i = 0; i < n_prompt && !r; i++)
		r = token_ids_try(&j->prompt, ids[i]);
	free(ids);
	record_unref(&rec);
	j->reply.source = "request";
	return r;
}

/* An array of messages, or an object as a chat request has it: "messages", "tools", "thinking" (true or false). */
static int compare_job_messages(struct compare_job *j, json_t *root, struct buf *why)
{
	struct generation_spec spec = { .messages = json_is_array(root) ? root : json_object_get(root, "messages"),
					.tools = json_object_get(root, "tools"),
					.thinking = json_is_true(json_object_get(root, "thinking")) };
	struct prompt *p;
	int r = spec_render(&spec, &j->reply.in_force, &p, why);

	if (r)
		return r;
	r = prompt_tokens(p, j->reply.tokenizer, &j->prompt, why);
	prompt_free(&p);
	j->reply.source = "messages";
	return r;
}

/* Plain text is the prompt as it was rendered, so its control tokens are such. */
static int compare_job_text(struct compare_job *j, const char *text, struct buf *why)
{
	json_t *root = json_loads(text, 0, NULL);
	int r;

	if (json_is_array(root) || json_object_get(root, "messages")) {
		r = compare_job_messages(j, root, why);
	} else {
		r = tokenizer_encode(j->reply.tokenizer, text, strlen(text), true, &j->prompt);
		j->reply.source = "text";
	}
	json_decref(root);
	return r;
}

static int compare_job_prompt(struct compare_job *j, const struct call *c, struct buf *why)
{
	const char *text = call_string(c, "prompt", NULL), *id = call_string(c, "request", NULL);
	int r;

	if (!text == !id)
		return buf_why(why, RC_INVALID, "prompt, request: one of the two is needed");
	r = text ? compare_job_text(j, text, why) : compare_job_request_prompt(j, id, why);
	if (r == 0 && j->prompt.n == 0)
		r = buf_why(why, RC_INVALID, "prompt: empty");
	return r;
}

static int compare_job_number(const struct call *c, const char *name, long long fallback, long long most,
			      int *ret_n, struct buf *why)
{
	long long n = call_int(c, name, fallback);

	if (n < 0 || n > most)
		return buf_why(why, RC_INVALID, "%s: must be within 0 to %lld", name, most);
	*ret_n = (int)n;
	return 0;
}

static int compare_job_fill(struct compare_job *j, const struct call *c, struct buf *why)
{
	const char *b = call_string(c, "b", NULL);
	int r = compare_job_number(c, "tokens", COMPARE_TOKENS, COMPARE_MAX_TOKENS, &j->max_tokens, why);

	r = r ? r : compare_job_number(c, "seconds", COMPARE_SECONDS, COMPARE_MAX_SECONDS, &j->seconds, why);
	if (r == 0 && !b)
		r = buf_why(why, RC_INVALID, "b is missing: the set to hold against a, by default the active one");
	engine_numerics(j->daemon->engine, &j->reply.in_force);
	j->reply.tokenizer = engine_tokenizer(j->daemon->engine);
	r = r ? r : compare_job_prompt(j, c, why);
	r = r ? r : compare_job_side(j, 0, call_string(c, "a", "active"), why);
	return r ? r : compare_job_side(j, 1, b, why);
}

static int compare_job_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	struct compare_job *j = list_entry(w, struct compare_job, warming);
	int r = 0;

	(void)ret_reply;
	for (int side = 0; side < 2 && !r; side++)
		r = warming_set(w, buf_str(&j->side[side].set), why);
	for (int side = 0; side < 2 && !r; side++) {
		r = kernels_resolve(j->daemon, buf_str(&j->side[side].set), &j->set[side], why);
		j->reply.side[side].kset = j->set[side];
	}
	r = r ? r : ops_submit(j->daemon->ops, &j->job, why);
	if (r)
		return r;
	w->call->arg = j;
	w->call->gone = compare_job_gone;
	return WARMING_TAKEN;
}

static void compare_job_end(struct warming *w)
{
	compare_job_free(list_entry(w, struct compare_job, warming));
}

int verb_compare(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct compare_job *j;
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	j = mem_new(sizeof *j);
	j->warming = (struct warming){ .daemon = c->daemon, .call = c, .attempt = compare_job_attempt,
				       .end = compare_job_end };
	j->job.run = compare_job_run;
	j->job.done = compare_job_done;
	j->daemon = c->daemon;
	r = compare_job_fill(j, c, why);
	if (r) {
		compare_job_free(j);
		return r;
	}
	return warming_begin(&j->warming, ret_reply, why);
}
