/* SPDX-License-Identifier: MIT
 * chat_json.h - the pieces that whole and streamed chat answers share.
 * Threads: any. Locks: none. */
#ifndef API_CHAT_JSON_H
#define API_CHAT_JSON_H

#include "api/error.h"
#include "engine/engine.h"

#include <jansson.h>
#include <time.h>

/* What every object of one answer repeats. */
struct chat_head {
	const struct engine *engine;
	const char *id;
	time_t created;
};

/* {"id","object","created","model"} */
json_t *chat_json_head(const struct chat_head *h, const char *object);
json_t *chat_json_usage(const struct gen_usage *u);
/* "stop", "length", "tool_calls"; NULL for the rest. */
const char *chat_json_finish(enum gen_finish f);
/* {"token","logprob","bytes","top_logprobs"} of a GEN_EV_LOGPROB. */
json_t *chat_json_logprob(const struct tokenizer *t, const struct gen_event *ev);
/* Appends a GEN_EV_LOGPROB to *io_logprobs, made when NULL: {"content":[], "reasoning_content":[]}. */
void chat_json_add_logprob(json_t **io_logprobs, const struct tokenizer *t, const struct gen_event *ev);

#endif
