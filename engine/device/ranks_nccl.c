/* SPDX-License-Identifier: MIT
 * ranks_nccl.c - GPUs that gather by NCCL, and how all of them stop when one does.
 * Threads: as ranks.h, and an ender per rank. Locks: of each rank's communicator and of the end, leaves.
 *
 * A rank that waits for its stream waits for all the others' gathers: when one breaks, the communicators are aborted,
 * which ends their kernels. Both ways to end a communicator wait: for graphs that gather, which the ranks' threads free
 * after that, and for the other ranks. So each is ended by a thread of its own, which has nothing else to do. None of
 * this has run on a GPU. */
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/device/device_list.h"
#include "engine/device/queue_priv.h"
#include "engine/device/ranks_priv.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RANKS_FIRST 256          /* bytes of the first gather */
#define RANKS_BUSY_NS 20000000   /* how long a wait keeps asking before it naps; a decode step is shorter */
#define RANKS_NAP_NS 50000
#define RANKS_ASKS 256           /* of the stream, between two looks at the clock and at NCCL */

/* ---- how they end ---- */

static void *ranks_ender(void *arg)
{
	struct ranks_place *p = arg;
	struct ranks *r = p->ranks;
	enum ranks_ending ending;
	void *comm;

	must_zero(pthread_mutex_lock(&r->end_mutex));
	while (r->ending == RANKS_GO_ON)
		must_zero(pthread_cond_wait(&r->end_told, &r->end_mutex));
	ending = r->ending;
	must_zero(pthread_mutex_unlock(&r->end_mutex));
	must_zero(pthread_mutex_lock(&p->call));
	comm = p->comm;
	p->comm = NULL;
	must_zero(pthread_mutex_unlock(&p->call));
	if (comm)
		(void)(ending == RANKS_ABORT ? r->nccl->abort(comm) : r->nccl->destroy(comm));
	return NULL;
}

/* Signals are the main thread's. */
static int ranks_thread(pthread_t *t, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = -pthread_create(t, NULL, run, arg);
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	return rc;
}

static int ranks_start_enders(struct ranks *r)
{
	int rc = 0;

	while (r->n_ender < r->n && rc == 0) {
		rc = ranks_thread(&r->place[r->n_ender].ender, ranks_ender, &r->place[r->n_ender]);
		r->n_ender += rc == 0;
	}
	return rc;
}

static void ranks_end_nccl(struct ranks *r, enum ranks_ending how)
{
	if (r->ending == RANKS_GO_ON)
		r->ending = how;
	must_zero(pthread_cond_broadcast(&r->end_told));
}

void ranks_break(struct ranks *r, int rank, const char *why)
{
	must_zero(pthread_mutex_lock(&r->end_mutex));
	if (r->broken < 0) {
		r->broken = rank;
		snprintf(r->broken_why, sizeof r->broken_why, "%s", why);
		for (int i = 0; i < r->n; i++)
			atomic_store(&r->place[i].device->broken, true);
		ranks_end_nccl(r, RANKS_ABORT);
	}
	must_zero(pthread_mutex_unlock(&r->end_mutex));
}

bool ranks_blame(struct ranks *r, int rank, struct buf *why)
{
	bool own;

	must_zero(pthread_mutex_lock(&r->end_mutex));
	own = r->broken < 0 || r->broken == rank;
	buf_adds(why, r->broken_why);
	must_zero(pthread_mutex_unlock(&r->end_mutex));
	return own;
}

void ranks_nccl_close(struct ranks *r)
{
	for (int i = 0; i < r->n_ender; i++) {
		const struct device *d = r->place[i].device;

		must(!d || atomic_load(&d->queues) == (d->loader != NULL)); /* NCCL would wait for ever for graphs that
									     * are left */
	}
	must_zero(pthread_mutex_lock(&r->end_mutex));
	ranks_end_nccl(r, RANKS_DESTROY);
	must_zero(pthread_mutex_unlock(&r->end_mutex));
	while (r->n_ender > 0)
		must_zero(pthread_join(r->place[--r->n_ender].ender, NULL));
}

