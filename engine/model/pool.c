/* SPDX-License-Identifier: MIT
 * pool.c - persistent worker threads, and the host table that ops run on.
 * Threads: one caller at a time drives a pool; its workers run slices. Lock: pool, never during a slice. */
#include "engine/model/pool.h"
#include "engine/base/altstack.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define POOL_SCRATCH_CHUNK ((size_t)1 << 20)
#define POOL_ALIGN 64

/* Scratch memory comes from a chain of chunks; after an op that needed several, one of the full size replaces
 * them, so that steady work allocates nothing. */
struct pool_chunk {
	struct pool_chunk *next;
	char *data;
	size_t size, used;
};

struct dsv4_exec {
	struct pool *pool;
	struct pool_chunk *chunk; /* newest first */
	size_t held;
	bool in_loop;
};

/* One parallel_for; workers take slices by an atomic counter. */
struct pool_job {
	dsv4_slice_f *fn;
	void *arg;
	int64_t n, grain;
};

struct pool {
	struct lock lock;
	pthread_cond_t wake, done;
	struct pool_job job;      /* under the lock while being replaced; read by workers after they joined */
	uint64_t job_no;          /* rises with every job */
	int joined;               /* workers inside the job */
	bool open;                /* may workers still join it? */
	bool stop;
	_Atomic int64_t next;
	int n_thread, n_started;
	pthread_t *thread;
	struct dsv4_exec exec;
	struct running running;
};

/* ---- parallel_for ---- */

static void pool_slices(struct pool *p, const struct pool_job *j)
{
	for (;;) {
		int64_t begin = atomic_fetch_add_explicit(&p->next, j->grain, memory_order_relaxed);

		if (begin >= j->n)
			return;
		j->fn(j->arg, begin, j->n - begin < j->grain ? j->n : begin + j->grain);
	}
}

static void *pool_worker(void *arg)
{
	struct pool *p = arg;
	uint64_t seen = 0;
	struct pool_job job;

	altstack_use();
	running_here(&p->running);
	lock_take(&p->lock);
	while (!p->stop) {
		if (!p->open || p->job_no == seen) {
			lock_wait(&p->lock, &p->wake, -1);
			continue;
		}
		seen = p->job_no;
		job = p->job;
		p->joined++;
		lock_drop(&p->lock);
		pool_slices(p, &job);
		lock_take(&p->lock);
		if (--p->joined == 0)
			must_zero(pthread_cond_signal(&p->done));
	}
	lock_drop(&p->lock);
	return NULL;
}

static void pool_open_job(struct pool *p, const struct pool_job *job)
{
	lock_take(&p->lock);
	p->job = *job;
	p->job_no++;
	p->open = true;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	must_zero(pthread_cond_broadcast(&p->wake));
	lock_drop(&p->lock);
}

/* No slice is left to take, so workers that have not joined need not; those inside finish theirs. */
static void pool_close_job(struct pool *p)
{
	lock_take(&p->lock);
	p->open = false;
	while (p->joined > 0)
		lock_wait(&p->lock, &p->done, -1);
	lock_drop(&p->lock);
}

void pool_parallel_for(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	struct pool *p = x->pool;
	struct pool_job job = { fn, arg, n, grain > 0 ? grain : 1 };

	must(!x->in_loop);
	if (n <= 0)
		return;
	x->in_loop = true;
	if (n <= job.grain || p->n_thread == 1) {
		fn(arg, 0, n);
	} else {
		pool_open_job(p, &job);
		pool_slices(p, &job);
		pool_close_job(p);
	}
	x->in_loop = false;
}

/* ---- scratch ---- */

static struct pool_chunk *pool_chunk_add(struct dsv4_exec *x, size_t size)
{
	char *data = mem_try(size, 1);
	struct pool_chunk *c;

	if (!data)
		return NULL;
	c = mem_new(sizeof *c);
	*c = (struct pool_chunk){ x->chunk, data, size, 0 };
	x->chunk = c;
	x->held += size;
	return c;
}

static void pool_chunks_free(struct dsv4_exec *x)
{
	while (x->chunk) {
		struct pool_chunk *c = x->chunk;

		x->chunk = c->next;
		free(c->data);
		free(c);
	}
	x->held = 0;
}

void *pool_scratch(struct dsv4_exec *x, size_t bytes)
{
	struct pool_chunk *c = x->chunk;
	void *p;

	must(!x->in_loop);
	if (bytes > SIZE_MAX / 4)
		return NULL;
	bytes = (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
	if (!c || c->size - c->used < bytes)
		c = pool_chunk_add(x, bytes > POOL_SCRATCH_CHUNK ? bytes : POOL_SCRATCH_CHUNK);
	if (!c)
		return NULL;
	p = c->data + c->used;
	c->used += bytes;
	return p;
}

void pool_scratch_reset(struct pool *p)
{
	struct dsv4_exec *x = &p->exec;
	size_t held = x->held;

	if (x->chunk && x->chunk->next) {
		pool_chunks_free(x);
		(void)pool_chunk_add(x, held); /* short of memory: the next op asks again */
	}
	if (x->chunk)
		x->chunk->used = 0;
}

size_t pool_scratch_bytes(const struct pool *p)
{
	return p->exec.held;
}

/* ---- life ---- */

static int pool_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return CPU_COUNT(&set);
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Signals belong to the main thread: workers start with all of them blocked, but for those that are their own doing:
 * blocked, they would end the process before any handler is told. */
static int pool_start(struct pool *p)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	sigset_t all, old;
	int rc = 0;

	sigfillset(&all);
	for (size_t i = 0; i < mem_countof(own); i++)
		sigdelset(&all, own[i]);
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	while (p->n_started < p->n_thread - 1 && rc == 0) {
		rc = pthread_create(&p->thread[p->n_started], NULL, pool_worker, p);
		if (rc == 0)
			p->n_started++;
	}
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	return -rc;
}

int pool_new(int n_threads, struct pool **ret_p)
{
	struct pool *p = mem_new(sizeof *p);
	int rc;

	if (n_threads <= 0)
		n_threads = pool_cpus();
	p->n_thread = n_threads < 1 ? 1 : n_threads > POOL_MAX_THREADS ? POOL_MAX_THREADS : n_threads;
	p->thread = mem_new((size_t)p->n_thread * sizeof *p->thread);
	p->exec.pool = p;
	lock_init(&p->lock, "pool");
	lock_cond_init(&p->wake);
	lock_cond_init(&p->done);
	rc = pool_start(p);
	if (rc < 0)
		pool_free(&p);
	else
		*ret_p = p;
	return rc;
}

void pool_free(struct pool **pp)
{
	struct pool *p = *pp;

	*pp = NULL;
	if (!p)
		return;
	lock_take(&p->lock);
	p->stop = true;
	must_zero(pthread_cond_broadcast(&p->wake));
	lock_drop(&p->lock);
	for (int i = 0; i < p->n_started; i++)
		must_zero(pthread_join(p->thread[i], NULL));
	pool_chunks_free(&p->exec);
	must_zero(pthread_cond_destroy(&p->wake));
	must_zero(pthread_cond_destroy(&p->done));
	lock_fini(&p->lock);
	free(p->thread);
	free(p);
}

int pool_threads(const struct pool *p)
{
	return p->n_thread;
}

struct dsv4_exec *pool_exec(struct pool *p)
{
	return &p->exec;
}

struct running *pool_running(struct pool *p)
{
	return &p->running;
}

int pool_n_threads(struct dsv4_exec *x)
{
	return x->pool->n_thread;
}
