/* SPDX-License-Identifier: MIT
 * ops.c - the ops thread: one slow job at a time, off the control thread.
 * Threads: control submits and gets the results; ops runs. Lock: ops. */
#include "daemon/ops.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define OPS_NICE 10 /* checks and benches leave the CPUs to requests */

struct ops {
	struct lock lock;          /* guards all below but source */
	pthread_cond_t wake;
	struct list queue;         /* of ops_job, waiting */
	struct list notes;         /* of ops_note, for the control thread; finished jobs come as notes too */
	struct ops_job *running;
	int n_queued;
	bool quit;
	pid_t tid;                 /* of the thread; 0 until it runs */
	struct loop *loop;
	struct loop_source source; /* an eventfd */
	pthread_t thread;
};

/* A finished job on its way back. */
struct ops_end {
	struct ops_note note;
	struct ops_job *job;
};

static void ops_ended(struct ops_note *n)
{
	struct ops_end *e = list_entry(n, struct ops_end, note);

	e->job->done(e->job);
	free(e);
}

void ops_post(struct ops *o, struct ops_note *n)
{
	uint64_t one = 1;

	lock_take(&o->lock);
	list_put(&o->notes, &n->node);
	lock_drop(&o->lock);
	must(write(o->source.fd, &one, sizeof one) == sizeof one || errno == EAGAIN);
}

static void *ops_main(void *arg)
{
	struct ops *o = arg;

	lock_take(&o->lock);
	o->tid = gettid();
	while (!o->quit || !list_empty(&o->queue)) {
		struct ops_job *j;
		struct ops_end *e;

		if (list_empty(&o->queue)) {
			lock_wait(&o->lock, &o->wake, -1);
			continue;
		}
		j = list_entry(o->queue.next, struct ops_job, node);
		list_del(&j->node);
		o->n_queued--;
		o->running = j;
		lock_drop(&o->lock);
		j->run(j);
		e = mem_new(sizeof *e);
		*e = (struct ops_end){ .note.fn = ops_ended, .job = j };
		lock_take(&o->lock);
		o->running = NULL;
		lock_drop(&o->lock);
		ops_post(o, &e->note);
		lock_take(&o->lock);
	}
	lock_drop(&o->lock);
	return NULL;
}

/* Runs what has been posted by now; false when there was nothing. What comes meanwhile waits for the next time: else
 * those who ask over HTTP could keep the control thread from everything else. */
static bool ops_deliver_once(struct ops *o)
{
	struct list notes;

	list_init(&notes);
	lock_take(&o->lock);
	while (!list_empty(&o->notes)) {
		struct list *node = o->notes.next;

		list_del(node);
		list_put(&notes, node);
	}
	lock_drop(&o->lock);
	if (list_empty(&notes))
		return false;
	while (!list_empty(&notes)) {
		struct ops_note *note = list_entry(notes.next, struct ops_note, node);

		list_del(&note->node);
		note->fn(note);
	}
	return true;
}

/* A post after this read makes the descriptor readable again. */
static void ops_deliver(void *arg, uint32_t events)
{
	struct ops *o = arg;
	uint64_t n;

	(void)events;
	must(read(o->source.fd, &n, sizeof n) == sizeof n || errno == EAGAIN);
	ops_deliver_once(o);
}

int ops_open(struct ops **ret_o, struct loop *l)
{
	struct ops *o = mem_new(sizeof *o);
	int r;

	lock_init(&o->lock, "ops");
	lock_cond_init(&o->wake);
	list_init(&o->queue);
	list_init(&o->notes);
	o->loop = l;
	o->source = (struct loop_source){ eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), ops_deliver, o };
	r = o->source.fd < 0 ? -errno : loop_add(l, &o->source, EPOLLIN);
	r = r ? r : -pthread_create(&o->thread, NULL, ops_main, o);
	if (r) {
		if (o->source.fd >= 0)
			close(o->source.fd);
		lock_fini(&o->lock);
		free(o);
		return r;
	}
	*ret_o = o;
	return 0;
}

/* Under the lock. */
static void ops_give_way(struct ops *o)
{
	if (o->running && o->running->yields)
		atomic_store(&o->running->cancel, true);
	list_each(j, &o->queue, struct ops_job, node)
		if (j->yields)
			atomic_store(&j->cancel, true);
}

int ops_submit(struct ops *o, struct ops_job *j, struct buf *why)
{
	int r = 0;

	lock_take(&o->lock);
	if (o->quit || o->n_queued >= OPS_MAX_QUEUED) {
		r = RC_BUSY;
	} else {
		if (!j->patient && !j->yields)
			ops_give_way(o);
		list_put(&o->queue, &j->node);
		o->n_queued++;
		must_zero(pthread_cond_signal(&o->wake));
	}
	lock_drop(&o->lock);
	return r ? buf_why(why, r, "too many slow jobs are waiting") : 0;
}

bool ops_busy(struct ops *o)
{
	bool busy;

	lock_take(&o->lock);
	busy = o->running || o->n_queued > 0;
	lock_drop(&o->lock);
	return busy;
}

void ops_yield(struct ops *o)
{
	pid_t tid;

	lock_take(&o->lock);
	tid = o->tid;
	lock_drop(&o->lock);
	must(tid > 0);
	/* Linux: a thread's own; 0 would be the caller's. Being refused costs speed, nothing else. */
	if (setpriority(PRIO_PROCESS, (id_t)tid, OPS_NICE))
		log_event(LOG_LV_WARN, "ops_nice", "error=%s", LOGQ(strerror(errno)));
}

void ops_stop(struct ops *o)
{
	lock_take(&o->lock);
	o->quit = true;
	if (o->running)
		atomic_store(&o->running->cancel, true);
	list_each(j, &o->queue, struct ops_job, node)
		atomic_store(&j->cancel, true);
	must_zero(pthread_cond_signal(&o->wake));
	lock_drop(&o->lock);
	must_zero(pthread_join(o->thread, NULL));
	ops_deliver_once(o); /* the ends of all jobs are among them */
}

void ops_close(struct ops **op)
{
	struct ops *o = *op;

	if (!o)
		return;
	while (ops_deliver_once(o))
		;
	loop_del(o->loop, &o->source);
	close(o->source.fd);
	must_zero(pthread_cond_destroy(&o->wake));
	lock_fini(&o->lock);
	free(o);
	*op = NULL;
}
