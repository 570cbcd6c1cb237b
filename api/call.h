/* SPDX-License-Identifier: MIT
 * call.h - one HTTP exchange, from its headers to its last byte: body, reply, stream, waiting.
 * Threads: the connection's libmicrohttpd thread; call_wake() from any. Locks: none (call->wake is atomic). */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/error.h"
#include "api/router.h"
#include "engine/base/list.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

struct engine;
struct http;

/* Why a waiting call is woken. */
enum call_wake {
	CALL_EVENTS = 1,    /* what it waits for has something new */
	CALL_TICK = 2,      /* about a second went by: time for a keep-alive, and to see if the client is still there */
	CALL_STOPPING = 4,  /* the server ends: finish now */
	CALL_PARKED = 8     /* internal: suspended in libmicrohttpd, the next waker must resume it */
};

/* What a call does after its handler returned: a stream's producer, or a reply that comes later. */
struct call_work {
	/* Runs on the connection's thread whenever call_wake() was called, and once at the start. A stream appends
	 * to c->out and ends with call_finish(); a deferred call ends with call_reply() or call_fail(). */
	void (*step)(struct call *c, void *arg, unsigned why);
	/* The exchange is over, also when the client vanished: lets go of everything. */
	void (*end)(void *arg);
	void *arg;
};

struct call {
	unsigned magic;
	struct list node;             /* http's calls */
	struct http *http;
	struct engine *engine;
	struct MHD_Connection *connection;
	const struct route *route;    /* NULL: none matched, error says why */
	const char *rest;             /* what stood for "*" in the route's path */
	char id[48];                  /* x-request-id, and the id in the request ring */
	char *path;
	const char *method;           /* libmicrohttpd's, lives as long as the call */
	const char *allow;            /* for 405 */
	char *body; size_t body_len, body_cap, body_seen;
	struct error error;           /* found before the body was read; answered after it */
	int status;                   /* of the reply; 0 before */
	char failed[48];              /* error code for the log; "" when all went well */
	double started;               /* CLOCK_MONOTONIC seconds */
	/* waiting and streaming */
	struct call_work work;
	atomic_uint wake;             /* bits of enum call_wake */
	bool streaming, finished;
	struct buf out; size_t out_at; /* bytes of the stream not yet taken by libmicrohttpd */
	uint64_t sent;
};

struct call *call_new(struct http *h, struct engine *e, struct MHD_Connection *conn, const char *method, const char *url);
void call_free(struct call **c);
/* Adds body bytes; false when the connection should be dropped. Too large a body is swallowed up to a point, so that
 * the client gets to read the 413. */
bool call_take_body(struct call *c, const char *data, size_t len, size_t max, size_t max_total, atomic_size_t *total);
/* Gives the body's memory back once it was parsed. */
void call_drop_body(struct call *c, atomic_size_t *total);

/* Replies; one of these, once. call_reply takes over `body`, call_reply_text what is in `text`. */
void call_reply(struct call *c, unsigned status, json_t *body);
void call_reply_text(struct call *c, unsigned status, struct buf *text);
void call_fail(struct call *c, const struct error *err);

/* Begins a text/event-stream that work produces; or a reply that work gives later. */
void call_stream(struct call *c, const struct call_work *work);
void call_defer(struct call *c, const struct call_work *work);
/* No more to come: ends a stream; a deferred call without a reply is cut off (its client is gone). */
void call_finish(struct call *c);
/* Steps a deferred call, or parks it. For http.c. */
enum MHD_Result call_advance(struct call *c);

/* From any thread, while the call is known to live: listed in http, or before its work's end() returned. */
void call_wake(struct call *c, unsigned why);
/* Did the client close its connection? */
bool call_gone(const struct call *c);
double call_now(void);

#endif
