/* SPDX-License-Identifier: MIT
 * cache_job.c - slow work on the prefix cache for one call: on the ops thread, with progress, until the caller leaves.
 * Threads: control; cache_job_run() and what run() calls on ops. Locks: none (ops.h hands over). */
#include "daemon/verbs/cache_job.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

#define CACHE_JOB_NOTE_MS 100 /* between two notes of progress */

struct cache_job_note {
	struct ops_note note;
	struct cache_job *job;
	const char *op;
	long long done, total;
};

/* ---- on the ops thread ---- */

static void cache_job_run(struct ops_job *job)
{
	struct cache_job *j = list_entry(job, struct cache_job, job);

	j->rc = cache_job_cancelled(j) ? RC_CANCELLED : j->run(j);
}

bool cache_job_cancelled(const struct cache_job *j)
{
	return atomic_load(&j->job.cancel);
}

void cache_job_set(struct cache_job *j, const char *key, json_t *value)
{
	must(value && json_object_set_new(j->reply, key, value) == 0);
}

static void cache_job_deliver(struct ops_note *n)
{
	struct cache_job_note *p = list_entry(n, struct cache_job_note, note);

	if (p->job->call)
		call_progress(p->job->call, json_pack("{s:{s:s, s:I, s:I}}", "progress", "op", p->op, "done",
						      (json_int_t)p->done, "total", (json_int_t)p->total));
	free(p);
}

void cache_job_progress(struct cache_job *j, const char *op, int64_t done, int64_t total)
{
	struct cache_job_note *n;

	if (done > 0 && done < total && clock_ms() - j->noted < CACHE_JOB_NOTE_MS)
		return;
	j->noted = clock_ms();
	n = mem_new(sizeof *n);
	*n = (struct cache_job_note){ .note.fn = cache_job_deliver, .job = j, .op = op, .done = done, .total = total };
	ops_post(j->daemon->ops, &n->note);
}

/* ---- on the control thread ---- */

static void cache_job_done(struct ops_job *job)
{
	struct cache_job *j = list_entry(job, struct cache_job, job);

	if (j->call && j->rc)
		call_fail(&j->call, j->rc, buf_str(&j->why));
	else if (j->call)
		call_reply(&j->call, json_incref(j->reply));
	cache_job_free(&j);
}

static void cache_job_gone(struct call *c)
{
	struct cache_job *j = c->arg;

	j->call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

int cache_job_new(struct call *c, int (*run)(struct cache_job *j), struct cache_job **ret_j, struct buf *why)
{
	struct cache_job *j;
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	j = mem_new(sizeof *j);
	j->job.run = cache_job_run;
	j->job.done = cache_job_done;
	j->daemon = c->daemon;
	j->run = run;
	j->cache = engine_cache(c->daemon->engine);
	j->reply = json_object();
	*ret_j = j;
	return 0;
}

void cache_job_free(struct cache_job **pj)
{
	struct cache_job *j = *pj;

	*pj = NULL;
	cache_copy_fini(&j->a);
	cache_copy_fini(&j->b);
	json_decref(j->reply);
	buf_fini(&j->why);
	free(j);
}

int cache_job_submit(struct cache_job **pj, struct call *c, struct buf *why)
{
	struct cache_job *j = *pj;
	int r = ops_submit(c->daemon->ops, &j->job, why);

	*pj = NULL;
	if (r) {
		cache_job_free(&j);
		return r;
	}
	j->call = c;
	c->arg = j;
	c->gone = cache_job_gone;
	return CALL_LATER;
}
