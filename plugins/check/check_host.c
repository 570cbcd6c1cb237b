/* SPDX-License-Identifier: MIT
 * check_host.c - a host for ops under test: splits work in awkward ways, hands out hostile scratch, and notes
 * what an op does that it may not.
 * Threads: one caller, plus the threads of its slices. Lock: check_team, never during a slice. */
#include "plugins/check/check_host.h"
#include "plugins/check/check.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_HOST_SCRATCH ((size_t)1 << 30) /* more than this at once is refused, as a full machine would */
#define CHECK_HOST_PIECES 7

static void check_host_broke(_Atomic(const char *) *broke, const char *rule)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(broke, &none, rule);
}

/* ---- threads ---- */

struct check_job {
	dsv4_slice_f *fn;
	void *arg;
	int64_t n, grain;
	int threads;                 /* that take part */
};

struct check_worker {
	pthread_t thread;
	struct check_team *team;
	pthread_cond_t wake;
	int index;                   /* 1.. ; 0 is the caller */
};

struct check_team {
	struct lock lock;
	pthread_cond_t done;
	struct check_job job;        /* under the lock, like what follows */
	uint64_t job_no;
	int busy;                    /* workers that have not finished the job */
	bool stop;
	_Atomic int64_t next;
	int n_worker;
	struct check_worker *worker; /* [n_worker] */
};

static void check_team_slices(struct check_team *t, const struct check_job *j)
{
	for (;;) {
		int64_t begin = atomic_fetch_add(&t->next, j->grain);

		if (begin >= j->n)
			return;
		j->fn(j->arg, begin, j->n - begin < j->grain ? j->n : begin + j->grain);
	}
}

static void *check_team_run(void *arg)
{
	struct check_worker *w = arg;
	struct check_team *t = w->team;
	struct check_job job;
	uint64_t seen = 0;

	lock_take(&t->lock);
	for (;;) {
		while (!t->stop && (t->job_no == seen || w->index >= t->job.threads))
			lock_wait(&t->lock, &w->wake, -1);
		if (t->stop)
			break;
		seen = t->job_no;
		job = t->job;
		lock_drop(&t->lock);
		check_team_slices(t, &job);
		lock_take(&t->lock);
		if (--t->busy == 0)
			must_zero(pthread_cond_signal(&t->done));
	}
	lock_drop(&t->lock);
	return NULL;
}

static void check_team_do(struct check_team *t, const struct check_job *job)
{
	int64_t slices = (job->n + job->grain - 1) / job->grain;
	int threads;

	lock_take(&t->lock);
	t->job = *job;
	if (t->job.threads > t->n_worker + 1)
		t->job.threads = t->n_worker + 1;
	if (t->job.threads > slices)
		t->job.threads = (int)slices;
	t->busy = t->job.threads - 1;
	t->job_no++;
	atomic_store(&t->next, 0);
	threads = t->job.threads;
	lock_drop(&t->lock);
	/* only these, and without the lock that they want: else waking is most of a quick check's time */
	for (int i = 0; i < threads - 1; i++)
		must_zero(pthread_cond_signal(&t->worker[i].wake));
	check_team_slices(t, job);
	lock_take(&t->lock);
	while (t->busy > 0)
		lock_wait(&t->lock, &t->done, -1);
	lock_drop(&t->lock);
}

int check_team_new(int n, struct check_team **ret_t)
{
	struct check_team *t = mem_new(sizeof *t);

	lock_init(&t->lock, "check_team");
	lock_cond_init(&t->done);
	t->worker = mem_grow(NULL, (size_t)n, sizeof *t->worker);
	for (int i = 1; i < n; i++) {
		struct check_worker *w = &t->worker[t->n_worker];

		*w = (struct check_worker){ .team = t, .index = i };
		lock_cond_init(&w->wake);
		if (pthread_create(&w->thread, NULL, check_team_run, w)) {
			must_zero(pthread_cond_destroy(&w->wake));
			check_team_free(&t);
			return -EAGAIN;
		}
		t->n_worker++;
	}
	*ret_t = t;
	return 0;
}

