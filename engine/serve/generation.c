/* SPDX-License-Identifier: MIT
 * generation.c - the stream of events from the engine thread to the one consumer of a request.
 * Threads: the engine thread puts, the consumer takes, anyone stops. Lock: generation. */
#include "engine/serve/generation.h"
#include "engine/base/clock.h"
#include "engine/base/hexid.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/serve/generation_put.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GENERATION_MAGIC 0x67656e31u

struct generation_node {
	struct list link;
	struct gen_event ev;
	size_t cap;            /* bytes allocated for ev.text */
};

struct generation {
	unsigned magic;
	atomic_int refs;
	char *id;
	void (*notify)(void *arg); bool (*full)(void *arg); void *arg;
	void (*wake)(void *arg); void *wake_arg;
	atomic_int stop;       /* why; 0: no */
	int stop_string;       /* index; -1. The engine thread's, as is loop */
	struct gen_loop loop;
	struct lock lock;      /* everything below */
	pthread_cond_t cond;   /* events came, or a notify call ended */
	struct list events;
	int n_events; size_t bytes; /* unread; the bytes are those of their texts and alternatives */
	bool clogged;          /* the consumer cannot pass on what it took: `full` said so, and
				* nothing was taken since */
	bool paused;           /* the engine waits for the consumer: the one who reads enough wakes it */
	struct gen_usage usage;
	bool fresh;            /* events since the last notify */
	bool finished;
	bool muted;            /* no notify call may begin */
	bool left;             /* the consumer is gone */
	bool notifying;        /* a notify call is running, on this thread: */
	pthread_t notifier;
};

struct generation *generation_new(const struct generation_setup *s)
{
	struct generation *g = mem_new(sizeof *g);

	g->magic = GENERATION_MAGIC;
	atomic_init(&g->refs, 2);
	g->id = mem_strdup(s->id);
	g->notify = s->notify;
	g->full = s->full;
	g->arg = s->arg;
	g->stop_string = -1;
	g->wake = s->wake;
	g->wake_arg = s->wake_arg;
	lock_init(&g->lock, "generation");
	lock_cond_init(&g->cond);
	list_init(&g->events);
	return g;
}

static void generation_node_free(struct generation_node *n)
{
	gen_event_fini(&n->ev);
	free(n);
}

static void generation_drop_events(struct generation *g)
{
	while (!list_empty(&g->events)) {
		struct generation_node *n = list_entry(g->events.next, struct generation_node, link);

		list_del(&n->link);
		generation_node_free(n);
	}
	g->n_events = 0;
	g->bytes = 0;
}

void generation_release(struct generation **pg)
{
	struct generation *g = *pg;

	if (!g)
		return;
	*pg = NULL;
	must_magic(g, GENERATION_MAGIC);
	if (atomic_fetch_sub(&g->refs, 1) != 1)
		return;
	generation_drop_events(g);
	must_zero(pthread_cond_destroy(&g->cond));
	lock_fini(&g->lock);
	g->magic = 0;
	free(g->id);
	free(g);
}

/* ---- putting ---- */

static size_t gen_event_bytes(const struct gen_event *ev)
{
	return ev->len + (size_t)ev->n_top * sizeof *ev->top;
}

static void generation_put(struct generation *g, struct generation_node *n)
{
	lock_take(&g->lock);
	must(!g->finished);
	g->finished = n->ev.kind == GEN_EV_FINISH;
	g->fresh = true;
	if (!g->left) {
		list_put(&g->events, &n->link);
		g->n_events++;
		g->bytes += gen_event_bytes(&n->ev);
		n = NULL;
	}
	lock_drop(&g->lock);
	if (n)
		generation_node_free(n);
}

static struct generation_node *generation_node_new(enum gen_event_kind kind, int call, const char *text,
						   size_t len)
{
	struct generation_node *n = mem_new(sizeof *n);

	n->ev.kind = kind;
	n->ev.call = call;
	if (text) {
		n->ev.text = mem_strndup(text, len);
		n->ev.len = len;
		n->cap = len + 1;
	}
	return n;
}

