/* SPDX-License-Identifier: MIT
 * chat_request.h - the body of a chat completion to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_CHAT_REQUEST_H
#define API_CHAT_REQUEST_H

#include "api/request/settings.h"

#define CHAT_REQUEST_MAX_MESSAGES 16384

/* Thinking is on unless the body says otherwise (thinking.h). RC_INVALID, RC_UNSUPPORTED and RC_NOT_FOUND (another
 * model) with err->param set; `label` says who asks, for the spec and for what it may see of earlier answers; *ret_r is
 * valid only on success; settings_fini() after use. `body` must outlive it. */
int chat_request_parse(const struct engine *e, const char *label, json_t *body, struct settings *ret_r,
		       struct error *err);
/* Where an error of engine_submit() names a part of the schema, it then names the part of the body. */
void chat_request_name_schema(const struct settings *r, struct error *err);

#endif
