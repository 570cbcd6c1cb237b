/* SPDX-License-Identifier: MIT
 * call.h - one Varlink call: found in the verb table, checked, permitted, handled, answered, audited.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CALL_H
#define DAEMON_CALL_H

#include "ctl/varlink.h"
#include "ctl/verb.h"
#include "daemon/control/conn.h"

#define CALL_LATER 1 /* a handler keeps the call and answers it with call_reply() or call_fail() */

struct call {
	struct daemon *daemon;
	struct conn *conn;          /* NULL once the peer is gone; replies then go nowhere */
	const struct verb *verb;
	struct varlink_call wire;
	json_t *params;             /* never NULL; checked against the verb's arguments */
	struct peer peer;
	void (*gone)(struct call *c); /* told when the peer leaves before the answer; call_fail() frees as ever */
	/* Told when the peer has taken all replies so far, for those that send more than may
	 * wait; NULL: nobody asks. */
	void (*taken)(struct call *c);
	void *arg;                  /* the handler's */
};

/* A handler: 0 with *ret_reply, an error with why, or CALL_LATER. */
typedef int call_f(struct call *c, json_t **ret_reply, struct buf *why);

/* Handles one message; returns the call when it will be answered later, else NULL. */
struct call *call_begin(struct conn *c, const char *bytes, size_t len);
/* The connection ends before its call's answer. Nulls *c. */
void call_gone(struct call **c);
/* All replies so far have been sent. */
void call_taken(struct call *c);
/* An error outside any call. */
void call_refuse(struct conn *c, int rc, const char *message);

/* Answers of a later call. `params` is taken over. Reply and fail free the call and null it. */
void call_progress(struct call *c, json_t *params);
void call_reply(struct call **c, json_t *params);
void call_fail(struct call **c, int rc, const char *message);

/* Parameters by name; the fallback when absent. */
const char *call_string(const struct call *c, const char *name, const char *fallback);
long long call_int(const struct call *c, const char *name, long long fallback);
bool call_flag(const struct call *c, const char *name);

#endif