void check_team_free(struct check_team **team)
{
	struct check_team *t = *team;

	*team = NULL;
	if (!t)
		return;
	lock_take(&t->lock);
	t->stop = true;
	lock_drop(&t->lock);
	for (int i = 0; i < t->n_worker; i++) {
		must_zero(pthread_cond_signal(&t->worker[i].wake));
		must_zero(pthread_join(t->worker[i].thread, NULL));
		must_zero(pthread_cond_destroy(&t->worker[i].wake));
	}
	must_zero(pthread_cond_destroy(&t->done));
	lock_fini(&t->lock);
	free(t->worker);
	free(t);
}

/* ---- parallel_for ---- */

static void check_host_uneven(struct dsv4_exec *x, const struct check_job *j)
{
	int64_t cut[CHECK_HOST_PIECES + 1];

	for (int i = 0; i < CHECK_HOST_PIECES; i++) {
		x->rng = x->rng * 6364136223846793005u + 1442695040888963407u;
		cut[i] = i ? (int64_t)((x->rng >> 33) % (uint64_t)(j->n + 1)) : 0;
		for (int k = i; k > 0 && cut[k] < cut[k - 1]; k--) {
			int64_t swap = cut[k];

			cut[k] = cut[k - 1];
			cut[k - 1] = swap;
		}
	}
	cut[CHECK_HOST_PIECES] = j->n;
	for (int odd = 1; odd >= 0; odd--)
		for (int i = odd; i < CHECK_HOST_PIECES; i += 2)
			if (cut[i] < cut[i + 1])
				j->fn(j->arg, cut[i], cut[i + 1]);
}

static void check_host_split(struct dsv4_exec *x, const struct check_job *j)
{
	switch (x->split) {
	case CHECK_SPLIT_ONES_BACKWARDS:
		for (int64_t i = j->n; i-- > 0;)
			j->fn(j->arg, i, i + 1);
		return;
	case CHECK_SPLIT_UNEVEN:
		check_host_uneven(x, j);
		return;
	case CHECK_SPLIT_GRAINS:
		for (int64_t i = 0; i < j->n; i += j->grain)
			j->fn(j->arg, i, j->n - i < j->grain ? j->n : i + j->grain);
		return;
	case CHECK_SPLIT_THREADS:
		check_team_do(x->team, j);
		return;
	default:
		j->fn(j->arg, 0, j->n);
	}
}

static void check_host_parallel_for(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	struct check_job j = { fn, arg, n, grain > 0 ? grain : 1, x->threads };

	if (x->in_loop) {
		check_host_broke(&x->broke, "parallel_for from inside a slice");
		return;
	}
	if (n < 0 || grain < 1)
		check_host_broke(&x->broke, "parallel_for with n < 0 or grain < 1");
	if (n <= 0)
		return;
	x->in_loop = true;
	check_host_split(x, &j);
	x->in_loop = false;
}

static int check_host_n_threads(struct dsv4_exec *x)
{
	return x->threads;
}

/* ---- scratch ---- */

static void *check_host_bump(struct dsv4_exec *x, size_t bytes)
{
	char *p = x->arena + x->arena_used;

	bytes = (bytes + 63) / 64 * 64;
	if (bytes > x->arena_size - x->arena_used)
		return NULL;
	x->arena_used += bytes;
	return p;
}

static void *check_host_scratch(struct dsv4_exec *x, size_t bytes)
{
	struct guard *g;

	if (x->in_loop) {
		check_host_broke(&x->broke, "scratch from inside a slice");
		return NULL;
	}
	if (x->n_scratch == 0 || bytes > CHECK_HOST_SCRATCH)
		return NULL;
	if (x->arena)
		return check_host_bump(x, bytes);
	x->n_scratch -= x->n_scratch > 0;
	x->mem = mem_grow(x->mem, (size_t)x->n_mem + 1, sizeof *x->mem);
	g = &x->mem[x->n_mem];
	/* Whole cache lines: what an aligned vector store may touch. */
	bytes = (bytes + 63) / 64 * 64;
	if (x->device ? guard_new_from(g, bytes, 0, x->place, &x->device->memory) : guard_new(g, bytes, 0, x->place))
		return NULL;
	for (size_t i = 0; i < g->size; i += sizeof x->poison)
		memcpy(g->data + i, &x->poison, sizeof x->poison);
	x->n_mem++;
	return g->data;
}

