/* SPDX-License-Identifier: MIT
 * known_messages.h - messages as a record keeps them: the fields that prompts are made of, and no others.
 * Threads: any. Locks: none. */
#ifndef ENGINE_KNOWN_MESSAGES_H
#define ENGINE_KNOWN_MESSAGES_H

#include "engine/base/buf.h"

#include <jansson.h>

/* Appends them as JSON. `messages` are such as prompt_render() has taken; what it ignores is left out. */
void known_messages_dump(json_t *messages, struct buf *out);

#endif
