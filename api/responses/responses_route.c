/* SPDX-License-Identifier: MIT
 * responses_route.c - OpenAI's /v1/responses: made, read again, forgotten, and counted.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/request/handle.h"
#include "api/responses/responses_answer.h"
#include "api/responses/responses_list.h"
#include "api/responses/responses_request.h"
#include "api/responses/responses_store.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static int responses_route_answer(struct exchange *x, json_t *body, struct error *err)
{
	struct responses_request r;
	struct responses_answer *a;
	int rc = responses_request_parse(x, body, &r, err);

	if (rc)
		return rc;
	a = mem_new(sizeof *a);
	*a = (struct responses_answer){ .x = x, .echo = json_incref(r.echo), .names = json_incref(r.names),
					.created = time(NULL), .store = r.store, .summary = r.summary,
					.encrypted = r.encrypted };
	responses_answer_init(a);
	rc = answer_start(x, &(struct answer_order){ &r.spec, 1, 1, r.stream, &responses_answer_form, a }, err);
	if (rc)
		responses_request_error(&r, err);
	responses_request_fini(&r);
	return rc;
}

void responses_route(struct exchange *x)
{
	handle_body(x, responses_route_answer);
}

static int responses_route_tokens(struct exchange *x, json_t *body, struct error *err)
{
	struct responses_request r;
	json_t *reply;
	int n = 0, rc = responses_request_parse(x, body, &r, err);

	if (rc)
		return rc;
	rc = handle_count(x, &r.spec, &n, err);
	if (rc) {
		responses_request_error(&r, err);
	} else {
		reply = json_pack("{s:s, s:i}", "object", "response.input_tokens", "input_tokens", n);
		must(reply);
		exchange_reply(x, MHD_HTTP_OK, reply);
	}
	responses_request_fini(&r);
	return rc;
}

void responses_route_count(struct exchange *x)
{
	handle_body(x, responses_route_tokens);
}

/* ---- those that are kept ---- */

static const char *responses_route_argument(const struct exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* What is kept is the answer, not the events that told it. */
static int responses_route_whole(const struct exchange *x, struct error *err)
{
	const char *stream = responses_route_argument(x, "stream");

	if (stream && *stream && strcasecmp(stream, "false") && strcmp(stream, "0"))
		return error_set(err, RC_UNSUPPORTED, "stream",
			"stream: a kept response is read whole; only POST /v1/responses streams");
	if (responses_route_argument(x, "starting_after"))
		return error_set(err, RC_UNSUPPORTED, "starting_after",
			"starting_after: a kept response is read whole; it has no events to begin after");
	return 0;
}

static void responses_route_kept(struct exchange *x, bool forget)
{
	struct error err = { 0 };
	struct buf nothing = { 0 };
	json_t *response = NULL, *reply;

	if ((!forget && responses_route_whole(x, &err)) || responses_store_get(x, x->rest, &response, &err)) {
		exchange_fail(x, &err);
	} else if (forget) {
		(void)engine_keep(x->engine, x->rest, &nothing);
		reply = json_pack("{s:s, s:s, s:b}", "id", x->rest, "object", "response", "deleted", 1);
		must(reply);
		exchange_reply(x, MHD_HTTP_OK, reply);
	} else {
		exchange_reply(x, MHD_HTTP_OK, json_incref(response));
	}
	json_decref(response);
	error_fini(&err);
}

void responses_route_show(struct exchange *x)
{
	responses_route_kept(x, false);
}

void responses_route_items(struct exchange *x)
{
	char *id = mem_strndup(x->rest, strcspn(x->rest, "/"));

	responses_list_reply(x, id);
	free(id);
}

void responses_route_forget(struct exchange *x)
{
	responses_route_kept(x, true);
}