bool check_host_scratch_intact(const struct dsv4_exec *x)
{
	ptrdiff_t at;

	for (int i = 0; i < x->n_mem; i++)
		if (!guard_intact(&x->mem[i], &at))
			return false;
	return true;
}

void check_host_reset(struct dsv4_exec *x)
{
	while (x->n_mem > 0)
		guard_free(&x->mem[--x->n_mem]);
	x->arena_used = 0;
}

int check_host_arena(struct dsv4_exec *x, size_t bytes)
{
	x->arena = mem_try(bytes, 1);
	x->arena_size = bytes;
	return x->arena ? 0 : -ENOMEM;
}

void check_host_fini(struct dsv4_exec *x)
{
	check_host_reset(x);
	free(x->mem);
	free(x->arena);
	x->mem = NULL;
	x->arena = NULL;
}

/* ---- what ops may not call ---- */

static struct check_host *check_host_of(const struct dsv4_host *host)
{
	return (struct check_host *)((char *)host - offsetof(struct check_host, table));
}

static void *check_host_alloc(const struct dsv4_host *host, size_t bytes)
{
	(void)bytes;
	check_host_broke(&check_host_of(host)->broke, "host->alloc from an op");
	return NULL;
}

static void check_host_release(const struct dsv4_host *host, void *p)
{
	(void)p;
	check_host_broke(&check_host_of(host)->broke, "host->release from an op");
}

static void check_host_log(const struct dsv4_host *host, int level, const char *text)
{
	(void)level;
	(void)text;
	check_host_broke(&check_host_of(host)->broke, "host->log from an op");
}

/* ---- GPUs: the device's own queue behind the check's exec ---- */

static int check_host_launch(struct dsv4_exec *x, struct dsv4_kernel *k, const struct dsv4_launch *l)
{
	return x->device->gpu->launch(x->device->exec, k, l);
}

static const void *check_host_upload(struct dsv4_exec *x, const void *p, size_t bytes)
{
	return x->device->gpu->upload(x->device->exec, p, bytes);
}

static int check_host_module(const struct dsv4_host *host, const void *image, struct dsv4_module **ret_m)
{
	(void)image;
	(void)ret_m;
	check_host_broke(&check_host_of(host)->broke, "gpu->module from an op");
	return -EINVAL;
}

static int check_host_kernel(const struct dsv4_host *host, struct dsv4_module *m, const char *name, uint32_t shared,
			     struct dsv4_kernel **ret_k)
{
	(void)m;
	(void)name;
	(void)shared;
	(void)ret_k;
	check_host_broke(&check_host_of(host)->broke, "gpu->kernel from an op");
	return -EINVAL;
}

static void check_host_no_loop(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	(void)n;
	(void)grain;
	(void)fn;
	(void)arg;
	check_host_broke(&x->broke, "parallel_for on a GPU");
}

void check_host_on(struct check_host *h, const struct check_device *d)
{
	h->gpu = *d->gpu;
	h->gpu.module = check_host_module;
	h->gpu.kernel = check_host_kernel;
	h->gpu.launch = check_host_launch;
	h->gpu.upload = check_host_upload;
	h->table.gpu = &h->gpu;
	h->table.parallel_for = check_host_no_loop;
}

void check_host_init(struct check_host *h, const struct dsv4_host *base)
{
	*h = (struct check_host){ .table = *base };
	h->table.parallel_for = check_host_parallel_for;
	h->table.scratch = check_host_scratch;
	h->table.n_threads = check_host_n_threads;
	h->table.alloc = check_host_alloc;
	h->table.release = check_host_release;
	h->table.log = check_host_log;
}
