/* SPDX-License-Identifier: MIT
 * probe_chat.h - chat completions over any peer's raw HTTP: what is asked in forms that other servers know, too.
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_CHAT_H
#define CTL_PROBE_CHAT_H

#include "ctl/probe/probe.h"
#include "ctl/probe/probe_stream.h"

/* Zero-initialise; http and arg are the caller's. */
struct probe_chat {
	int (*http)(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why);
	void *arg;
	int patience;           /* as a probe_request's */
	bool plain;             /* the server refuses fields that are not OpenAI's: they are left out from then on */
	struct buf refusal;     /* what it said */
};
void probe_chat_fini(struct probe_chat *c);

/* One request as JSON. body as of `chat`, with `stream` when s is given; whether the model thinks (`thinking`) is said
 * in the forms of others too, and asked again without what is not OpenAI's when that gets 400 or 422. The answer is in
 * ret_r or s; 0, a failed exchange, or what probe_chat_error() says of it. ret_r is filled whenever an answer came. */
int probe_chat_send(struct probe_chat *c, json_t *body, struct probe_stream *s,
		    struct probe_reply *ret_r, struct buf *why);
/* A peer's `chat`: whole with delta NULL, streamed otherwise. Reasoning stands in reasoning_content in any case. */
int probe_chat(struct probe_chat *c, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply,
	       struct buf *why);
/* The id in GET /models that is `wanted`, or the first when that is NULL; *ret_context is 0 when the server does not
 * say. RC_NOT_FOUND when there is none such. */
int probe_chat_model(struct probe_chat *c, const char *wanted, struct buf *ret_model, int *ret_context,
		     struct buf *why);
/* The code of an answer that is no 2xx, `why` has its status and the server's message; 0 for a 2xx. */
int probe_chat_error(const struct probe_reply *r, struct buf *why);

#endif
