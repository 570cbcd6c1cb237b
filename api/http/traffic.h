/* SPDX-License-Identifier: MIT
 * traffic.h - counts of HTTP calls by route and status.
 * Threads: any. Locks: none (atomics). */
#ifndef API_TRAFFIC_H
#define API_TRAFFIC_H

#include "api/http/router.h"

#include <stdbool.h>
#include <stdint.h>

struct metrics;
struct traffic;

struct traffic *traffic_new(void);
/* NULL is fine. */
void traffic_free(struct traffic **t);

void traffic_began(struct traffic *t);
/* route NULL: none matched. status 0: no reply was begun. */
struct traffic_call {
	const struct route *route;
	int status;
	int rc;                /* of the error that was its answer; 0: none */
	bool gone;             /* its client was, before the end */
	uint64_t sent;         /* bytes of the reply's body */
};
void traffic_ended(struct traffic *t, const struct traffic_call *c);
void traffic_metrics(struct traffic *t, struct metrics *m);

#endif