/* Appends to the last unread event if that is text of the same kind: slow readers get longer pieces. */
static bool generation_append(struct generation *g, enum gen_event_kind kind, int call, const char *text,
			      size_t len)
{
	struct generation_node *n = list_entry(g->events.prev, struct generation_node, link);

	if (list_empty(&g->events) || n->ev.kind != kind || n->ev.call != call)
		return false;
	if (n->ev.len + len + 1 > n->cap) {
		n->cap = 2 * (n->ev.len + len + 1);
		n->ev.text = mem_grow(n->ev.text, n->cap, 1);
	}
	memcpy(n->ev.text + n->ev.len, text, len);
	n->ev.len += len;
	n->ev.text[n->ev.len] = 0;
	g->bytes += len;
	return true;
}

void generation_put_text(struct generation *g, enum gen_event_kind kind, int call, const char *text,
			 size_t len)
{
	bool appended;

	lock_take(&g->lock);
	must(!g->finished);
	appended = generation_append(g, kind, call, text, len);
	g->fresh = g->fresh || appended;
	lock_drop(&g->lock);
	if (!appended)
		generation_put(g, generation_node_new(kind, call, text, len));
}

void generation_put_tool(struct generation *g, int call, const char *name, size_t len, char id[GENERATION_ID_MAX])
{
	struct generation_node *n = generation_node_new(GEN_EV_TOOL_BEGIN, call, name, len);

	hexid_make(id, GENERATION_ID_MAX, "call_");
	n->ev.tool_id = mem_strdup(id);
	generation_put(g, n);
}

void generation_put_tool_end(struct generation *g, int call)
{
	generation_put(g, generation_node_new(GEN_EV_TOOL_END, call, NULL, 0));
}

void generation_put_logprob(struct generation *g, const struct gen_token_logprob *lp, const struct gen_place *place,
			    const struct gen_token_logprob *top, int n_top)
{
	struct generation_node *n = generation_node_new(GEN_EV_LOGPROB, 0, NULL, 0);

	n->ev.lp = *lp;
	n->ev.lp_place = *place;
	n->ev.n_top = n_top;
	if (n_top) {
		n->ev.top = mem_grow(NULL, (size_t)n_top, sizeof *top);
		memcpy(n->ev.top, top, (size_t)n_top * sizeof *top);
	}
	generation_put(g, n);
}

void generation_stop_string(struct generation *g, int index)
{
	g->stop_string = index;
}

void generation_loop(struct generation *g, const struct gen_loop *l)
{
	g->loop = *l;
}

void generation_finish(struct generation *g, enum gen_finish finish, int rc, const char *detail)
{
	struct generation_node *n = generation_node_new(GEN_EV_FINISH, 0, detail, strlen(detail));

	n->ev.finish = finish;
	n->ev.stop = g->stop_string;
	n->ev.loop = g->loop;
	n->ev.rc = rc;
	generation_put(g, n);
	generation_flush(g);
}

/* The notify call runs without the lock, marked by `notifying`: whoever mutes for good waits for the mark to
 * go (generation_unref), and once muted no call begins. So none is running or to come when unref returns. */
void generation_flush(struct generation *g)
{
	bool call, clogged;

	lock_take(&g->lock);
	must(!g->notifying);
	call = g->fresh && g->notify && !g->muted;
	if (g->fresh)
		must_zero(pthread_cond_broadcast(&g->cond));
	g->fresh = false;
	g->notifying = call;
	g->notifier = pthread_self();
	lock_drop(&g->lock);
	if (!call)
		return;
	g->notify(g->arg);
	clogged = g->full && g->full(g->arg);
	lock_take(&g->lock);
	g->notifying = false;
	g->clogged = clogged; /* counts while something is unread, and who reads that clears it */
	must_zero(pthread_cond_broadcast(&g->cond));
	lock_drop(&g->lock);
}

void generation_set_usage(struct generation *g, const struct gen_usage *u)
{
	lock_take(&g->lock);
	g->usage = *u;
	lock_drop(&g->lock);
}

