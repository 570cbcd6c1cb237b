/* SPDX-License-Identifier: MIT
 * sse.c - the framing of server-sent events.
 * Threads: any. Locks: none. */
#include "api/http/sse.h"
#include "api/http/body.h"

void sse_data(struct buf *out, json_t *event)
{
	buf_adds(out, "data: ");
	body_print(out, event); /* on one line, so it is one data line */
	buf_adds(out, "\n\n");
}

void sse_event(struct buf *out, const char *name, json_t *event)
{
	buf_printf(out, "event: %s\n", name);
	sse_data(out, event);
}

void sse_comment(struct buf *out, const char *text)
{
	buf_printf(out, ": %s\n\n", text);
}

void sse_done(struct buf *out)
{
	buf_adds(out, "data: [DONE]\n\n");
}
