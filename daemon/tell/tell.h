/* SPDX-License-Identifier: MIT
 * tell.h - tells those who ask over HTTP what the daemon is and does: metrics, and the state for people.
 * Threads: control answers; tell_ask() from any. Locks: none (ops.h hands over). */
#ifndef DAEMON_TELL_H
#define DAEMON_TELL_H

#include <jansson.h>

struct daemon;
struct metrics;
struct question;

/* For http_options.ask, arg is the daemon. */
void tell_ask(void *d, struct question *q);

/* The page, or what there is of it. */
void tell_metrics(struct daemon *d, struct metrics *m);
/* tell_engine.c: what the engine did. With the engine open. */
void tell_engine(struct daemon *d, struct metrics *m);
/* tell_gpu.c: its memory and its steps, as `status` has them; on the CPU nothing. */
void tell_gpu(struct daemon *d, struct metrics *m);
/* tell_cache.c */
void tell_cache(struct daemon *d, struct metrics *m);
/* tell_kernels.c: the active set, numerics, plugins. */
void tell_kernels(struct daemon *d, struct metrics *m);
/* tell_proof.c: is it still right: the shadow's figures, the probes' verdicts. */
void tell_proof(struct daemon *d, struct metrics *m);
/* tell_status.c: the state for people, of GET /v1/status: what the verbs say to who may only look, without paths of
 * files and with ids cut short, since they come to everyone with a key. NULL: nothing can be told now. */
json_t *tell_status(struct daemon *d);
/* tell_process.c: the program and its process. */
void tell_process(struct daemon *d, struct metrics *m);

#endif
