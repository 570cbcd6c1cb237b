/* SPDX-License-Identifier: MIT
 * server.h - what the parts of api/ may ask of the HTTP server they run in.
 * Threads: any. Locks: none. */
#ifndef API_SERVER_H
#define API_SERVER_H

#include <stdbool.h>
#include <time.h>

struct http;
struct question;
struct traffic;

/* Has http_stop() begun? Nothing may wait any more. */
bool http_stopping(const struct http *h);
time_t http_started(const struct http *h);
const char *http_version(const struct http *h);
double http_keep_alive(const struct http *h);
/* Seconds after which a stream ends that nobody reads. */
double http_unread(const struct http *h);
/* Does the guard end answers that loop, unless their request says otherwise? */
bool http_repetition_guard(const struct http *h);
double http_stall(const struct http *h);
struct traffic *http_traffic(const struct http *h);
/* Gives the question away; false: nobody answers. For question.c. */
bool http_ask(struct http *h, struct question *q);

#endif
