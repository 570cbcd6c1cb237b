/* SPDX-License-Identifier: MIT
 * lock.c - mutexes under one rule: no thread ever holds two locks. Asserted in every build.
 * Threads: any. */
#include "engine/base/lock.h"
#include "engine/base/clock.h"
#include "engine/base/must.h"

#include <errno.h>
#include <time.h>

static _Thread_local const struct lock *lock_mine;

void lock_init(struct lock *l, const char *name)
{
	must_zero(pthread_mutex_init(&l->mutex, NULL));
	l->name = name;
}

void lock_fini(struct lock *l)
{
	must_zero(pthread_mutex_destroy(&l->mutex));
}

void lock_take(struct lock *l)
{
	must(lock_mine == NULL);
	must_zero(pthread_mutex_lock(&l->mutex));
	lock_mine = l;
}

void lock_drop(struct lock *l)
{
	must(lock_mine == l);
	lock_mine = NULL;
	must_zero(pthread_mutex_unlock(&l->mutex));
}

int lock_held(const struct lock *l)
{
	return lock_mine == l;
}

int lock_wait(struct lock *l, pthread_cond_t *c, long timeout_ms)
{
	struct timespec t;
	long long end;
	int r;

	must(lock_mine == l);
	if (timeout_ms < 0) {
		must_zero(pthread_cond_wait(c, &l->mutex));
		return 0;
	}
	end = clock_ns() + timeout_ms * 1000000LL;
	t = (struct timespec){ .tv_sec = end / 1000000000, .tv_nsec = end % 1000000000 };
	r = pthread_cond_timedwait(c, &l->mutex, &t);
	must(r == 0 || r == ETIMEDOUT);
	return -r;
}

void lock_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t a;

	must_zero(pthread_condattr_init(&a));
	must_zero(pthread_condattr_setclock(&a, CLOCK_MONOTONIC));
	must_zero(pthread_cond_init(c, &a));
	must_zero(pthread_condattr_destroy(&a));
}
