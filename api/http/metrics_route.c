/* SPDX-License-Identifier: MIT
 * metrics_route.c - GET /metrics: our own counts of calls, and what the program around us adds.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/http/metrics.h"
#include "api/http/question.h"
#include "api/http/server.h"
#include "api/http/traffic.h"

static void metrics_route_reply(struct exchange *x, struct question *q)
{
	static const struct exchange_header header[] = { { "Content-Type", METRICS_TYPE },
							 { "Cache-Control", "no-store" },
							 { NULL, NULL } };
	struct buf text = { 0 };

	traffic_metrics(http_traffic(x->http), q->metrics);
	metrics_print(q->metrics, &text);
	exchange_reply_with(x, MHD_HTTP_OK, &text, header);
}

void metrics_route(struct exchange *x)
{
	question_ask(x, QUESTION_METRICS, metrics_route_reply);
}
