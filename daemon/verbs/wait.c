/* SPDX-License-Identifier: MIT
 * wait.c - calls that wait for a state of the daemon (verb `wait`).
 * Threads: control. Locks: none. */
#include "daemon/verbs/wait.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_DEFAULT_S 60
#define WAIT_MAX_S 86400

struct wait {
	struct call *call;
	struct list node;
	const char *condition;
	long long until;
	enum daemon_state told; /* what the last progress reply said */
};

/* 1: the condition holds; 0: not yet; else the error that says it never will. */
static int wait_holds(struct daemon *d, const char *condition, struct buf *why)
{
	enum daemon_state s = daemon_state(d);
	int running, queued;

	daemon_load(d, &running, &queued);
	if (s == DAEMON_FAILED)
		return buf_why(why, RC_INTERNAL, "the engine failed");
	if (s == DAEMON_STOPPING && strcmp(condition, "drained") != 0)
		return buf_why(why, RC_DRAINING, "the daemon is stopping");
	if (!strcmp(condition, "ready"))
		return s == DAEMON_READY;
	if (!strcmp(condition, "idle"))
		return s != DAEMON_LOADING && running + queued == 0;
	return (s == DAEMON_DRAINED || s == DAEMON_STOPPING) && running + queued == 0;
}

static json_t *wait_reply(struct daemon *d)
{
	int running, queued;

	daemon_load(d, &running, &queued);
	return json_pack("{s:s, s:i, s:i}", "state", daemon_state_name(daemon_state(d)), "running", running,
			 "queued",
			 queued);
}

static void wait_free(struct wait *w)
{
	list_del(&w->node);
	free(w);
}

static void wait_gone(struct call *c)
{
	struct wait *w = c->arg;

	wait_free(w);
	call_fail(&c, RC_CANCELLED, NULL);
}

int verb_wait(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	long long seconds = call_int(c, "timeout", WAIT_DEFAULT_S);
	const char *condition = call_string(c, "condition", "");
	struct wait *w;
	int r;

	if (seconds < 0 || seconds > WAIT_MAX_S)
		return buf_why(why, RC_INVALID, "timeout: must be within 0 to %d seconds", WAIT_MAX_S);
	r = wait_holds(d, condition, why);
	if (r > 0)
		*ret_reply = wait_reply(d);
	if (r)
		return r < 0 ? r : 0;
	w = mem_new(sizeof *w);
	*w = (struct wait){ .call = c, .condition = condition, .until = clock_ms() + seconds * 1000 };
	w->told = daemon_state(d);
	list_put(&d->waits, &w->node);
	c->gone = wait_gone;
	c->arg = w;
	call_progress(c, wait_reply(d));
	daemon_hurry(d);
	return CALL_LATER;
}

/* Answers the call if it is time. */
static void wait_look(struct daemon *d, struct wait *w)
{
	enum daemon_state s = daemon_state(d);
	struct call *c = w->call;
	struct buf why = { 0 };
	int r = wait_holds(d, w->condition, &why);

	if (r == 0 && clock_ms() < w->until) {
		if (s != w->told)
			call_progress(c, wait_reply(d));
		w->told = s;
		return;
	}
	if (r == 0)
		r = buf_why(&why, RC_TIMEOUT, "not %s within the timeout, the state is %s", w->condition,
			    daemon_state_name(s));
	wait_free(w);
	if (r > 0)
		call_reply(&c, wait_reply(d));
	else
		call_fail(&c, r, buf_str(&why));
	buf_fini(&why);
}

bool wait_tick(struct daemon *d)
{
	struct list *next;

	for (struct list *n = d->waits.next; n != &d->waits; n = next) {
		next = n->next;
		wait_look(d, list_entry(n, struct wait, node));
	}
	return !list_empty(&d->waits);
}

void wait_fini(struct daemon *d)
{
	while (!list_empty(&d->waits)) {
		struct wait *w = list_entry(d->waits.next, struct wait, node);
		struct call *c = w->call;

		wait_free(w);
		call_fail(&c, RC_DRAINING, "the daemon has stopped");
	}
}
