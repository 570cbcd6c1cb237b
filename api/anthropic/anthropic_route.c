/* SPDX-License-Identifier: MIT
 * anthropic_route.c - Anthropic's POST /v1/messages and /v1/messages/count_tokens.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/anthropic/anthropic_answer.h"
#include "api/anthropic/anthropic_request.h"
#include "api/request/handle.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

static int anthropic_route_answer(struct exchange *x, json_t *body, struct error *err)
{
	struct anthropic_request r;
	struct anthropic_answer *a;
	int rc = anthropic_request_parse(x, body, false, &r, err);

	if (rc)
		return rc;
	a = mem_new(sizeof *a);
	*a = (struct anthropic_answer){ .engine = x->engine, .id = x->id, .omit = r.omit,
					.stops = json_incref(json_object_get(body, "stop_sequences")) };
	rc = answer_start(x, &(struct answer_order){ &r.spec, 1, 1, r.stream, &anthropic_answer_form, a }, err);
	if (rc)
		anthropic_request_error(&r, err);
	anthropic_request_fini(&r);
	return rc;
}

void anthropic_route(struct exchange *x)
{
	handle_body(x, anthropic_route_answer);
}

static int anthropic_route_tokens(struct exchange *x, json_t *body, struct error *err)
{
	struct anthropic_request r;
	json_t *reply;
	int n = 0, rc = anthropic_request_parse(x, body, true, &r, err);

	if (rc)
		return rc;
	rc = handle_count(x, &r.spec, &n, err);
	if (rc) {
		anthropic_request_error(&r, err);
	} else {
		reply = json_pack("{s:i}", "input_tokens", n);
		must(reply);
		exchange_reply(x, MHD_HTTP_OK, reply);
	}
	anthropic_request_fini(&r);
	return rc;
}

void anthropic_route_count(struct exchange *x)
{
	handle_body(x, anthropic_route_tokens);
}
