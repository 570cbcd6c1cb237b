/* SPDX-License-Identifier: MIT
 * models.c - what is served and how it is: /v1/models, /health, /ready, /version.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/http/exchange.h"
#include "api/http/server.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <string.h>
#include <time.h>

/* As OpenAI's clients and, from "type" on, as Anthropic's have it. */
static json_t *models_object(const struct exchange *x)
{
	const char *name = engine_model_name(x->engine);
	int context = engine_max_context(x->engine);
	time_t created = http_started(x->http);
	char day[sizeof "2026-01-01T00:00:00Z"];
	struct tm tm;
	json_t *o;

	must(gmtime_r(&created, &tm) && strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &tm));
	/* Three names for one truth: clients look for one or another. */
	o = json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:i}", "id", name, "object", "model",
		"created", (json_int_t)created, "owned_by", "dsv4d", "context_length", context, "max_model_len",
		context,
		"context_window", context, "type", "model", "display_name", name, "created_at", day, "max_input_tokens",
		context);
	must(o);
	return o;
}

void models_list(struct exchange *x)
{
	const char *name = engine_model_name(x->engine);

	exchange_reply(x, MHD_HTTP_OK,
		       json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", models_object(x),
		"has_more", 0, "first_id", name, "last_id", name));
}

void models_show(struct exchange *x)
{
	struct error err = { 0 };

	if (engine_model_is(x->engine, x->rest)) {
		exchange_reply(x, MHD_HTTP_OK, models_object(x));
		return;
	}
	error_set(&err, RC_NOT_FOUND, "model", "model \"%s\" is not served here, only \"%s\"", x->rest,
		  engine_model_name(x->engine));
	strcpy(err.code, "model_not_found");
	exchange_fail(x, &err);
	error_fini(&err);
}

void models_version(struct exchange *x)
{
	exchange_reply(x, MHD_HTTP_OK,
		       json_pack("{s:s, s:s}", "name", "dsv4d", "version", http_version(x->http)));
}

static void models_unwell(struct exchange *x, const char *why)
{
	struct error err = { 0 };

	error_set(&err, RC_NOT_READY, NULL, "%s", why);
	exchange_fail(x, &err);
	error_fini(&err);
}

void models_health(struct exchange *x)
{
	struct engine_status s;

	engine_status(x->engine, &s);
	if (s.failed)
		models_unwell(x, s.why_failed);
	else
		exchange_reply(x, MHD_HTTP_OK, json_pack("{s:s}", "status", "ok"));
}

/* Red as soon as a request sent now would not be served: failed, draining, or work to do and no step for
 * long. */
void models_ready(struct exchange *x)
{
	struct engine_status s;

	engine_status(x->engine, &s);
	if (s.failed)
		models_unwell(x, s.why_failed);
	else if (s.draining || http_stopping(x->http))
		models_unwell(x, "draining");
	else if (s.running + s.queued > 0 && s.step_age > http_stall(x->http))
		models_unwell(x, "the engine has made no step for too long");
	else
		exchange_reply(x, MHD_HTTP_OK,
			       json_pack("{s:s, s:s, s:i, s:i}", "status", "ready", "model",
					 engine_model_name(x->engine), "running", s.running, "queued",
					 s.queued));
}
