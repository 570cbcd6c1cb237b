/* SPDX-License-Identifier: MIT
 * picking.h - the next tokens of several requests, picked side by side on the pool's threads.
 * Threads: the engine thread, while no op runs. Locks: none (the pool's). */
#ifndef ENGINE_PICKING_H
#define ENGINE_PICKING_H

#include "engine/kernels/pool.h"
#include "engine/serve/request.h"

struct picking;

/* For at most max requests at once. The pool is borrowed. -ENOMEM. */
int picking_new(int vocab, int max, struct pool *p, struct picking **ret_p);
void picking_free(struct picking **p);

/* Adds a request whose next token is to be picked from logits [vocab], which stay until picking_run() is over. */
void picking_add(struct picking *p, struct request *r, const float *logits);
/* request_answer_pick() for all that were added since it ran last. What is picked depends on each request alone, never
 * on threads or on who else is there. */
void picking_run(struct picking *p);

#endif