/* ---- gathering ---- */

static void ranks_nccl_broke(struct ranks_place *p, int rc, struct buf *words)
{
	(void)buf_why(words, 0, "%s: NCCL: %s", p->device->name, p->ranks->nccl->error_text(rc));
	device_break(p->device, buf_str(words));
}

/* Whatever the GPU does not recover from, NCCL calls a CUDA error; the driver tells more. */
static void ranks_nccl_failed(struct ranks_place *p, struct queue *q, int rc)
{
	struct buf words = { 0 };
	size_t free_bytes, total;

	queue_result(q, p->device->cu->mem_info(&free_bytes, &total), "the GPU's work");
	if (!device_broken(p->device)) {
		ranks_nccl_broke(p, rc, &words);
		queue_fail(q, RC_DEVICE, buf_str(&words));
	}
	buf_fini(&words);
}

void ranks_nccl_gather(struct ranks *r, int rank, struct queue *q, void *dst, const void *src, size_t bytes)
{
	struct ranks_place *p = &r->place[rank];
	struct buf words = { 0 };
	int rc = NCCL_OK;
	bool over;

	must(q->device == p->device);
	queue_begin(q);
	must_zero(pthread_mutex_lock(&p->call));
	over = p->comm == NULL;
	if (!over)
		rc = r->nccl->all_gather(src, dst, bytes, NCCL_BYTE, p->comm, q->stream);
	must_zero(pthread_mutex_unlock(&p->call));
	if (rc && !over)
		ranks_nccl_failed(p, q, rc);
	if ((over || rc) && !q->failed) {
		(void)device_lost(p->device, &words);
		queue_fail(q, RC_DEVICE, buf_str(&words));
	}
	buf_fini(&words);
}

/* ---- waiting ---- */

/* Has NCCL met an error that only its own threads saw? */
static void ranks_look(struct ranks_place *p)
{
	struct buf words = { 0 };
	int rc = NCCL_OK;

	must_zero(pthread_mutex_lock(&p->call));
	if (p->comm && p->ranks->nccl->async_error(p->comm, &rc) != NCCL_OK)
		rc = NCCL_OK; /* says nothing of the gathers */
	must_zero(pthread_mutex_unlock(&p->call));
	if (rc != NCCL_OK && rc != NCCL_IN_PROGRESS)
		ranks_nccl_broke(p, rc, &words);
	buf_fini(&words);
}

int ranks_wait(struct device *d, void *stream)
{
	static const struct timespec nap = { .tv_nsec = RANKS_NAP_NS };
	long long begun = clock_ns();

	for (unsigned asked = 1;; asked++) {
		int rc = d->cu->stream_query(stream);

		if (rc != CUDA_NOT_READY) /* what is aborted ends, too */
			return rc;
		if (asked % RANKS_ASKS) {
			(void)sched_yield();
			continue;
		}
		ranks_look(&d->ranks->place[d->rank]);
		if (clock_ns() - begun > RANKS_BUSY_NS)
			(void)nanosleep(&nap, NULL);
	}
}

/* ---- opening ---- */

static int ranks_nccl_init(struct ranks *r, struct buf *why)
{
	void *comm[DEVICE_LIST_MAX] = { 0 };
	int device[DEVICE_LIST_MAX], rc;

	for (int i = 0; i < r->n; i++)
		device[i] = r->place[i].device->ordinal;
	rc = r->nccl->init_all(comm, r->n, device);
	device_leave();
	if (rc)
		return buf_why(why, RC_UNAVAILABLE, "%s and %d more: NCCL: %s", r->place[0].device->name, r->n - 1,
			       r->nccl->error_text(rc));
	for (int i = 0; i < r->n; i++) {
		r->place[i].comm = comm[i];
		r->place[i].device->ranks = r;
		r->place[i].device->rank = i;
	}
	return 0;
}

