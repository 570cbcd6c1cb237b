/* SPDX-License-Identifier: MIT
 * explain_reply.h - what the indexer made of a text, as io.dsv4.Kernels.Explain replies it.
 * Threads: control. Locks: none. */
#ifndef DAEMON_EXPLAIN_REPLY_H
#define DAEMON_EXPLAIN_REPLY_H

#include "daemon/verbs/explain_verify.h"
#include "engine/engine.h"

#include <jansson.h>

struct explain_reply {
	const struct tokenizer *tokenizer;
	const struct model_config *config;
	const struct explain_ask *ask;
	const char *set_from;              /* request, active (its own is gone), given */
	struct compare_side side[2];
	int n_side;                        /* 2: held against another */
	int rows;                          /* told per place and layer */
	const struct explain_verify *verify;
};
/* The whole reply; the caller's. r[n_side]. */
json_t *explain_reply_json(const struct explain_reply *e, const struct explain_result *r);

#endif
