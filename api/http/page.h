/* SPDX-License-Identifier: MIT
 * page.h - GET /: one static page that shows the live state and has a chat box.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "api/http/exchange.h"

/* api/page/index.html, made into page_data.c when the program is built. */
extern const unsigned char page_html[];
extern const size_t page_html_len;

/* A browser that came for the page without a key gets it as the body of the 401, since it is the page that asks
 * for one and has nothing else in it. False, and nothing done, for every other call that failed. */
bool page_refuse(struct exchange *x);

/* What may run on the page: its own script and style, by their hashes. */
void page_policy(struct buf *out);

#endif
