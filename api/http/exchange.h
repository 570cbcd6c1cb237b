/* SPDX-License-Identifier: MIT
 * exchange.h - one HTTP exchange, from its headers to its last byte: body, reply, stream, waiting.
 * Threads: the connection's libmicrohttpd thread; exchange_wake() from any. Locks: none. */
#ifndef API_EXCHANGE_H
#define API_EXCHANGE_H

#include "api/http/error.h"
#include "api/http/keys.h"
#include "api/http/router.h"
#include "engine/base/list.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

struct engine;
struct http;

/* Why a waiting call is woken. */
enum exchange_wake {
	EXCHANGE_EVENTS = 1,    /* what it waits for has something new */
	EXCHANGE_TICK = 2,      /* a keep-alive is due, or the client may have left */
	EXCHANGE_STOPPING = 4,  /* the server ends: finish now */
	EXCHANGE_PARKED = 8     /* internal: suspended in libmicrohttpd, the next waker must resume it */
};

/* What a call does after its handler returned: a stream's producer, or a reply that comes later. */
struct exchange_work {
	/* Runs on the connection's thread whenever exchange_wake() was called, and once at the start. A
	 * stream appends to x->out and ends with exchange_finish(); a deferred call ends with
	 * exchange_reply() or exchange_fail(). */
	void (*step)(struct exchange *x, void *arg, unsigned why);
	/* The exchange is over, also when the client vanished: lets go of everything. */
	void (*end)(void *arg);
	void *arg;
};

struct exchange {
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
	char allow[ROUTER_ALLOW];     /* for 405 */
	const char *cors;             /* Access-Control-Allow-Origin of the reply, or NULL */
	struct keys_pass pass;        /* the key it came with */
	char label[32];               /* where from, for the request ring: "http", or "http:" and the key's name */
	char *body; size_t body_len, body_cap, body_seen;
	struct error error;           /* found before the body was read; answered after it */
	int status;                   /* of the reply; 0 before */
	int retry_after;              /* seconds, for 429 and 503; 0: 1 */
	char failed[48];              /* error code for the log; "" when all went well */
	double started;               /* clock_s() */
	/* waiting and streaming */
	struct exchange_work work;
	atomic_uint wake;             /* bits of enum exchange_wake */
	_Atomic double quiet_since;   /* clock_s(): the last time that bytes of a stream went out */
	int fd;                       /* the connection's */
	struct { int queued; double sent, since; } stuck; /* the ticking thread's: exchange_unread() */
	atomic_bool cut;              /* by us, since nobody read */
	atomic_bool streaming;
	bool finished;
	bool abandoned;               /* finished since its client was gone */
	bool close;                   /* nothing after this request on its connection can be trusted */
	bool blurted;                 /* refused in the middle of its body: exchange_blurt() */
	double linger;                /* clock_s(): then so much has been sent in vain that the connection is closed */
	int rc;                       /* of the error that was the answer, or 0 */
	struct buf out; size_t out_at; /* bytes of the stream not yet taken by libmicrohttpd */
	uint64_t sent;
};

struct exchange *exchange_new(struct http *h, struct engine *e, struct MHD_Connection *conn,
			      const char *method, const char *url);
void exchange_free(struct exchange **x);
/* Adds body bytes; false when the connection should be dropped. Too large a body is swallowed up to a point,
 * so that the client gets to read the 413; it then gets it in the middle. */
bool exchange_take_body(struct exchange *x, const char *data, size_t len, size_t max, size_t max_total,
			atomic_size_t *total);
/* Gives the body's memory back once it was parsed. */
void exchange_drop_body(struct exchange *x, atomic_size_t *total);

/* Replies; one of these, once. exchange_reply takes over `body`, exchange_reply_text what is in `text`. */
void exchange_reply(struct exchange *x, unsigned status, json_t *body);
void exchange_reply_text(struct exchange *x, unsigned status, struct buf *text);
/* The same with headers of its own, Content-Type among them, up to one without a name. */
struct exchange_header { const char *name, *value; };
void exchange_reply_with(struct exchange *x, unsigned status, struct buf *text, const struct exchange_header *header);
void exchange_fail(struct exchange *x, const struct error *err);
/* Refuses with x->error while the body is still coming, which libmicrohttpd cannot: writes to the connection itself.
 * What the client sends on is then swallowed for a little, so that it gets to read this, and the connection closed. */
void exchange_blurt(struct exchange *x);
/* To a browser that asks whether its page may: yes. */
void exchange_preflight(struct exchange *x);
/* The error's body in the form that clients of the path expect; also for an error within a stream. */
json_t *exchange_error(const struct exchange *x, const struct error *err);

/* Begins a text/event-stream that work produces; or a reply that work gives later. */
void exchange_stream(struct exchange *x, const struct exchange_work *work);
void exchange_defer(struct exchange *x, const struct exchange_work *work);
/* No more to come: ends a stream; a deferred call without a reply is cut off (its client is gone). */
void exchange_finish(struct exchange *x);
/* The same, since its client is gone: libmicrohttpd may not have noticed. */
void exchange_abandon(struct exchange *x);
/* Steps a deferred call, or parks it. For http.c. */
enum MHD_Result exchange_advance(struct exchange *x);

/* From any thread, while the call is known to live: listed in http, or before its work's end() returned. */
void exchange_wake(struct exchange *x, unsigned why);
/* Did the client close its connection? From any thread, as above. */
bool exchange_gone(const struct exchange *x);
/* Is there more than its socket takes? From any thread, as above. */
bool exchange_full(const struct exchange *x);
/* For the tick: has nobody read the stream for http_unread() seconds? Then exchange_cut() ends it. */
bool exchange_unread(struct exchange *x, double now);
void exchange_cut(struct exchange *x);
/* A tick for a call that waits: wakes it only when there is something to do, a client that left or a stream that was
 * silent for `keep_alive` seconds. */
void exchange_tick(struct exchange *x, double now, double keep_alive);

#endif
