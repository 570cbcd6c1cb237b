/* SPDX-License-Identifier: MIT
 * probe_sse.h - server-sent events as they arrive, read strictly: what a browser would pass over is an error.
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_SSE_H
#define CTL_PROBE_SSE_H

#include "engine/base/buf.h"

#include <stdbool.h>

#define PROBE_SSE_MAX (4 << 20) /* bytes of one event */

/* One event's data, its lines joined by newlines; nonzero ends the reading with that code. */
typedef int probe_sse_f(void *arg, const char *data, size_t len, struct buf *why);

/* Zero-initialise; event and arg are the caller's. */
struct probe_sse {
	probe_sse_f *event;
	void *arg;
	struct buf line, data;
	bool has_data;
	int comments;
};

/* Takes the next bytes, cut anywhere. RC_INVALID: no event stream, `why` shows the line; RC_TOO_LARGE; or what event()
 * returned. After a failure only probe_sse_fini() may follow. */
int probe_sse_add(struct probe_sse *s, const char *bytes, size_t len, struct buf *why);
/* Nothing follows: RC_INVALID when the last event is not whole. */
int probe_sse_end(const struct probe_sse *s, struct buf *why);
void probe_sse_fini(struct probe_sse *s);

#endif
