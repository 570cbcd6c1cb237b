/* SPDX-License-Identifier: MIT
 * scheduler.c - which requests run, and what each step computes: decode first, then fair shares of prefill.
 * Threads: engine. Locks: none. */
#include "engine/serve/scheduler.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

#define SCHEDULER_PREFILL_FLOOR 8 /* one n-th of the budget */

void scheduler_init(struct scheduler *s, int budget, int max_running)
{
	size_t n = (size_t)max_running;

	must(budget > 0 && max_running > 0);
	*s = (struct scheduler){ .budget = budget, .max_running = max_running };
	list_init(&s->waiting);
	list_init(&s->running);
	s->item = mem_grow(NULL, n, sizeof *s->item);
	s->batch = mem_grow(NULL, n, sizeof *s->batch);
	s->order = mem_grow(NULL, n, sizeof *s->order);
}

void scheduler_fini(struct scheduler *s)
{
	must(s->n_waiting == 0 && s->n_running == 0);
	free(s->item);
	free(s->batch);
	free(s->order);
	memset(s, 0, sizeof *s);
}

/* ---- queues ---- */

void scheduler_put(struct scheduler *s, struct sched_task *t)
{
	list_put(&s->waiting, &t->link);
	s->n_waiting++;
}

/* A paused one takes no place: readers that do not read would keep all others out. */
static bool scheduler_full(const struct scheduler *s)
{
	int n = 0;

	list_each(t, &s->running, struct sched_task, link)
		n += !t->paused;
	return n >= s->max_running;
}

struct sched_task *scheduler_next(const struct scheduler *s)
{
	if (scheduler_full(s))
		return NULL;
	list_each(t, &s->waiting, struct sched_task, link)
		if (!t->held)
			return t;
	return NULL;
}

void scheduler_admit(struct scheduler *s, struct sched_task *t)
{
	must(scheduler_next(s) == t);
	list_del(&t->link);
	list_put(&s->running, &t->link);
	s->n_waiting--;
	s->n_running++;
}

static bool scheduler_waits(const struct scheduler *s, const struct sched_task *t)
{
	list_each(w, &s->waiting, struct sched_task, link)
		if (w == t)
			return true;
	return false;
}

void scheduler_drop(struct scheduler *s, struct sched_task *t)
{
	if (scheduler_waits(s, t))
		s->n_waiting--;
	else
		s->n_running--;
	list_del(&t->link);
}

/* ---- planning ---- */

/* Deals `tokens` out in rounds of equal shares; who needs less than a share leaves the rest to the others.
 * When there are fewer tokens than tasks, the turn decides who gets one. */
static void scheduler_share(struct scheduler *s, struct sched_task **t, int n, int tokens)
{
	int i, open = n;

	while (tokens > 0 && open > 0) {
		int share = tokens / open > 0 ? tokens / open : 1;

		open = 0;
		for (i = 0; i < n; i++) {
			struct sched_task *c = t[(i + s->turn) % (unsigned)n];
			int need = c->left - c->share;
			int give = need < share ? need : share;

			give = give < tokens ? give : tokens;
			c->share += give;
			tokens -= give;
			open += c->share < c->left;
		}
	}
	s->turn++;
}

static bool scheduler_agree(const struct sched_task *a, const struct sched_task *b)
{
	return a->kset == b->kset && memcmp(&a->numerics, &b->numerics, sizeof a->numerics) == 0;
}

/* Appends the tasks t[0, n) that have a share, batch by batch, and takes them out of t. */
static void scheduler_emit(struct scheduler *s, struct sched_task **t, int n, enum dsv4_phase phase)
{
	int i, k;

	for (i = 0; i < n; i++) {
		struct sched_batch b = { .phase = phase, .first = s->n_item };
		const struct sched_task *head = t[i];

		if (!head || head->share == 0)
			continue;
		for (k = i; k < n; k++) {
			if (!t[k] || t[k]->share == 0 || !scheduler_agree(head, t[k]))
				continue;
			s->item[s->n_item++] = (struct sched_item){ .task = t[k], .n = t[k]->share };
			t[k] = NULL;
		}
		b.n = s->n_item - b.first;
		s->batch[s->n_batch++] = b;
	}
}

/* Of the oldest max_running that are not paused, those that decode, or those that do not: paused ones that go on
 * may find their places taken. */
static int scheduler_take(struct scheduler *s, bool decode, struct sched_task **order, int *ret_tokens)
{
	int n = 0, places = s->max_running;

	*ret_tokens = 0;
	list_each(t, &s->running, struct sched_task, link) {
		if (t->paused)
			continue;
		if (places-- == 0)
			break;
		if ((t->left == 0) != decode)
			continue;
		t->share = decode ? 1 + t->drafts : 0;
		*ret_tokens += t->share;
		order[n++] = t;
	}
	return n;
}

int scheduler_plan(struct scheduler *s)
{
	int n_decode, n_prefill, tokens, none, most;
	struct sched_task **prefill;

	s->n_item = s->n_batch = 0;
	n_decode = scheduler_take(s, true, s->order, &tokens);
	prefill = s->order + n_decode;
	n_prefill = scheduler_take(s, false, prefill, &none);
	tokens = s->budget - tokens;
	if (tokens < s->budget / SCHEDULER_PREFILL_FLOOR)
		tokens = s->budget / SCHEDULER_PREFILL_FLOOR;
	most = n_decode ? pace_tokens(&s->pace) : tokens;
	tokens = tokens < most ? tokens : most;
	scheduler_share(s, prefill, n_prefill, tokens > 0 ? tokens : 1);
	scheduler_emit(s, s->order, n_decode, DSV4_DECODE);
	scheduler_emit(s, prefill, n_prefill, DSV4_PREFILL);
	return s->n_item;
}
