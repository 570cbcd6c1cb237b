/* SPDX-License-Identifier: MIT
 * request_answer.h - one token more of a request's answer, and where the token and its text go.
 * Threads: the engine thread. Locks: generation, record. */
#ifndef ENGINE_REQUEST_ANSWER_H
#define ENGINE_REQUEST_ANSWER_H

#include "engine/serve/request.h"

/* Picks the next token from logits [vocab] into r->pick and changes nothing but the request: on any thread. */
void request_answer_pick(struct request *r, struct sampler_work *w, const float *logits);
/* Picks the next token, unless that is done, and passes on what it means. True when that was the last; *ret_end says
 * why. */
bool request_answer_sample(struct request *r, struct sampler_work *w, const float *logits,
			   struct request_end *ret_end);
/* Lets the parser pass on what it still holds; *ret_end says how the answer ended. */
void request_answer_end(struct request *r, enum completion_why cause, struct request_end *ret_end);
/* Of completion_options: `arg` is the request. */
void request_answer_emit(void *arg, const struct completion_event *ev);

#endif
