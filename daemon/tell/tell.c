/* SPDX-License-Identifier: MIT
 * tell.c - tells those who ask over HTTP what the daemon is and does.
 * Threads: control answers; tell_ask() from any. Locks: none (ops.h hands over). */
#include "daemon/tell/tell.h"
#include "api/http/metrics.h"
#include "api/http/question.h"
#include "daemon/daemon.h"
#include "daemon/ops.h"
#include "engine/base/mem.h"

#include <stdlib.h>

struct tell {
	struct ops_note note;
	struct daemon *daemon;
	struct question *question;
};

void tell_metrics(struct daemon *d, struct metrics *m)
{
	if (!d->engine)
		return;
	tell_engine(d, m);
	tell_gpu(d, m);
	tell_cache(d, m);
	tell_kernels(d, m);
	tell_proof(d, m);
	tell_process(d, m);
}

/* At the daemon's end the last questions come when the engine is closed, and nobody waits for them any more. */
static void tell_answer(struct ops_note *n)
{
	struct tell *t = list_entry(n, struct tell, note);
	struct daemon *d = t->daemon;

	if (t->question->about == QUESTION_METRICS)
		tell_metrics(d, t->question->metrics);
	if (d->engine && t->question->about == QUESTION_STATUS)
		t->question->status = tell_status(d);
	question_answered(&t->question);
	free(t);
}

void tell_ask(void *d, struct question *q)
{
	struct tell *t = mem_new(sizeof *t);

	*t = (struct tell){ .note.fn = tell_answer, .daemon = d, .question = q };
	ops_post(t->daemon->ops, &t->note);
}
