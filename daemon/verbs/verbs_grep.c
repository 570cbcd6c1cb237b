/* SPDX-License-Identifier: MIT
 * verbs_grep.c - io.dsv4.Engine.RequestGrep: a regular expression over what the request ring keeps, on the ops thread.
 * Threads: control; grep_job_run() on ops. Locks: none (ops.h hands everything over; the records have their own). */
#include "daemon/daemon.h"
#include "daemon/verbs/grep.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define GREP_RECORDS 4096
#define GREP_DEFAULT 100
#define GREP_MAX 1000
#define GREP_SECONDS 20

enum grep_where { GREP_PROMPT, GREP_OUTPUT, GREP_MESSAGES, GREP_N_WHERE };
static const char *const grep_names[] = { "prompt", "output", "messages" };

/* The control thread fills it, ops runs it, control answers. */
struct grep_job {
	struct ops_job job;
	struct call *call;         /* control's alone; NULL once the peer is gone */
	struct grep *grep;
	const char *only;          /* one of grep_names, or NULL */
	int max, n;
	struct record *rec[GREP_RECORDS];
	long long deadline_ms;
	bool late;
	/* What was found. */
	json_t *found;
	int looked, left_out;
	long long lines, unread;
};

static void grep_job_free(struct grep_job *j)
{
	for (int i = 0; i < j->n; i++)
		record_unref(&j->rec[i]);
	grep_free(&j->grep);
	json_decref(j->found);
	free(j);
}

/* ---- on the ops thread ---- */

static bool grep_job_stop(void *arg)
{
	struct grep_job *j = arg;

	j->late = j->late || clock_ms() > j->deadline_ms;
	return j->late || atomic_load(&j->job.cancel);
}

/* Every text in it, as it was before it was JSON; not what says whose it is, and what kind of text. */
static void grep_job_json(struct grep_job *j, json_t *v, struct grep_found *f)
{
	const char *key;
	json_t *e;
	size_t i;

	if (json_is_string(v))
		grep_text(j->grep, json_string_value(v), json_string_length(v), grep_job_stop, j, f);
	json_array_foreach(v, i, e)
		grep_job_json(j, e, f);
	json_object_foreach(v, key, e)
		if (strcmp(key, "role") != 0 && strcmp(key, "type") != 0)
			grep_job_json(j, e, f);
}

static void grep_job_text(struct grep_job *j, struct record *rec, enum grep_where where, struct grep_found *f)
{
	static void (*const get[])(struct record *, struct buf *) = { record_prompt, record_output, record_messages };
	struct buf text = { 0 };
	json_t *root;

	get[where](rec, &text);
	if (where == GREP_MESSAGES && text.len) {
		root = json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL);
		grep_job_json(j, root, f);
		json_decref(root);
	} else {
		grep_text(j->grep, buf_str(&text), text.len, grep_job_stop, j, f);
	}
	buf_fini(&text);
}

static void grep_job_tell(struct grep_job *j, struct record *rec, enum grep_where where, const struct grep_found *f)
{
	struct record_view v;

	j->lines += f->lines;
	j->unread += f->unread;
	if (!f->lines)
		return;
	if ((int)json_array_size(j->found) == j->max) {
		j->left_out++;
		return;
	}
	record_view(rec, &v);
	json_array_append_new(j->found, json_pack("{s:o, s:o, s:s, s:f, s:I, s:I, s:o}", "id",
						  varlink_string(v.id, strlen(v.id)), "label",
						  varlink_string(v.label, strlen(v.label)), "where", grep_names[where],
						  "submit", v.t_submit, "lines", (json_int_t)f->lines, "line",
						  (json_int_t)f->first, "text",
						  varlink_string(buf_str(&f->excerpt), f->excerpt.len)));
}

static void grep_job_run(struct ops_job *job)
{
	struct grep_job *j = list_entry(job, struct grep_job, job);

	j->deadline_ms = clock_ms() + GREP_SECONDS * 1000LL;
	for (int i = 0; i < j->n && !grep_job_stop(j); i++, j->looked++)
		for (int w = 0; w < GREP_N_WHERE; w++) {
			struct grep_found f = { 0 };

			if (j->only && strcmp(j->only, grep_names[w]) != 0)
				continue;
			grep_job_text(j, j->rec[i], (enum grep_where)w, &f);
			grep_job_tell(j, j->rec[i], (enum grep_where)w, &f);
			grep_found_fini(&f);
		}
}

/* ---- on the control thread ---- */

static void grep_job_done(struct ops_job *job)
{
	struct grep_job *j = list_entry(job, struct grep_job, job);

	if (j->call)
		call_reply(&j->call, json_pack("{s:i, s:i, s:b, s:I, s:I, s:i, s:O}", "requests", j->n, "looked_at",
					       j->looked, "stopped", j->late, "lines", (json_int_t)j->lines, "unread",
					       (json_int_t)j->unread, "left_out", j->left_out, "found", j->found));
	grep_job_free(j);
}

static void grep_job_gone(struct call *c)
{
	struct grep_job *j = c->arg;

	j->call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

static int grep_job_fill(struct grep_job *j, struct call *c, struct buf *why)
{
	long long max = call_int(c, "max", GREP_DEFAULT);
	int r = 0;

	if (max < 1 || max > GREP_MAX)
		return buf_why(why, RC_INVALID, "max: must be within 1 to %d", GREP_MAX);
	j->max = (int)max;
	j->only = call_string(c, "in", NULL);
	for (int w = 0; w < GREP_N_WHERE && j->only; w++)
		if (!strcmp(j->only, grep_names[w]))
			j->only = grep_names[w]; /* the call's own may be gone before the job is */
	r = grep_new(call_string(c, "regex", ""), call_flag(c, "ignore_case"), &j->grep, why);
	if (r == 0)
		j->n = engine_records(c->daemon->engine, j->rec, GREP_RECORDS);
	return r;
}

int verb_request_grep(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct grep_job *j;
	int r = daemon_need_engine(c->daemon, why);

	(void)ret_reply;
	if (r)
		return r;
	j = mem_new(sizeof *j);
	j->job.run = grep_job_run;
	j->job.done = grep_job_done;
	j->found = json_array();
	r = grep_job_fill(j, c, why);
	r = r ? r : ops_submit(c->daemon->ops, &j->job, why);
	if (r) {
		grep_job_free(j);
		return r;
	}
	j->call = c;
	c->arg = j;
	c->gone = grep_job_gone;
	return CALL_LATER;
}
