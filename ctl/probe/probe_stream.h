/* SPDX-License-Identifier: MIT
 * probe_stream.h - a streamed answer put together into one chat.completion, and what its stream was like.
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_STREAM_H
#define CTL_PROBE_STREAM_H

#include "ctl/probe/probe.h"
#include "ctl/probe/probe_sse.h"

#define PROBE_STREAM_CALLS 64 /* tool calls of one answer */

/* Each chunk before it is read. */
typedef void probe_chunk_f(void *arg, json_t *chunk);

struct probe_stream_call {
	char *id, *name;
	struct buf arguments;
};

/* Start with probe_stream_init(). Only choice 0 is read. */
struct probe_stream {
	probe_delta_f *delta;          /* NULL: nobody looks */
	void *delta_arg;
	probe_chunk_f *chunk;          /* NULL: nobody looks */
	void *chunk_arg;
	/* What the stream was like; the answer's parts are below. */
	int chunks, texts;             /* chunks with a choice; of them with text */
	int finishes, after_finish;    /* chunks with a finish_reason; with text after it */
	double at, first, last;        /* seconds: of what is being given, of the first and last text */
	bool role_first, done, after_done;
	bool stopped;                  /* by delta */
	json_t *head;                  /* the first chunk, NULL before it */
	json_t *usage;                 /* NULL: none came */
	char *finish;
	struct buf content, reasoning;
	struct probe_stream_call call[PROBE_STREAM_CALLS];
	int n_calls;
	struct probe_sse sse;
	int rc;                        /* for who reads in pieces: what ended the reading, and why */
	struct buf why;
};

void probe_stream_init(struct probe_stream *s);
void probe_stream_fini(struct probe_stream *s);
/* The next bytes of the body. RC_INVALID: no event stream, no JSON, no chunk; RC_INTERNAL: the server's own error
 * event, `why` has its message; RC_CANCELLED: delta wants no more (`stopped`). */
int probe_stream_add(struct probe_stream *s, const char *bytes, size_t len, struct buf *why);
/* The whole body was given. RC_INVALID when the answer is not whole: an event cut off, no finish_reason. */
int probe_stream_end(const struct probe_stream *s, struct buf *why);
/* The chat.completion of what came; its usage is counted by chunks where the server told none. New reference. */
json_t *probe_stream_reply(const struct probe_stream *s);

#endif
