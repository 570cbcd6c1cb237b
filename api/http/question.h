/* SPDX-License-Identifier: MIT
 * question.h - what serves HTTP asks the program around it, which answers on a thread of its own.
 * Threads: the connection's libmicrohttpd thread asks, any answers. Lock: question (own, short). */
#ifndef API_QUESTION_H
#define API_QUESTION_H

#include "api/http/exchange.h"

struct metrics;

enum question_about {
	QUESTION_METRICS, /* add samples to `metrics` */
	QUESTION_STATUS   /* set `status` */
};

struct question {
	enum question_about about;
	struct metrics *metrics;
	json_t *status;          /* NULL: there is none now */
	struct question_own *own;
};

/* Defers the call until the question is answered, then `reply` replies. Where nobody is there to ask, at once. */
typedef void question_reply_f(struct exchange *x, struct question *q);
void question_ask(struct exchange *x, enum question_about about, question_reply_f *reply);
/* By whom the question was given to (http_options.ask), once, in whatever time it takes; nulls *q. */
void question_answered(struct question **q);

#endif
