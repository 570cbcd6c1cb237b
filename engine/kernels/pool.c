/* SPDX-License-Identifier: MIT
 * pool.c - persistent worker threads, and the host table that ops run on.
 * Threads: one caller at a time drives a pool; its workers run slices. Locks: none (atomics and futexes).
 *
 * A job is opened for whoever comes: workers join it, take slices by an atomic counter and leave. The caller takes
 * slices too, and waits only for those that joined: a worker that does not get to run holds nobody up. Between jobs
 * the workers of a hot pool watch for the next one a while, as waking a sleeping thread takes longer than most ops.
 * Who was taken off its CPU knows that somebody else wants it, and sleeps at once for some time: on a CPU that falls
 * idle the kernel goes on with whoever was taken off another, so that the pool gets its share (tests/bench/bench_pool
 * beside a busy process: 1.2 times slower, if everybody goes on watching 1.8). */
#include "engine/kernels/pool.h"
#include "engine/base/altstack.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POOL_SCRATCH_CHUNK ((size_t)1 << 20)
#define POOL_ALIGN 64
#define POOL_WATCH_NS 50000      /* how long workers watch for the next job, and the caller for the last slice */
#define POOL_LONG_NS 300000      /* a job so long is worth asking whether one was taken off the CPU meanwhile */
#define POOL_CROWDED_NS 200000000 /* who was does not watch for so long */
#define POOL_LOOKS 16            /* at the word between two looks at the clock */

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

#define POOL_OPEN 0x80000000u    /* workers may join the job */
#define POOL_AWAITED 0x40000000u /* the caller sleeps until the last has left */
#define POOL_JOINED 0x3fffffffu  /* how many are inside */

/* What a thread knows of its CPU. */
struct pool_watch {
	long long crowded_until;      /* somebody else wants it, until then */
	long taken_off;               /* how often it was taken off so far */
};

struct pool {
	alignas(POOL_ALIGN) _Atomic uint32_t job_no; /* rises with every job; what workers watch and sleep on */
	atomic_int asleep;            /* workers that sleep on job_no, or are about to */
	atomic_bool stop;
	alignas(POOL_ALIGN) _Atomic uint32_t state; /* POOL_*: who is inside */
	struct pool_job job;          /* changes while nobody is inside and nobody may join */
	alignas(POOL_ALIGN) _Atomic int64_t next;
	alignas(POOL_ALIGN) int n_thread;
	int n_started;
	atomic_llong watch_ns;        /* how long to watch before sleeping; 0: not at all */
	struct pool_watch watch;      /* the caller's */
	pthread_t *thread;
	struct dsv4_exec exec;
	struct running running;
};

/* ---- waiting for a word to change: watching, then sleeping ---- */

static void pool_futex_wait(_Atomic uint32_t *word, uint32_t old)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void pool_futex_wake(_Atomic uint32_t *word, int n)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void pool_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline long long pool_watch_ns(struct pool *p)
{
	return atomic_load_explicit(&p->watch_ns, memory_order_relaxed);
}

/* Does *word become the value, or with `other` any other, within the time? */
static bool pool_watch(struct pool_watch *w, _Atomic uint32_t *word, uint32_t value, bool other, long long ns)
{
	long long begun, now;

	if (ns == 0)
		return false;
	begun = now = clock_ns();
	if (w->crowded_until > now)
		return false;
	do {
		for (int i = 0; i < POOL_LOOKS; i++) {
			if ((atomic_load_explicit(word, memory_order_acquire) == value) != other)
				return true;
			pool_pause();
		}
		now = clock_ns();
	} while (now - begun < ns);
	return false;
}

/* After a job in a hot pool: did somebody else run here meanwhile? */
static void pool_mind(struct pool_watch *w, long long begun)
{
	long long now = clock_ns();
	struct rusage r;

	if (now - begun < POOL_LONG_NS || getrusage(RUSAGE_THREAD, &r) < 0)
		return;
	if (r.ru_nivcsw != w->taken_off)
		w->crowded_until = now + POOL_CROWDED_NS;
	w->taken_off = r.ru_nivcsw;
}

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

/* Wakes up to two that sleep, each of which wakes two more: nobody wakes all of many. */
static void pool_rouse(struct pool *p)
{
	if (atomic_load(&p->asleep) > 0)
		pool_futex_wake(&p->job_no, 2);
}

static void pool_await_job(struct pool *p, struct pool_watch *w, uint32_t seen)
{
	if (pool_watch(w, &p->job_no, seen, true, pool_watch_ns(p)))
		return;
	atomic_fetch_add(&p->asleep, 1);
	while (atomic_load(&p->job_no) == seen)
		pool_futex_wait(&p->job_no, seen);
	atomic_fetch_sub(&p->asleep, 1);
	pool_rouse(p);
}

