/* SPDX-License-Identifier: MIT
 * fake_ask.c - stands in for the program around the server: holds questions until it is told to answer them.
 * Threads: any. Lock: fake_ask. */
#include "tests/http/fake_ask.h"
#include "api/http/metrics.h"
#include "api/http/question.h"
#include "engine/base/lock.h"
#include "engine/base/must.h"

#define FAKE_ASK_MAX 32

static struct lock fake_ask_lock;
static pthread_cond_t fake_ask_cond;
static struct question *fake_ask_held[FAKE_ASK_MAX];
static int fake_ask_n;

void fake_ask_init(void)
{
	lock_init(&fake_ask_lock, "fake_ask");
	lock_cond_init(&fake_ask_cond);
}

void fake_ask_fini(void)
{
	fake_ask_answer();
	must_zero(pthread_cond_destroy(&fake_ask_cond));
	lock_fini(&fake_ask_lock);
}

void fake_ask(void *unused, struct question *q)
{
	(void)unused;
	lock_take(&fake_ask_lock);
	must(fake_ask_n < FAKE_ASK_MAX);
	fake_ask_held[fake_ask_n++] = q;
	must_zero(pthread_cond_broadcast(&fake_ask_cond));
	lock_drop(&fake_ask_lock);
}

void fake_ask_wait(int n)
{
	lock_take(&fake_ask_lock);
	while (fake_ask_n != n)
		lock_wait(&fake_ask_lock, &fake_ask_cond, -1);
	lock_drop(&fake_ask_lock);
}

void fake_ask_answer(void)
{
	struct question *q[FAKE_ASK_MAX];
	int n;

	lock_take(&fake_ask_lock);
	n = fake_ask_n;
	for (int i = 0; i < n; i++)
		q[i] = fake_ask_held[i];
	fake_ask_n = 0;
	lock_drop(&fake_ask_lock);
	for (int i = 0; i < n; i++) {
		if (q[i]->about == QUESTION_METRICS)
			metrics_put(q[i]->metrics, METRIC_epoch, 7, NULL);
		else
			q[i]->status = json_pack("{s:i}", "held", n);
		question_answered(&q[i]);
	}
}
