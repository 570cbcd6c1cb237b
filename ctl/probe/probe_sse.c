/* SPDX-License-Identifier: MIT
 * probe_sse.c - server-sent events as they arrive, read strictly: what a browser would pass over is an error.
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_sse.h"
#include "engine/base/rc.h"

#include <string.h>

#define SSE_SHOWN 60 /* bytes of a bad line that are told */

static const char *const probe_sse_others[] = { "event", "id", "retry" };

static int probe_sse_bad(const struct probe_sse *s, struct buf *why)
{
	return buf_why(why, RC_INVALID, "a line that no event stream has: \"%.*s\"", SSE_SHOWN, buf_str(&s->line));
}

static bool probe_sse_is(const struct probe_sse *s, size_t name, const char *want)
{
	return strlen(want) == name && !memcmp(s->line.data, want, name);
}

static int probe_sse_field(struct probe_sse *s, struct buf *why)
{
	const char *colon = memchr(s->line.data, ':', s->line.len);
	size_t name = colon ? (size_t)(colon - s->line.data) : s->line.len, at = name + (colon != NULL);

	if (probe_sse_is(s, name, "data")) {
		at += at < s->line.len && s->line.data[at] == ' ';
		if (s->has_data)
			buf_addc(&s->data, '\n');
		buf_add(&s->data, s->line.data + at, s->line.len - at);
		s->has_data = true;
		return 0;
	}
	for (size_t i = 0; i < sizeof probe_sse_others / sizeof *probe_sse_others; i++)
		if (probe_sse_is(s, name, probe_sse_others[i]))
			return 0;
	return probe_sse_bad(s, why);
}

/* A whole line without its end. */
static int probe_sse_line(struct probe_sse *s, struct buf *why)
{
	int r = 0;

	if (s->line.len && s->line.data[s->line.len - 1] == '\r')
		s->line.data[--s->line.len] = '\0';
	if (s->line.len == 0 && s->has_data) {
		r = s->event(s->arg, buf_str(&s->data), s->data.len, why);
		buf_clear(&s->data);
		s->has_data = false;
	} else if (s->line.len && s->line.data[0] == ':') {
		s->comments++;
	} else if (s->line.len &&
		   (memchr(s->line.data, '\r', s->line.len) || memchr(s->line.data, '\0', s->line.len))) {
		r = probe_sse_bad(s, why);
	} else if (s->line.len) {
		r = probe_sse_field(s, why);
	}
	buf_clear(&s->line);
	return r;
}

int probe_sse_add(struct probe_sse *s, const char *bytes, size_t len, struct buf *why)
{
	int r = 0;

	while (len && !r) {
		const char *end = memchr(bytes, '\n', len);
		size_t n = end ? (size_t)(end - bytes) : len;

		if (s->line.len + s->data.len + n > PROBE_SSE_MAX)
			return buf_why(why, RC_TOO_LARGE, "an event of more than %d bytes", PROBE_SSE_MAX);
		buf_add(&s->line, bytes, n);
		if (end)
			r = probe_sse_line(s, why);
		n += end != NULL;
		bytes += n;
		len -= n;
	}
	return r;
}

int probe_sse_end(const struct probe_sse *s, struct buf *why)
{
	return s->line.len || s->has_data ? buf_why(why, RC_INVALID, "the last event is cut off") : 0;
}

void probe_sse_fini(struct probe_sse *s)
{
	buf_fini(&s->line);
	buf_fini(&s->data);
	*s = (struct probe_sse){ 0 };
}
