/* SPDX-License-Identifier: MIT
 * tools.h - the tools that a request offers, and how calls of them are chosen.
 * Threads: any. Locks: none. */
#ifndef API_TOOLS_H
#define API_TOOLS_H

#include "api/request/field.h"
#include "engine/engine.h"

/* Sets tools, calls, function and one_call of the spec from tools, tool_choice and parallel_tool_calls; all borrowed
 * from the body. With tool_choice "none" the spec has no tools: the model does not see them. Calls can be forced only
 * of functions that are offered: here, or in the `tools` of a message. */
int tools_parse(const struct field_at *body, json_t *messages, struct generation_spec *spec, struct error *err);

#define TOOLS_MAX 512 /* of one request */

/* "name", which must be there and such that it may be written into the prompt: 1 to TOOLS_MAX_NAME letters, digits or
 * any of _-.:/ */
#define TOOLS_MAX_NAME 128
int tools_name(const struct field_at *f, const char **ret_name, struct error *err);
/* Notes that a tool has that name; takes over `value`. Refused when another has it, or when there are TOOLS_MAX
 * already: calls say no more than the name. */
int tools_take_name(const struct field_at *f, json_t *names, const char *name, json_t *value, struct error *err);
/* OpenAI's tools, of a request or of a message: each as it must be, and no two of one name. */
int tools_check(const struct field_at *body, json_t *tools, struct error *err);
/* A tool of its parts; takes over `parameters`, which may be NULL. `strict`: calls are held to them. */
json_t *tools_new(const char *name, const char *description, json_t *parameters, bool strict);
/* Is there one of that name (NULL: any)? */
bool tools_have(const json_t *tools, const char *name);

/* What a result holds that the model cannot be shown, such as a picture, is mentioned as its encoder does: a client
 * that has it in its history would have to send it for ever. `type` is any protocol's name of it. */
void tools_unseen(const char *type, struct buf *out);

#endif
