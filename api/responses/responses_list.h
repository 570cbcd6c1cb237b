/* SPDX-License-Identifier: MIT
 * responses_list.h - what a response that is kept was asked with, as items, a page at a time.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#ifndef API_RESPONSES_LIST_H
#define API_RESPONSES_LIST_H

#include "api/http/exchange.h"

/* Replies with the conversation before that response, earlier ones' included, without its instructions: by the URL's
 * `limit`, `order` and `after`, with OpenAI's fields for pages. */
void responses_list_reply(struct exchange *x, const char *id);

#endif
