/* SPDX-License-Identifier: MIT
 * scheduler.h - which requests run, and what each step computes: decode first, then fair shares of prefill.
 * Threads: engine. Locks: none. */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include "engine/base/list.h"
#include "engine/kernels/kset.h"
#include "engine/kernels/numerics.h"
#include "engine/serve/pace.h"

#include <stdbool.h>

/* The scheduler's view of a request, embedded in it. */
struct sched_task {
	struct list link;          /* in waiting or running */
	const struct kset *kset;   /* tasks that agree in kernel set and numerics share batches */
	struct numerics numerics;
	int left;                  /* prompt tokens not yet computed; 0: decoding, one token a step */
	int drafts;                /* that are computed with it */
	bool paused;               /* takes no part and no place for now */
	bool held;                 /* not to be admitted yet; those behind it may be */
	int share;                 /* tokens in the planned step */
};

struct sched_item {
	struct sched_task *task;
	int n;
};

/* Items [first, first + n) of the plan: one phase, one kernel set, one numerics. */
struct sched_batch {
	enum dsv4_phase phase;
	int first, n;
};

struct scheduler {
	int budget;                /* tokens per step */
	int max_running;           /* that are not paused; in a plan */
	struct pace pace;          /* of prefill beside decoding */
	struct list waiting, running; /* oldest first */
	int n_waiting, n_running;
	unsigned turn;             /* whose turn it is to be first */
	/* The plan; a task stands in it at most once. */
	struct sched_item *item;   /* [max_running] */
	struct sched_batch *batch; /* [max_running] */
	struct sched_task **order; /* [max_running], for planning */
	int n_item, n_batch;
};

void scheduler_init(struct scheduler *s, int budget, int max_running);
/* Both queues must be empty. */
void scheduler_fini(struct scheduler *s);

void scheduler_put(struct scheduler *s, struct sched_task *t);
/* The next to admit, the oldest that is not held, if there is one and a place is free; it stays where it is until
 * scheduler_admit. */
struct sched_task *scheduler_next(const struct scheduler *s);
void scheduler_admit(struct scheduler *s, struct sched_task *t);
/* From whichever queue. */
void scheduler_drop(struct scheduler *s, struct sched_task *t);

/* Fills the plan: every decoding task gets its token, and its drafts; what the budget leaves, an eighth of it at least,
 * is shared by the prefilling tasks, equally but for those that need less. If any task decodes, they share no more than
 * the pace lets them have (pace.h), which may be less than that eighth. Returns the number of items; paused tasks get
 * none. */
int scheduler_plan(struct scheduler *s);

#endif
