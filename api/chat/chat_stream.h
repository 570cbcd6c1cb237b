/* SPDX-License-Identifier: MIT
 * chat_stream.h - the events of a streamed chat completion.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_CHAT_STREAM_H
#define API_CHAT_STREAM_H

#include "api/request/answer.h"
#include "api/request/openai_json.h"

/* Start from {.head, .n, .include_usage}. */
struct chat_stream {
	struct openai_head head;
	int n;                                /* choices */
	bool include_usage;
	json_t *logprobs[ANSWER_MAX_CHOICES]; /* of tokens whose text has not come yet */
};

/* As in struct answer_form. */
void chat_stream_begin(struct chat_stream *s, struct buf *out);
void chat_stream_event(struct chat_stream *s, int choice, const struct gen_event *ev, struct buf *out);
void chat_stream_end(struct chat_stream *s, const struct gen_usage *usage, struct buf *out);
void chat_stream_fail(struct chat_stream *s, const struct error *err, struct buf *out);
void chat_stream_fini(struct chat_stream *s);

#endif
