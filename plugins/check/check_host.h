/* SPDX-License-Identifier: MIT
 * check_host.h - a host for ops under test: splits work in awkward ways, hands out hostile scratch, and notes
 * what an op does that it may not.
 * Threads: one caller, plus the threads of its slices. Lock: check_team, never during a slice. */
#ifndef CHECK_HOST_H
#define CHECK_HOST_H

#include "plugins/check/guard.h"
#include "plugins/dsv4_plugin.h"

#include <stdatomic.h>
#include <stdbool.h>

/* How parallel_for splits its range. */
enum check_split {
	CHECK_SPLIT_WHOLE,          /* one slice */
	CHECK_SPLIT_ONES_BACKWARDS, /* slices of one, the last first */
	CHECK_SPLIT_UNEVEN,         /* a few pieces of random sizes, every second one later */
	CHECK_SPLIT_GRAINS,         /* by the op's grain, on one thread */
	CHECK_SPLIT_THREADS         /* by the op's grain, on `threads` threads */
};

struct check_team;
struct check_device;

struct dsv4_exec {
	enum check_split split;
	int threads;                /* what n_threads() says */
	struct check_team *team;    /* for THREADS; at least `threads` wide */
	uint64_t rng;               /* for UNEVEN */
	uint32_t poison;            /* scratch memory is full of this word */
	int n_scratch;              /* scratch() calls that still succeed; negative: all */
	enum guard_place place;
	const struct check_device *device; /* NULL: the CPU */
	struct guard *mem;          /* [n_mem] scratch of the running op */
	int n_mem;
	char *arena;                /* when set, scratch comes from here, as it is: for timing */
	size_t arena_size, arena_used;
	bool in_loop;
	_Atomic(const char *) broke; /* the first rule the op broke, or NULL */
};

struct check_host {
	struct dsv4_host table;     /* base's, but for what check_host.c provides */
	struct dsv4_gpu gpu;        /* so of table.gpu, if there is one */
	_Atomic(const char *) broke; /* as above, for calls that get no exec */
};

/* base's state, with threads, scratch and memory that the check watches. */
void check_host_init(struct check_host *h, const struct dsv4_host *base);
/* For ops of a GPU. h does not move any more. */
void check_host_on(struct check_host *h, const struct check_device *d);
/* Are the guards of all scratch memory whole? */
bool check_host_scratch_intact(const struct dsv4_exec *x);
/* Ends the life of all scratch memory. */
void check_host_reset(struct dsv4_exec *x);
void check_host_fini(struct dsv4_exec *x);
/* From now on scratch comes from an arena of this size. -ENOMEM. */
int check_host_arena(struct dsv4_exec *x, size_t bytes);

/* Threads that wait for parallel_for. n counts the caller. -EAGAIN: they cannot be started. */
int check_team_new(int n, struct check_team **ret_t);
void check_team_free(struct check_team **t);

#endif
