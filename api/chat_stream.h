/* SPDX-License-Identifier: MIT
 * chat_stream.h - a generation's events to the events of a streamed chat completion.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_CHAT_STREAM_H
#define API_CHAT_STREAM_H

#include "api/chat_json.h"

/* Start from {.head, .include_usage}. */
struct chat_stream {
	struct chat_head head;
	bool include_usage;
	json_t *logprobs;      /* of tokens whose text has not come yet */
	bool ended;            /* [DONE] was written */
};

/* The role chunk, before anything else. */
void chat_stream_begin(struct chat_stream *s, struct buf *out);
/* One event to its chunk. The FINISH gives the one finish_reason, the usage chunk if asked for, and [DONE];
 * or an error event and [DONE]. */
void chat_stream_event(struct chat_stream *s, const struct gen_event *ev, const struct gen_usage *usage,
		       struct buf *out);
/* An error event and [DONE]; nothing when the stream has ended. */
void chat_stream_fail(struct chat_stream *s, const struct error *err, struct buf *out);
void chat_stream_fini(struct chat_stream *s);

#endif
