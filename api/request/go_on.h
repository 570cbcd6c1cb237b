/* SPDX-License-Identifier: MIT
 * go_on.h - a conversation whose last message is the assistant's: the answer goes on with it.
 * Threads: any, one at a time per request. Locks: none. */
#ifndef API_GO_ON_H
#define API_GO_ON_H

#include "api/http/error.h"
#include "engine/engine.h"

/* Makes the messages such that the model goes on with what the assistant said last: no end is written after it. After
 * reasoning alone comes the content; a last message with nothing in it is taken out, and the answer is a new one.
 * Refused, by the engine's names of messages: last calls, which only their results can follow, and a text begun by
 * somebody else where a format or calls are forced, which hold from the answer's first token. So are messages that end
 * with a system's: no prompt may end where the model has nothing to answer. */
int go_on_prepare(json_t *messages, const struct generation_spec *spec, struct error *err);

#endif
