/* SPDX-License-Identifier: MIT
 * openai_json.h - the pieces that whole and streamed chat answers share.
 * Threads: any. Locks: none. */
#ifndef API_OPENAI_JSON_H
#define API_OPENAI_JSON_H

#include "api/http/error.h"
#include "engine/engine.h"

#include <jansson.h>
#include <time.h>

/* What every object of one answer repeats. */
struct openai_head {
	const struct engine *engine;
	const char *id;
	time_t created;
};

/* {"id","object","created","model"} */
json_t *openai_json_head(const struct openai_head *h, const char *object);
json_t *openai_json_usage(const struct gen_usage *u);
/* "stop", "length", "tool_calls"; NULL for the rest. */
const char *openai_json_finish(enum gen_finish f);
/* {"token","logprob","bytes","top_logprobs"} of a GEN_EV_LOGPROB. */
json_t *openai_json_logprob(const struct tokenizer *t, const struct gen_event *ev);
/* Appends a GEN_EV_LOGPROB to *io_logprobs, made when NULL: {"content":[], "reasoning_content":[]}. */
void openai_json_add_logprob(json_t **io_logprobs, const struct tokenizer *t, const struct gen_event *ev);

#endif
