/* SPDX-License-Identifier: MIT
 * http.h - the HTTP server: starts, ticks and stops it; everything else of api/ hangs below.
 * Threads: control calls these; libmicrohttpd's threads serve. Lock: http (the list of calls). */
#ifndef API_HTTP_H
#define API_HTTP_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_DEFAULT_LISTEN "127.0.0.1:8420"
#define HTTP_OWN_LABEL "probe"

struct engine;
struct http;
struct http_next;
struct question;

/* Zero-initialise; 0 and NULL mean the defaults in brackets. */
struct http_options {
	const char *listen;        /* "ADDR:PORT", "[ADDR6]:PORT", separated by blanks; port 0: any
				    * [HTTP_DEFAULT_LISTEN, none when there are fds] */
	const int *fds;            /* listening sockets, TCP or Unix; taken over, also on failure */
	int n_fds;
	const char *tls_cert, *tls_key; /* PEM files; TCP then talks TLS only [no TLS] */
	const char *cors;          /* origins whose pages may read answers (cors.h) [none] */
	const char *keys;          /* path of the key file (keys.h) [everyone may call] */
	bool allow_no_keys;        /* everyone may call, though other machines can */
	const char *own_key;       /* of this process, in no file: calls with it have no limits and the label
				    * HTTP_OWN_LABEL [none] */
	const char *version;       /* for GET /version [""] */
	int max_connections;       /* of each socket [256] */
	int max_connections_per_address; /* [as many as there may be] */
	double head, body;         /* seconds until a request's head is whole [10], and its body [300] */
	double idle;               /* seconds that a connection may be silent [60] */
	double unread;             /* seconds after which a stream ends that nobody reads [900] */
	int threads;               /* of libmicrohttpd; parsing and tokenizing happen on them [4] */
	size_t max_body;           /* bytes of one request's body, more is 413 [8 MiB] */
	size_t max_body_total;     /* of all bodies held at once, more is 503 [8 * max_body] */
	double keep_alive;         /* seconds of silence after which a parked stream gets a comment; < 0: never [4] */
	bool repetition_guard;     /* answers that loop are ended, unless their request says otherwise */
	double stall;              /* seconds with work but no engine step that turn /ready red [120] */
	/* Takes over a question (question.h) about what only the program around the server knows; on any thread,
	 * must not block [nobody answers]. */
	void (*ask)(void *arg, struct question *q); void *ask_arg;
};

/* Listens and serves `e`, which must outlive the server. `why` names the address and the errno.
 * RC_INVALID for an address that cannot be parsed, -errno for one that cannot be bound, RC_CONFIG for what is
 * wrong in a file and for a server that would be open to other machines. */
int http_start(const struct http_options *o, struct engine *e, struct http **ret_h, struct buf *why);
/* Are the files that the options name fit for use? What http_start() would say of them. */
int http_check(const struct http_options *o, struct buf *why);
/* The files again, as they are now; of `o` only their paths count. http_next_use() takes over what was read and
 * cannot fail; until then the old is in use. */
int http_next_read(const struct http *h, const struct http_options *o, struct http_next **ret_next, struct buf *why);
struct keys_change;
/* *ret_change (keys.h): how the keys differ; false, and zeroes, where there are no keys. */
bool http_next_use(struct http *h, struct http_next **next, struct keys_change *ret_change);
void http_next_free(struct http_next **next);
/* Call about once a second: notices vanished clients and keeps parked streams alive. */
void http_tick(struct http *h);
/* The bound addresses, e.g. "127.0.0.1:8420 unix:/run/dsv4d/http", with the real port when port 0 was asked for. */
const char *http_address(const struct http *h);
/* How this process reaches the first of them: "https://127.0.0.1:8420", "unix:/run/dsv4d/http"; nothing when there is
 * none. */
void http_own_url(const struct http *h, struct buf *ret_url);
/* Can only this machine reach all of them? */
bool http_is_local(const struct http *h);
/* Stops accepting, ends running streams with an error event and [DONE], other calls with 503, joins the
 * threads, frees. Drain the engine first to let them finish. NULL is fine. */
void http_stop(struct http **h);

#endif
