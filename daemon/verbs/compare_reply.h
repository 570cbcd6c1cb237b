/* SPDX-License-Identifier: MIT
 * compare_reply.h - the result of a comparison as io.dsv4.Kernels.Compare replies it.
 * Threads: any. Locks: none. */
#ifndef DAEMON_COMPARE_REPLY_H
#define DAEMON_COMPARE_REPLY_H

#include "engine/engine.h"

#include <jansson.h>

/* What the reply says of the two sides and the prompt. */
struct compare_reply {
	const struct tokenizer *tokenizer;
	const char *source;            /* where the prompt came from */
	struct compare_side side[2];
	struct numerics in_force;      /* parameters of a side are told where they are others than these */
};
/* The whole reply; the caller's. */
json_t *compare_reply_json(const struct compare_reply *c, const struct compare_result *r);

#endif
