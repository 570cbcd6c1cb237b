/* SPDX-License-Identifier: MIT
 * chat.h - whole chat completions: the OpenAI response of what was generated, and running one without a socket.
 * Threads: any. Locks: none. */
#ifndef API_CHAT_H
#define API_CHAT_H

#include "api/request/collect.h"
#include "api/request/openai_json.h"
#include "engine/engine.h"

#include <jansson.h>

/* The "chat.completion" object of n choices that all came to an answer. */
json_t *chat_response(const struct openai_head *h, const struct collect *choice, int n, const struct gen_usage *usage);

#define CHAT_SILENCE_MS 100

/* Sees every event in order before it is collected, and NULL after each CHAT_SILENCE_MS without
 * one; non-zero cancels the request. */
typedef int chat_event_f(void *arg, const struct gen_event *ev);

/* Numbers of its own, no cache, an id that the caller knows beforehand: as in a generation_spec. */
struct chat_under {
	const char *id;
	struct kset *set;
	const struct numerics *numerics;
	bool cache_off;
};

/* Runs one chat body (as POST /v1/chat/completions takes) to its end on the calling thread, without a socket;
 * for probes. `stream` and `n` in the body are ignored. cb and `under` may be NULL. On success the caller owns
 * *ret_response, whose "id" is the request's id in the ring. Errors: as chat_request_parse() and engine_submit(),
 * RC_CANCELLED, and the rc of a generation that failed; `why` begins with the parameter's name where one is at
 * fault. */
int chat_run(struct engine *e, const struct chat_under *under, json_t *body, chat_event_f *cb, void *arg,
	json_t **ret_response, struct buf *why);

#endif
