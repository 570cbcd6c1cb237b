/* SPDX-License-Identifier: MIT
 * status_route.c - GET /v1/status: the state that the page at / shows.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/http/question.h"
#include "engine/base/rc.h"

static void status_route_reply(struct exchange *x, struct question *q)
{
	struct error err = { 0 };

	if (q->status) {
		exchange_reply(x, MHD_HTTP_OK, json_incref(q->status));
		return;
	}
	error_set(&err, RC_NOT_READY, NULL, "there is no state to tell now");
	exchange_fail(x, &err);
	error_fini(&err);
}

void status_route(struct exchange *x)
{
	question_ask(x, QUESTION_STATUS, status_route_reply);
}
