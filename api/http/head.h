/* SPDX-License-Identifier: MIT
 * head.h - what a request's line and headers alone decide: framing, keys, limits, media type.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#ifndef API_HEAD_H
#define API_HEAD_H

#include "api/http/exchange.h"
#include "engine/base/keyhash.h"

struct head_options {
	struct keys *keys;         /* NULL: everyone may call */
	const struct keyhash *own; /* http_options.own_key's, or NULL */
	bool any_host;             /* without keys: whatever name the client calls us by */
	const char *cors;          /* origins (cors.h) or NULL */
	size_t max_body;
};

/* Leaves the first thing that is wrong in x->error, and admits the caller's key into x->pass. `old`: HTTP/1.0,
 * where Host may be missing. A browser's question ahead of a request is answered here. */
void head_check(struct exchange *x, const struct head_options *o, bool old);
/* Does the client wait for a word before it sends its body, or would the body be too long to swallow? Then an
 * error is answered at once. */
bool head_refuses_now(const struct exchange *x, size_t max_body);

#endif