static bool pool_join(struct pool *p)
{
	uint32_t s = atomic_load_explicit(&p->state, memory_order_relaxed);

	while (s & POOL_OPEN)
		if (atomic_compare_exchange_weak_explicit(&p->state, &s, s + 1, memory_order_acquire,
			    memory_order_relaxed))
			return true;
	return false;
}

static void pool_leave(struct pool *p)
{
	uint32_t s = atomic_fetch_sub_explicit(&p->state, 1, memory_order_acq_rel);

	if (s == (POOL_AWAITED | 1))
		pool_futex_wake(&p->state, 1);
}

/* The job that is open, if it still is. */
static void pool_take_part(struct pool *p, struct pool_watch *w)
{
	bool hot = pool_watch_ns(p) > 0;
	long long begun = hot ? clock_ns() : 0;

	if (!pool_join(p))
		return;
	pool_slices(p, &p->job);
	pool_leave(p);
	if (hot)
		pool_mind(w, begun);
}

static void *pool_worker(void *arg)
{
	struct pool *p = arg;
	struct pool_watch w = { 0 };
	uint32_t seen = 0;

	altstack_use();
	running_here(&p->running);
	while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
		uint32_t no = atomic_load_explicit(&p->job_no, memory_order_acquire);

		if (no == seen) {
			pool_await_job(p, &w, seen);
			continue;
		}
		seen = no;
		pool_take_part(p, &w);
	}
	return NULL;
}

static void pool_open_job(struct pool *p, const struct pool_job *job)
{
	p->job = *job;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	atomic_store_explicit(&p->state, POOL_OPEN, memory_order_release);
	atomic_fetch_add(&p->job_no, 1); /* in one order with `asleep`: who sees the old number is seen asleep */
	pool_rouse(p);
}

/* No slice is left to take, so workers that have not joined need not; those inside finish theirs. */
static void pool_close_job(struct pool *p)
{
	uint32_t s = atomic_fetch_and_explicit(&p->state, ~POOL_OPEN, memory_order_acq_rel) & ~POOL_OPEN;

	if (s == 0 || pool_watch(&p->watch, &p->state, 0, false, pool_watch_ns(p)))
		return;
	s = atomic_fetch_or_explicit(&p->state, POOL_AWAITED, memory_order_acq_rel) | POOL_AWAITED;
	while (s & POOL_JOINED) {
		pool_futex_wait(&p->state, s);
		s = atomic_load_explicit(&p->state, memory_order_acquire);
	}
}

static void pool_run(struct pool *p, const struct pool_job *job)
{
	bool hot = pool_watch_ns(p) > 0;
	long long begun = hot ? clock_ns() : 0;

	pool_open_job(p, job);
	pool_slices(p, job);
	pool_close_job(p);
	if (hot)
		pool_mind(&p->watch, begun);
}

void pool_parallel_for(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	struct pool *p = x->pool;
	struct pool_job job = { fn, arg, n, grain > 0 ? grain : 1 };

	must(!x->in_loop);
	if (n <= 0)
		return;
	x->in_loop = true;
	if (n <= job.grain || p->n_thread == 1)
		fn(arg, 0, n);
	else
		pool_run(p, &job);
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
	struct pool *p = mem_try(1, sizeof *p); /* aligned */
	int rc;

	if (!p)
		return -ENOMEM;
	if (n_threads <= 0)
		n_threads = cpus_count();
	p->n_thread = n_threads < 1 ? 1 : n_threads > POOL_MAX_THREADS ? POOL_MAX_THREADS : n_threads;
	p->thread = mem_new((size_t)p->n_thread * sizeof *p->thread);
	p->exec.pool = p;
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
	atomic_store(&p->stop, true);
	atomic_fetch_add(&p->job_no, 1);
	pool_futex_wake(&p->job_no, INT_MAX);
	for (int i = 0; i < p->n_started; i++)
		must_zero(pthread_join(p->thread[i], NULL));
	pool_chunks_free(&p->exec);
	free(p->thread);
	free(p);
}

/* Where the kernel will not have it, a thread goes on as before. */
static void pool_place(struct pool *p, enum cpus_place place)
{
	pthread_t *thread = mem_grow(NULL, (size_t)p->n_thread, sizeof *thread);

	thread[0] = pthread_self();
	for (int i = 0; i < p->n_started; i++)
		thread[i + 1] = p->thread[i];
	(void)cpus_place(thread, p->n_thread, place);
	free(thread);
}

void pool_hot(struct pool *p, enum pool_pin pin)
{
	if (p->n_thread == 1 || p->n_thread > cpus_count())
		return;
	if (pin != POOL_PIN_NO)
		pool_place(p, pin == POOL_PIN_CPU ? CPUS_ONE : CPUS_NODE);
	atomic_store(&p->watch_ns, POOL_WATCH_NS);
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
