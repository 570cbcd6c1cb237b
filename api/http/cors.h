/* SPDX-License-Identifier: MIT
 * cors.h - pages of which other origins may read answers: none but those that are listed.
 * Threads: any. Locks: none. */
#ifndef API_CORS_H
#define API_CORS_H

#include "api/http/exchange.h"

/* `origins`: "SCHEME://HOST[:PORT]" or "*", separated by blanks. RC_CONFIG. */
int cors_check(const char *origins, struct buf *why);
/* Sets x->cors when the page that asks is of a listed origin. True for a browser's question ahead of a request
 * (OPTIONS), which has been answered: it carries no key, and the answer says nothing about routes. */
bool cors_admit(struct exchange *x, const char *origins);

#endif
