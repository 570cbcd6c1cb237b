/* SPDX-License-Identifier: MIT
 * anthropic_request.h - the body of Anthropic's /v1/messages to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_ANTHROPIC_REQUEST_H
#define API_ANTHROPIC_REQUEST_H

#include "api/request/field.h"
#include "api/request/history.h"
#include "engine/engine.h"

#include <jansson.h>

struct exchange;

struct anthropic_request {
	struct generation_spec spec; /* complete but for id, label and notify; points into what follows and the body */
	struct history history;
	json_t *tools;               /* as OpenAI's; ours */
	const char **stop;
	struct gen_logit_bias *bias; /* ours */
	const char *schema_at;       /* where the schema stood */
	bool stream;
	bool omit;                   /* thinking is not shown, its signature holds it */
};

/* Thinking is off unless the body asks for it, by `thinking` or by an effort: that is what clients of this protocol
 * count on, who must give max_tokens and expect it to be there for the text. `counting`: for count_tokens, whose bodies
 * lack max_tokens. RC_INVALID, RC_UNSUPPORTED and RC_NOT_FOUND (another model) with err->param set; *ret_r is valid
 * only on success and must then be finished. `body` must outlive it. */
int anthropic_request_parse(const struct exchange *x, json_t *body, bool counting, struct anthropic_request *ret_r,
	struct error *err);
/* An error of the engine as one of the body. */
void anthropic_request_error(const struct anthropic_request *r, struct error *err);
void anthropic_request_fini(struct anthropic_request *r);

/* "system" and "messages" into r->history. */
int anthropic_messages_parse(const struct field_at *b, struct history *h, struct error *err);
/* "tools" and "tool_choice" into r->tools and r->spec. */
int anthropic_tools_parse(const struct field_at *b, struct anthropic_request *r, struct error *err);

#endif
