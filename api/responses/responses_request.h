/* SPDX-License-Identifier: MIT
 * responses_request.h - the body of OpenAI's /v1/responses to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_RESPONSES_REQUEST_H
#define API_RESPONSES_REQUEST_H

#include "api/http/exchange.h"
#include "api/request/field.h"
#include "api/request/history.h"
#include "engine/engine.h"

#include <jansson.h>

struct responses_request {
	struct generation_spec spec; /* complete but for id, label and notify; points into what follows and the body */
	struct history history;
	json_t *tools;               /* as chat's; ours */
	json_t *echo;                /* the fields of the response that repeat the request; ours */
	json_t *names;               /* by the name a tool is offered under: {"type", "name",
				      * "namespace", "tool"}; ours */
	struct gen_logit_bias *bias; /* ours */
	const char *schema_at;       /* where the schema stood */
	bool stream, store, parallel;
	bool summary;                /* the reasoning is told as its summary */
	bool encrypted;              /* and in a token that the client sends back */
};

/* Thinking is on unless reasoning.effort is "none". RC_INVALID, RC_UNSUPPORTED and RC_NOT_FOUND (another model, an
 * earlier response that is not kept or not the caller's) with err->param set; *ret_r is valid only on success and must
 * then be finished. `body` must outlive it. */
int responses_request_parse(const struct exchange *x, json_t *body, struct responses_request *ret_r, struct error *err);
/* An error of the engine as one of the body. */
void responses_request_error(const struct responses_request *r, struct error *err);
void responses_request_fini(struct responses_request *r);

/* "tools", "tool_choice" and "parallel_tool_calls" into r->tools, r->names and r->spec. Tools are functions, custom
 * tools (functions of one string), and namespaces of functions; what only a service of OpenAI's can run is left out
 * when the model is free not to use it, and refused by name otherwise. The echo has them as the client gave them, but
 * for those that were left out. */
int responses_tools_parse(const struct field_at *b, struct responses_request *r, struct error *err);
/* The name under which a function of a namespace (NULL: of none) is offered. */
void responses_tools_name(const char *space, const char *name, struct buf *out);

/* An array of input items, or of the items of an answer, into the history; `at` and `key` say where it stands. */
int responses_input_items(const struct field_at *at, const char *key, json_t *items, int from, struct history *h,
	struct error *err);

#endif
