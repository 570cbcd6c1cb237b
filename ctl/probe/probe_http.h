/* SPDX-License-Identifier: MIT
 * probe_http.h - a chat server by its URL: HTTP by libcurl, with what a probe must not do left out.
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_HTTP_H
#define CTL_PROBE_HTTP_H

#include "ctl/probe/probe.h"

struct probe_http;

/* Zero-initialise; 0 and NULL mean the defaults in brackets. */
struct probe_http_options {
	const char *url;       /* the API's base, "https://HOST[:PORT][/PATH]", without a path /v1; or "unix:/SOCKET" */
	const char *key;       /* sent as Authorization: Bearer [none] */
	bool own;              /* a server of this process: no proxy, any certificate */
	int patience;          /* seconds without a byte after which an exchange fails [600] */
	bool (*cancelled)(void *arg); void *arg; /* asked about once a second; true ends an exchange [never] */
};

/* RC_INVALID for a URL or a key that cannot be; why never shows the key. */
int probe_http_new(const struct probe_http_options *o, struct probe_http **ret_h, struct buf *why);
void probe_http_free(struct probe_http **h);
/* A peer's `http`; h is the probe_http. Redirects are not followed. -ECONNREFUSED: nobody there, or not who its
 * certificate says; -ECONNRESET: no whole answer; RC_TIMEOUT, RC_TOO_LARGE, RC_CANCELLED. */
int probe_http_exchange(void *h, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why);
/* Can only this machine reach the server, as far as its address says? */
bool probe_http_is_local(const struct probe_http *h);
/* Puts asterisks where the key stands: a server may repeat it in what it says. */
void probe_http_hide(const struct probe_http *h, struct buf *text);

#endif
