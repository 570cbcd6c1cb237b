/* SPDX-License-Identifier: MIT
 * engine_thread.c - the engine thread: takes in requests, lets them go, makes step after step of those that run.
 * Threads: engine. Lock: engine, never while computing. */
#include "engine/base/altstack.h"
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"

#include <errno.h>

static bool engine_has_work(const struct engine *e)
{
	list_each(t, &e->sched.running, struct sched_task, link)
		if (!t->paused)
			return true;
	return false;
}

static void engine_sooner(long long *at, long long t)
{
	if (t && (!*at || t < *at))
		*at = t;
}

/* How long to sleep at most, in milliseconds, until a deadline passes; -1: for ever. */
static long engine_patience(const struct engine *e)
{
	const struct list *queue[] = { &e->sched.running, &e->sched.waiting };
	long long at = 0, now = clock_ns();

	for (int i = 0; i < 2; i++)
		list_each(t, queue[i], struct sched_task, link) {
			engine_sooner(&at, request_of(t)->deadline_ns);
			engine_sooner(&at, t->held ? request_of(t)->cache.wait_until : 0);
		}
	return !at ? -1 : at <= now ? 0 : (long)((at - now) / 1000000) + 1;
}

/* Moves what was submitted to the scheduler, waiting when there is nothing to do. False when closing. */
static bool engine_collect(struct engine *e)
{
	bool work = engine_has_work(e), go;
	long patience = work ? 0 : engine_patience(e);
	struct list got;

	list_init(&got);
	atomic_store(&e->busy, work);
	lock_take(&e->lock);
	while (!work && !e->stopping && !e->woken && list_empty(&e->incoming))
		if (lock_wait(&e->lock, &e->cond, patience))
			break;
	e->woken = false;
	go = !e->stopping;
	e->sched.pace.gap = e->count.pace.gap;
	while (!list_empty(&e->incoming)) {
		struct list *node = e->incoming.next;

		list_del(node);
		list_put(&got, node);
	}
	lock_drop(&e->lock);
	if (!work)
		atomic_store(&e->step_end_ns, clock_ns());
	atomic_store(&e->busy, true);
	while (!list_empty(&got)) {
		struct sched_task *t = list_entry(got.next, struct sched_task, link);

		list_del(&t->link);
		scheduler_put(&e->sched, t);
	}
	return go;
}

/* Admits in order of arrival while there are places and memory for each to the end of its answer. A request
 * that does not fit even alone was refused when it was submitted. */
static void engine_admit(struct engine *e)
{
	struct sched_task *t;

	while ((t = scheduler_next(&e->sched))) {
		struct request *r = request_of(t);
		int rc;

		if (!engine_memory_take(e, r->need))
			return;
		rc = request_admit(r);
		if (rc)
			engine_memory_give(e, r->need);
		if (rc == -ENOMEM && e->sched.n_running > 0)
			return;
		if (rc) {
			engine_end_failed(e, r, rc, "no memory for the sequence");
			continue;
		}
		scheduler_admit(&e->sched, t);
		lock_take(&e->lock);
		e->count.queued--;
		e->count.running++;
		e->count.prompt_tokens += (uint64_t)r->n_prompt;
		e->count.cached_tokens += (uint64_t)r->usage.cached_tokens;
		lock_drop(&e->lock);
		tally_admitted(&e->tally, clock_since(r->submitted_ns), r->task.left, r->cache.find.miss);
	}
}

static void engine_reap(struct engine *e, struct list *queue)
{
	struct list *at, *next;

	for (at = queue->next; at != queue; at = next) {
		struct request *r = request_of(list_entry(at, struct sched_task, link));

		next = at->next;
		if (engine_end_due(e, r))
			continue;
		r->task.paused = generation_backlogged(r->gen);
		request_cache_poll(r);
	}
}

/* why_failed is only written by this thread, so it needs no lock to read it. */
static void engine_fail_all(struct engine *e, struct list *queue)
{
	while (!list_empty(queue))
		engine_end_failed(e, request_of(list_entry(queue->next, struct sched_task, link)), e->broken_rc,
				    e->count.why_failed);
}

static void engine_stop_all(struct engine *e, struct list *queue)
{
	list_each(t, queue, struct sched_task, link)
		generation_stop(request_of(t)->gen, RC_DRAINING);
	engine_reap(e, queue);
}

void *engine_thread_main(void *arg)
{
	struct engine *e = arg;

	altstack_use();
	pool_hot(e->pool, e->pin);
	while (engine_collect(e)) {
		engine_repin(e);
		engine_reap(e, &e->sched.running);
		engine_reap(e, &e->sched.waiting);
		if (!e->broken) {
			engine_admit(e);
			engine_step(e);
		}
		if (e->broken) {
			engine_fail_all(e, &e->sched.running);
			engine_fail_all(e, &e->sched.waiting);
		}
	}
	engine_stop_all(e, &e->sched.running);
	engine_stop_all(e, &e->sched.waiting);
	return NULL;
}
