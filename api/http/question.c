/* SPDX-License-Identifier: MIT
 * question.c - what serves HTTP asks the program around it, which answers on a thread of its own.
 * Threads: the connection's libmicrohttpd thread asks, any answers. Lock: question.
 *
 * Two hold it: the call and who answers. Either may be done with it first, since clients leave and servers stop. */
#include "api/http/question.h"
#include "api/http/metrics.h"
#include "api/http/server.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

struct question_own {
	question_reply_f *reply;
	struct lock lock;        /* everything below */
	int holders;
	bool answered;
	struct exchange *x;      /* NULL: the call is over */
};

static void question_release(struct question *q)
{
	bool last;

	lock_take(&q->own->lock);
	last = --q->own->holders == 0;
	lock_drop(&q->own->lock);
	if (!last)
		return;
	lock_fini(&q->own->lock);
	metrics_free(&q->metrics);
	json_decref(q->status);
	free(q->own);
	free(q);
}

void question_answered(struct question **pq)
{
	struct question *q = *pq;

	*pq = NULL;
	lock_take(&q->own->lock);
	must(!q->own->answered);
	q->own->answered = true;
	/* The call cannot end meanwhile: its end takes the lock. */
	if (q->own->x)
		exchange_wake(q->own->x, EXCHANGE_EVENTS);
	lock_drop(&q->own->lock);
	question_release(q);
}

static void question_step(struct exchange *x, void *arg, unsigned why)
{
	struct question *q = arg;
	struct error err = { 0 };
	bool answered;

	lock_take(&q->own->lock);
	answered = q->own->answered;
	lock_drop(&q->own->lock);
	if (answered) {
		q->own->reply(x, q);
	} else if (why & EXCHANGE_STOPPING) {
		error_set(&err, RC_DRAINING, NULL, "the server is shutting down");
		exchange_fail(x, &err);
		error_fini(&err);
	} else if ((why & EXCHANGE_TICK) && exchange_gone(x)) {
		exchange_abandon(x);
	}
}

static void question_end(void *arg)
{
	struct question *q = arg;

	lock_take(&q->own->lock);
	q->own->x = NULL;
	lock_drop(&q->own->lock);
	question_release(q);
}

void question_ask(struct exchange *x, enum question_about about, question_reply_f *reply)
{
	struct question *q = mem_new(sizeof *q);
	struct exchange_work work = { question_step, question_end, q };

	q->about = about;
	q->own = mem_new(sizeof *q->own);
	q->own->reply = reply;
	q->own->holders = 2;
	q->own->x = x;
	lock_init(&q->own->lock, "question");
	if (about == QUESTION_METRICS)
		q->metrics = metrics_new();
	exchange_defer(x, &work);
	if (!http_ask(x->http, q))
		question_answered(&q);
}
