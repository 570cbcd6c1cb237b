/* SPDX-License-Identifier: MIT
 * pool.h - persistent worker threads, and the host table that ops run on.
 * Threads: one caller at a time drives a pool; its workers run slices. Locks: none (atomics and futexes). */
#ifndef ENGINE_POOL_H
#define ENGINE_POOL_H

#include "engine/kernels/running.h"
#include "plugins/dsv4_plugin.h"

#define POOL_MAX_THREADS 1024

struct pool;

/* n_threads counts the caller; 0: one per CPU this process may use. -EAGAIN: they cannot be started. */
int pool_new(int n_threads, struct pool **ret_p);
/* Joins the workers. */
void pool_free(struct pool **p);
int pool_threads(const struct pool *p);
/* Where its threads may run: on any CPU of this process, on those of one NUMA node each, on one each. */
enum pool_pin { POOL_PIN_NO, POOL_PIN_NODE, POOL_PIN_CPU };

/* The calling thread drives this pool from now on, and the process has no busier one: between jobs its threads watch
 * for the next a while before they sleep, and each is put where `pin` says. Nothing of this where there are more
 * threads than CPUs that this process may use. */
void pool_hot(struct pool *p, enum pool_pin pin);

/* What ops of this pool's caller are called with; scratch memory belongs to it. */
struct dsv4_exec *pool_exec(struct pool *p);
/* What its caller says that it runs; its workers are told. */
struct running *pool_running(struct pool *p);
/* Ends the life of all scratch memory; called before each op. Memory stays for the next. */
void pool_scratch_reset(struct pool *p);
/* Bytes the scratch arena holds. */
size_t pool_scratch_bytes(const struct pool *p);

/* The running half of the table that ops get; provider.c adds memory, log and state of each plugin. */
void pool_parallel_for(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg);
void *pool_scratch(struct dsv4_exec *x, size_t bytes);
int pool_n_threads(struct dsv4_exec *x);
#define POOL_HOST { \
	.size = sizeof(struct dsv4_host), .abi_major = DSV4_ABI_MAJOR, .abi_minor = DSV4_ABI_MINOR, \
	.parallel_for = pool_parallel_for, .scratch = pool_scratch, .n_threads = pool_n_threads }


#endif
