/* SPDX-License-Identifier: MIT
 * varlink.h - the Varlink wire format: JSON objects, each ended by a NUL byte; calls, replies and their limits.
 * Threads: any. Locks: none. */
#ifndef CTL_VARLINK_H
#define CTL_VARLINK_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define VARLINK_MAX_CALL (1u << 20)   /* bytes of one call, without its NUL */
#define VARLINK_MAX_REPLY (64u << 20) /* what our own client accepts of one reply */
#define VARLINK_MAX_DEPTH 32
#define VARLINK_MAX_NAME 128          /* of a method */

/* One call or reply, checked. `root` owns everything the other pointers show. */
struct varlink_call {
	json_t *root;
	const char *method; /* "interface.Method", both parts non-empty */
	json_t *params;     /* an object, or NULL */
	bool more, oneway;
};

struct varlink_reply {
	json_t *root;
	const char *error;  /* NULL: success */
	json_t *params;     /* an object, or NULL */
	bool continues;
};

/* The length of the first complete message at the start of `in` (its NUL not counted); -EAGAIN when there is
 * none yet; RC_TOO_LARGE when there cannot be one within max bytes. *scanned starts at 0 and remembers
 * between calls what was searched, so that a peer that sends byte by byte costs linear time. */
int varlink_frame(const struct buf *in, size_t max, size_t *scanned, size_t *ret_len);

/* RC_JSON for what is no JSON object, nested deeper than VARLINK_MAX_DEPTH, or names a key twice; RC_INVALID
 * for fields of the wrong type. `why` names the field. */
int varlink_parse_call(const char *bytes, size_t len, struct varlink_call *ret_c, struct buf *why);
void varlink_call_fini(struct varlink_call *c);
int varlink_parse_reply(const char *bytes, size_t len, struct varlink_reply *ret_r, struct buf *why);
void varlink_reply_fini(struct varlink_reply *r);

/* Append one message with its NUL. `params` is borrowed and may be NULL; `error` NULL is a success. */
void varlink_put_call(struct buf *out, const char *method, json_t *params, bool more, bool oneway);
void varlink_put_reply(struct buf *out, const char *error, json_t *params, bool continues);

/* {"key": text}; bytes of text that are no UTF-8 are replaced, so that this always succeeds. */
json_t *varlink_text(const char *key, const char *text);
/* The string of any bytes, what is no UTF-8 replaced by U+FFFD. */
json_t *varlink_string(const char *bytes, size_t len);

#endif