void generation_stop(struct generation *g, int why)
{
	int none = 0;

	must(why < 0);
	atomic_compare_exchange_strong(&g->stop, &none, why);
}

int generation_stopped(const struct generation *g)
{
	return atomic_load(&g->stop);
}

bool generation_left(struct generation *g)
{
	bool left;

	lock_take(&g->lock);
	left = g->muted;
	lock_drop(&g->lock);
	return left;
}

static bool generation_too_much(const struct generation *g)
{
	return g->n_events >= GENERATION_MAX_BACKLOG || g->bytes >= GENERATION_MAX_BACKLOG_BYTES ||
	       (g->clogged && g->n_events > 0);
}

bool generation_backlogged(struct generation *g)
{
	bool too_much;

	lock_take(&g->lock);
	too_much = g->paused = generation_too_much(g);
	lock_drop(&g->lock);
	return too_much;
}

/* ---- taking ---- */

/* *ret_wake: the engine was waiting for that. */
static bool generation_take(struct generation *g, struct gen_event *ret_ev, bool *ret_wake)
{
	struct generation_node *n;

	if (list_empty(&g->events))
		return false;
	n = list_entry(g->events.next, struct generation_node, link);
	list_del(&n->link);
	*ret_ev = n->ev;
	free(n);
	g->n_events--;
	g->bytes -= gen_event_bytes(ret_ev);
	g->clogged = false;
	*ret_wake = g->paused && !generation_too_much(g) && g->wake;
	g->paused = g->paused && !*ret_wake;
	return true;
}

bool generation_next(struct generation *g, struct gen_event *ret_ev)
{
	bool got, wake = false;

	lock_take(&g->lock);
	got = generation_take(g, ret_ev, &wake);
	lock_drop(&g->lock);
	if (wake)
		g->wake(g->wake_arg);
	return got;
}

int generation_wait(struct generation *g, struct gen_event *ret_ev, long timeout_ms)
{
	long long end = timeout_ms < 0 ? 0 : clock_ms() + timeout_ms;
	bool got, wake = false;

	lock_take(&g->lock);
	while (!(got = generation_take(g, ret_ev, &wake))) {
		long left = timeout_ms < 0 ? -1 : (long)(end - clock_ms());

		if (timeout_ms >= 0 && left <= 0)
			break;
		lock_wait(&g->lock, &g->cond, left);
	}
	lock_drop(&g->lock);
	if (wake)
		g->wake(g->wake_arg);
	return got ? 0 : -ETIMEDOUT;
}

void gen_event_fini(struct gen_event *ev)
{
	free(ev->text);
	free(ev->tool_id);
	free(ev->top);
	memset(ev, 0, sizeof *ev);
}

const char *generation_id(const struct generation *g)
{
	return g->id;
}

void generation_usage(struct generation *g, struct gen_usage *ret_u)
{
	lock_take(&g->lock);
	*ret_u = g->usage;
	lock_drop(&g->lock);
}

static void generation_stop_and_wake(struct generation *g)
{
	generation_stop(g, RC_CANCELLED);
	if (g->wake)
		g->wake(g->wake_arg);
}

void generation_cancel(struct generation *g)
{
	lock_take(&g->lock);
	g->muted = true;
	lock_drop(&g->lock);
	generation_stop_and_wake(g);
}

void generation_unref(struct generation **pg)
{
	struct generation *g = *pg;

	if (!g)
		return;
	*pg = NULL;
	must_magic(g, GENERATION_MAGIC);
	lock_take(&g->lock);
	must(!g->left);
	g->muted = true;
	g->left = true;
	/* From inside the notify call there is nothing to wait for: it is the last, and the engine holds a
	 * reference. */
	while (g->notifying && !pthread_equal(g->notifier, pthread_self()))
		lock_wait(&g->lock, &g->cond, -1);
	generation_drop_events(g);
	lock_drop(&g->lock);
	generation_stop_and_wake(g);
	generation_release(&g);
}
