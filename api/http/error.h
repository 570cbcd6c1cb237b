/* SPDX-License-Identifier: MIT
 * error.h - what went wrong with a call, and its OpenAI error body.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_ERROR_H
#define API_ERROR_H

#include "engine/base/buf.h"

#include <jansson.h>

/* Start from {0}; rc 0 means none. */
struct error {
	int rc;
	char param[160];    /* the field at fault as a path, e.g. "messages[2].content"; "" for none */
	char code[48];      /* "": from the rc, see error_code() */
	int retry_after;    /* seconds, of RC_LIMIT and what is 503; 0: 1 */
	struct buf why;     /* the message */
};

void error_fini(struct error *err);
/* Replaces what was there and returns rc; param may be NULL. A message is at most ERROR_MAX_MESSAGE bytes, whatever of
 * the request it repeats. */
#define ERROR_MAX_MESSAGE 1024
int error_set(struct error *err, int rc, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Takes over the engine's `why`; where it begins with the path of a request field ("messages[3].content:
 * ..."), that becomes the param. */
int error_from_engine(struct error *err, int rc, const struct buf *why);
/* A param that is the path `from`, or one below it, is `to` instead, in the message as well. */
void error_rename(struct error *err, const char *from, const char *to);
/* The `code` of the body: err->code, or e.g. "context_length_exceeded", "busy". */
const char *error_code(const struct error *err, char out[48]);
/* {"error":{message,type,param,code,request_id}}; a context overflow carries both numbers as well. */
json_t *error_json(const struct error *err, const char *request_id);
/* What clients of /v1/messages expect: {"type":"error","error":{type,message,...},"request_id":...}. Types
 * are named as there, and message, param and code are where error_json() has them. */
json_t *error_json_messages(const struct error *err, const char *request_id);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. */
json_t *error_text(const char *s, size_t len);

#endif
