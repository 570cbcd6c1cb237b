/* SPDX-License-Identifier: MIT
 * ranks.c - devices that compute one model together: who they are, their rendezvous, and gathering in the CPU's memory.
 * Threads, locks: as ranks.h. */
#include "engine/device/device_priv.h"
#include "engine/device/ranks_priv.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/device/device_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_WATCH_NS 20000     /* how long a rank watches for the last one before it sleeps */
#define RANKS_LOOKS 64           /* between two looks at the clock */

/* ---- life ---- */

static struct ranks *ranks_new(int n)
{
	struct ranks *r = mem_new(sizeof *r);

	must(n >= 1 && n <= DEVICE_LIST_MAX);
	r->n = n;
	r->place = mem_try((size_t)n, sizeof *r->place); /* aligned */
	must(r->place != NULL);
	lock_init(&r->lock, "ranks");
	lock_cond_init(&r->all_here);
	lock_cond_init(&r->pass_over);
	must_zero(pthread_mutex_init(&r->end_mutex, NULL));
	must_zero(pthread_cond_init(&r->end_told, NULL));
	for (int i = 0; i < n; i++) {
		r->place[i].ranks = r;
		must_zero(pthread_mutex_init(&r->place[i].call, NULL));
	}
	r->broken = -1;
	return r;
}

struct ranks *ranks_cpu(int n)
{
	struct ranks *r = ranks_new(n);

	for (int i = 0; i < n; i++)
		r->place[i].device = device_cpu();
	return r;
}

/* The same kernels run on all. */
static int ranks_alike(const struct ranks *r, struct buf *why)
{
	const struct device *a = r->place[0].device;

	for (int i = 1; i < r->n; i++) {
		const struct device *b = r->place[i].device;

		if (a->gpu.sm != b->gpu.sm)
			return buf_why(why, RC_UNAVAILABLE,
				       "%s (%s) has compute capability %d.%d, %s (%s) %d.%d; they compute one "
				       "model only if it is the same", a->name, a->model, a->major, a->minor, b->name,
				       b->model, b->major, b->minor);
	}
	return 0;
}

static int ranks_open_gpus(struct ranks *r, const struct device_list *l, int seconds, struct buf *why)
{
	int rc = 0;

	for (int i = 0; i < r->n && rc == 0; i++) {
		char name[16];

		snprintf(name, sizeof name, "cuda:%d", l->gpu[i]);
		rc = device_open(name, &r->place[i].device, why);
	}
	rc = rc || r->n == 1 ? rc : ranks_alike(r, why);
	return rc || r->n == 1 ? rc : ranks_nccl_open(r, seconds, why);
}

int ranks_open(const char *names, int seconds, struct ranks **ret_r, struct buf *why)
{
	struct device_list l;
	struct ranks *r;
	int rc = device_list_parse(names, &l, why);

	if (rc)
		return rc;
	if (l.n == 0) {
		*ret_r = ranks_cpu(1);
		return 0;
	}
	r = ranks_new(l.n);
	rc = ranks_open_gpus(r, &l, seconds, why);
	if (rc == 0)
		*ret_r = r;
	else if (!r->hung)
		ranks_close(&r);
	return rc;
}

void ranks_close(struct ranks **pr)
{
	struct ranks *r = *pr;

	*pr = NULL;
	if (!r)
		return;
	must(r->serving == r->ticket);
	ranks_nccl_close(r);
	for (int i = 0; i < r->n && r->nccl; i++)
		if (r->place[i].device)
			r->place[i].device->ranks = NULL;
	for (int i = 0; i < r->n; i++) {
		if (r->place[i].device)
			device_close(&r->place[i].device);
		must_zero(pthread_mutex_destroy(&r->place[i].call));
	}
	must_zero(pthread_mutex_destroy(&r->end_mutex));
	must_zero(pthread_cond_destroy(&r->end_told));
	must_zero(pthread_cond_destroy(&r->all_here));
	must_zero(pthread_cond_destroy(&r->pass_over));
	lock_fini(&r->lock);
	buf_fini(&r->connect_why);
	free(r->place);
	free(r);
}

int ranks_n(const struct ranks *r)
{
	return r->n;
}

struct device *ranks_device(const struct ranks *r, int rank)
{
	must(rank >= 0 && rank < r->n);
	return r->place[rank].device;
}

/* ---- passes ---- */

long long ranks_begin(struct ranks *r)
{
	long long begun = clock_ns();
	uint64_t mine;

	lock_take(&r->lock);
	mine = r->ticket++;
	while (r->serving != mine)
		(void)lock_wait(&r->lock, &r->pass_over, -1);
	lock_drop(&r->lock);
	return clock_ns() - begun;
}

void ranks_end(struct ranks *r)
{
	lock_take(&r->lock);
	must(r->serving < r->ticket);
	r->serving++;
	must_zero(pthread_cond_broadcast(&r->pass_over));
	lock_drop(&r->lock);
}

/* ---- rendezvous ---- */

static inline void ranks_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void ranks_await(struct ranks *r, unsigned round)
{
	long long end = clock_ns() + RANKS_WATCH_NS;

	do {
		for (int i = 0; i < RANKS_LOOKS; i++) {
			if (atomic_load_explicit(&r->round, memory_order_acquire) != round)
				return;
			ranks_pause();
		}
	} while (clock_ns() < end);
	lock_take(&r->lock);
	while (atomic_load(&r->round) == round)
		(void)lock_wait(&r->lock, &r->all_here, -1);
	lock_drop(&r->lock);
}

/* The last one looks at what all said, and opens the door. Nobody comes to the next round before they have read it. */
static void ranks_open_door(struct ranks *r, unsigned round)
{
	r->agreed = 0;
	for (int i = r->n - 1; i >= 0; i--)
		if (r->place[i].said)
			r->agreed = r->place[i].said;
	atomic_store(&r->here, 0);
	lock_take(&r->lock);
	atomic_store(&r->round, round + 1);
	must_zero(pthread_cond_broadcast(&r->all_here));
	lock_drop(&r->lock);
}

int ranks_agree(struct ranks *r, int rank, int rc)
{
	unsigned round = atomic_load_explicit(&r->round, memory_order_acquire);

	if (r->n == 1)
		return rc;
	r->place[rank].said = rc;
	if (atomic_fetch_add_explicit(&r->here, 1, memory_order_acq_rel) == r->n - 1)
		ranks_open_door(r, round);
	else
		ranks_await(r, round);
	return r->agreed;
}

/* ---- gathering ---- */

/* Each copies all, and goes on when nobody reads its own any more. */
static void ranks_gather_cpu(struct ranks *r, int rank, char *dst, const void *src, size_t bytes)
{
	r->place[rank].src = src;
	r->place[rank].bytes = bytes;
	(void)ranks_agree(r, rank, 0);
	for (int i = 0; i < r->n; i++) {
		must(r->place[i].bytes == bytes);
		memcpy(dst + (size_t)i * bytes, r->place[i].src, bytes);
	}
	(void)ranks_agree(r, rank, 0);
}

void ranks_gather(struct ranks *r, int rank, struct queue *q, void *dst, const void *src, size_t bytes)
{
	if (bytes == 0)
		return;
	if (r->nccl)
		ranks_nccl_gather(r, rank, q, dst, src, bytes);
	else if (r->n == 1)
		queue_move(q, dst, src, bytes);
	else
		ranks_gather_cpu(r, rank, dst, src, bytes);
}
