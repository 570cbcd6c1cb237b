/* SPDX-License-Identifier: MIT
 * lock.h - mutexes under one rule: no thread ever holds two locks. Asserted in every build.
 * Threads: any. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>

struct lock {
	pthread_mutex_t mutex;
	const char *name; /* for assertions and backtraces */
};

void lock_init(struct lock *l, const char *name);
void lock_fini(struct lock *l);
void lock_take(struct lock *l);
void lock_drop(struct lock *l);
/* Does the calling thread hold this lock? For assertions in functions that need it. */
int lock_held(const struct lock *l);
/* Waits on c with l held; timeout_ms < 0 waits for ever. Returns 0, or -ETIMEDOUT. c must come from
 * lock_cond_init, whose clock is CLOCK_MONOTONIC. */
int lock_wait(struct lock *l, pthread_cond_t *c, long timeout_ms);
void lock_cond_init(pthread_cond_t *c);

#endif
