/* SPDX-License-Identifier: MIT
 * chat.h - one whole chat completion: collects a generation's events into an OpenAI response.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_CHAT_H
#define API_CHAT_H

#include "api/error.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdbool.h>

struct chat;

/* id is copied. */
struct chat *chat_new(const struct engine *e, const char *id);
void chat_free(struct chat **ch);
/* Takes in one event; true after the FINISH. */
bool chat_add(struct chat *ch, const struct gen_event *ev);
/* After the FINISH: the "chat.completion" object, or the error of a generation that did not get there. Calls
 * that were cut off are left out. */
int chat_response(const struct chat *ch, const struct gen_usage *usage, json_t **ret_response,
		  struct error *err);

/* Sees every event in order before it is collected; non-zero cancels the request. */
typedef int chat_event_f(void *arg, const struct gen_event *ev);

/* Runs one chat body (as POST /v1/chat/completions takes) to its end on the calling thread, without a socket;
 * for probes. `stream` in the body is ignored. cb may be NULL. On success the caller owns *ret_response,
 * whose "id" is the request's id in the ring. Errors: as chat_request_parse() and engine_submit(),
 * RC_CANCELLED, and the rc of a generation that failed; `why` begins with the parameter's name where one is
 * at fault. */
int chat_run(struct engine *e, json_t *body, chat_event_f *cb, void *arg, json_t **ret_response,
	     struct buf *why);

#endif
