/* SPDX-License-Identifier: MIT
 * handle.h - what the handlers of several protocols do alike: the body is parsed, a prompt is counted.
 * Threads: any. Locks: none. */
#ifndef API_HANDLE_H
#define API_HANDLE_H

#include "api/http/exchange.h"
#include "engine/engine.h"

typedef int handle_f(struct exchange *x, json_t *body, struct error *err);
/* Has f answer the request's body, a JSON object; replies with the error when it does not. */
void handle_body(struct exchange *x, handle_f *f);

/* The prompt of messages and tools as the engine would render it now, in tokens. */
int handle_count(const struct exchange *x, const struct generation_spec *spec, int *ret_n, struct error *err);

#endif
