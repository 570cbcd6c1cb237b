/* SPDX-License-Identifier: MIT
 * responses_store.h - responses that later requests go on from: kept with their records in the request ring.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own.
 *
 * They live as long as their records: a number of requests and of bytes, newest first. */
#ifndef API_RESPONSES_STORE_H
#define API_RESPONSES_STORE_H

#include "api/http/exchange.h"
#include "api/request/history.h"

#include <jansson.h>

/* Keeps a response for whoever asked for it: one key's, or everyone's where there are no keys. One whose record is gone
 * already is not kept. */
void responses_store_keep(struct engine *e, const char *id, json_t *response);
/* RC_NOT_FOUND when there is none of that id that this caller may read. The caller frees. */
int responses_store_get(const struct exchange *x, const char *id, json_t **ret_response, struct error *err);
/* The messages before that response, but for its instructions; the caller frees. RC_NOT_FOUND as above. */
int responses_store_asked(const struct exchange *x, const char *id, json_t **ret_messages, struct error *err);
/* The conversation up to and with that response, but for its instructions. RC_NOT_FOUND names previous_response_id. */
int responses_store_earlier(const struct exchange *x, const char *id, struct history *h, struct error *err);

#endif