/* One gather of all, queued by this thread alone. */
static int ranks_nccl_queue(struct ranks *r, struct queue **q, char **memory, struct buf *why)
{
	int rc = 0;

	for (int i = 0; i < r->n && rc == 0; i++) {
		q[i] = queue_new(r->place[i].device, why);
		memory[i] = device_alloc(r->place[i].device, (size_t)r->n + 1, RANKS_FIRST);
		if (!q[i] || !memory[i])
			rc = q[i] ? buf_why(why, -ENOMEM, "%s: no memory for what is gathered",
					    r->place[i].device->name) : RC_DEVICE;
	}
	if (rc)
		return rc;
	(void)r->nccl->group_begin();
	for (int i = 0; i < r->n; i++)
		ranks_nccl_gather(r, i, q[i], memory[i] + RANKS_FIRST, memory[i], RANKS_FIRST);
	rc = r->nccl->group_end();
	device_leave();
	if (rc)
		ranks_nccl_broke(&r->place[0], rc, why);
	return rc ? RC_DEVICE : 0;
}

/* It connects the GPUs: what does not work is told here, and later calls wait for nobody. */
static int ranks_nccl_first(struct ranks *r, struct buf *why)
{
	struct queue *q[DEVICE_LIST_MAX] = { 0 };
	char *memory[DEVICE_LIST_MAX] = { 0 };
	int rc = ranks_nccl_queue(r, q, memory, why);

	for (int i = 0; i < r->n; i++) {
		int one = q[i] ? queue_sync(q[i], rc ? NULL : why) : 0;

		rc = rc ? rc : one;
	}
	for (int i = 0; i < r->n; i++) {
		queue_free(&q[i]);
		device_free(r->place[i].device, memory[i]);
	}
	return rc ? RC_UNAVAILABLE : 0;
}

static void *ranks_connector(void *arg)
{
	struct ranks *r = arg;
	int rc = ranks_nccl_init(r, &r->connect_why);

	rc = rc ? rc : ranks_nccl_first(r, &r->connect_why);
	lock_take(&r->lock);
	r->connect_rc = rc;
	r->connected = true;
	must_zero(pthread_cond_broadcast(&r->all_here));
	lock_drop(&r->lock);
	return NULL;
}

static atomic_bool ranks_any_hung;

bool ranks_hung(void)
{
	return atomic_load(&ranks_any_hung);
}

/* NCCL waits for a peer as long as it takes, and does not let go. */
static bool ranks_connected(struct ranks *r, int seconds)
{
	long long end = clock_ms() + seconds * 1000LL, now;
	bool in_time;

	lock_take(&r->lock);
	while (!r->connected && (now = clock_ms()) < end)
		(void)lock_wait(&r->lock, &r->all_here, (long)(end - now));
	in_time = r->connected;
	r->hung = !in_time;
	lock_drop(&r->lock);
	return in_time;
}

static int ranks_connect(struct ranks *r, int seconds, struct buf *why)
{
	pthread_t t;
	int rc = ranks_thread(&t, ranks_connector, r);

	if (rc)
		return buf_why(why, rc, "no thread for NCCL");
	if (!ranks_connected(r, seconds)) {
		must_zero(pthread_detach(t));
		atomic_store(&ranks_any_hung, true);
		return buf_why(why, RC_UNAVAILABLE, "%s and %d more: NCCL has not connected them within %d s",
			       r->place[0].device->name, r->n - 1, seconds);
	}
	must_zero(pthread_join(t, NULL));
	return r->connect_rc ? buf_why(why, r->connect_rc, "%s", buf_str(&r->connect_why)) : 0;
}

int ranks_nccl_open(struct ranks *r, int seconds, struct buf *why)
{
	int rc = nccl_library(&r->nccl, why);

	if (rc)
		return rc;
	rc = ranks_start_enders(r);
	if (rc)
		return buf_why(why, rc, "no threads for NCCL");
	rc = ranks_connect(r, seconds, why);
	for (int i = 0; i < r->n && rc == 0; i++)
		rc = device_measure(r->place[i].device, why); /* NCCL has taken memory of its own */
	return rc;
}
