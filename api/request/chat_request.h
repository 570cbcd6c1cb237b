/* SPDX-License-Identifier: MIT
 * chat_request.h - the body of a chat completion to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_CHAT_REQUEST_H
#define API_CHAT_REQUEST_H

#include "api/http/error.h"
#include "engine/engine.h"

#include <jansson.h>

#define CHAT_MAX_MESSAGES 16384
#define CHAT_MAX_TOOLS 512
#define CHAT_MAX_BIAS 4096
#define CHAT_MAX_STOP_BYTES 1024

struct chat_request {
	struct generation_spec spec;  /* complete but for id, label and notify; points into what follows and the body */
	json_t *messages;             /* ours; contents given as parts are joined to strings */
	struct gen_logit_bias *bias;
	const char **stop;
	const char *schema_path;      /* where the schema stands in the body; NULL without one */
	int n;                        /* answers to the same prompt, up to ANSWER_MAX_CHOICES */
	bool stream, include_usage;
};

/* Thinking is on unless the body says otherwise (thinking.h). RC_INVALID, RC_UNSUPPORTED and RC_NOT_FOUND (another
 * model) with err->param set; *ret_r is valid only on success and must then be finished. `body` must outlive it. */
int chat_request_parse(const struct engine *e, json_t *body, struct chat_request *ret_r, struct error *err);
/* Where an error of engine_submit() names a part of the schema, it then names the part of the body. */
void chat_request_name_schema(const struct chat_request *r, struct error *err);
void chat_request_fini(struct chat_request *r);

#endif
