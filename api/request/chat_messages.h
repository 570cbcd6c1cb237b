/* SPDX-License-Identifier: MIT
 * chat_messages.h - checks and normalises the messages of a chat request.
 * Threads: any. Locks: none. */
#ifndef API_CHAT_MESSAGES_H
#define API_CHAT_MESSAGES_H

#include "api/request/field.h"
#include "engine/engine.h"

/* The types of every field the prompt is made from are checked; what a role may hold is the renderer's
 * business. *ret_messages is a copy (shared where unchanged), the caller's. */
int chat_messages_parse(const struct field_at *body, json_t **ret_messages, struct error *err);

#endif
