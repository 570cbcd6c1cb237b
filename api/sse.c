/* SPDX-License-Identifier: MIT
 * sse.c - the framing of server-sent events.
 * Threads: any. Locks: none. */
#include "api/sse.h"
#include "engine/base/must.h"

static int sse_dump(const char *data, size_t len, void *arg)
{
	buf_add(arg, data, len);
	return 0;
}

void sse_data(struct buf *out, json_t *event)
{
	must(event);
	buf_adds(out, "data: ");
	/* Compact JSON holds no line break, so it is one data line. */
	must_zero(json_dump_callback(event, sse_dump, out, JSON_COMPACT));
	buf_adds(out, "\n\n");
	json_decref(event);
}

void sse_comment(struct buf *out, const char *text)
{
	buf_printf(out, ": %s\n\n", text);
}

void sse_done(struct buf *out)
{
	buf_adds(out, "data: [DONE]\n\n");
}
