/* SPDX-License-Identifier: MIT
 * probe_exchange.h - one raw HTTP exchange with a chat server: what is asked, what came back and when.
 * Threads: one at a time per exchange. Locks: none. */
#ifndef CTL_PROBE_EXCHANGE_H
#define CTL_PROBE_EXCHANGE_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A piece of a 2xx answer's body as it came, `at` seconds after the request began; nonzero drops the connection. */
typedef int probe_piece_f(void *arg, const char *bytes, size_t len, double at);

struct probe_request {
	const char *method;   /* "GET", "POST" */
	const char *path;     /* below the API's base, which ends in /v1 on most servers: "/chat/completions" */
	json_t *headers;      /* {name: value}, in place of the peer's own of that name; "" leaves it out. NULL: none */
	const char *body;     /* NULL: none */
	size_t len;
	probe_piece_f *piece; /* NULL: nobody looks before the end */
	void *arg;
	int64_t tokens;       /* of the answer at most: a long one may take longer. 0: few */
	int patience;         /* seconds without a byte after which it fails with RC_TIMEOUT; 0: the peer's own */
};

/* Zero-initialise. */
struct probe_reply {
	int status;
	json_t *headers;      /* {lower-case name: value}; of several with one name the last */
	struct buf body;
	double first, total;  /* seconds to the first byte of the body and to the end */
	bool dropped;         /* by `piece` */
};

/* A header's value by its lower-case name, "" when there is none. */
const char *probe_reply_header(const struct probe_reply *r, const char *name);
void probe_reply_fini(struct probe_reply *r);

#endif
