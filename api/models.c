/* SPDX-License-Identifier: MIT
 * models.c - what is served and how it is: /v1/models, /health, /ready, /version.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/call.h"
#include "api/server.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <string.h>

static json_t *models_object(const struct call *c)
{
	int context = engine_max_context(c->engine);
	/* Three names for one truth: clients look for one or another. */
	json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:i}", "id", engine_model_name(c->engine), "object", "model",
			      "created", (json_int_t)http_started(c->http), "owned_by", "dsv4d", "context_length", context,
			      "max_model_len", context, "context_window", context);

	must(o);
	return o;
}

void models_list(struct call *c)
{
	call_reply(c, MHD_HTTP_OK, json_pack("{s:s, s:[o]}", "object", "list", "data", models_object(c)));
}

void models_show(struct call *c)
{
	struct error err = { 0 };

	if (!strcmp(c->rest, engine_model_name(c->engine))) {
		call_reply(c, MHD_HTTP_OK, models_object(c));
		return;
	}
	error_set(&err, RC_NOT_FOUND, "model", "model \"%s\" is not served here, only \"%s\"", c->rest,
		  engine_model_name(c->engine));
	strcpy(err.code, "model_not_found");
	call_fail(c, &err);
	error_fini(&err);
}

void models_version(struct call *c)
{
	call_reply(c, MHD_HTTP_OK, json_pack("{s:s, s:s}", "name", "dsv4d", "version", http_version(c->http)));
}

static void models_unwell(struct call *c, const char *why)
{
	struct error err = { 0 };

	error_set(&err, RC_NOT_READY, NULL, "%s", why);
	call_fail(c, &err);
	error_fini(&err);
}

void models_health(struct call *c)
{
	struct engine_status s;

	engine_status(c->engine, &s);
	if (s.failed)
		models_unwell(c, s.why_failed);
	else
		call_reply(c, MHD_HTTP_OK, json_pack("{s:s}", "status", "ok"));
}

/* Red as soon as a request sent now would not be served: failed, draining, or work to do and no step for long. */
void models_ready(struct call *c)
{
	struct engine_status s;

	engine_status(c->engine, &s);
	if (s.failed)
		models_unwell(c, s.why_failed);
	else if (s.draining || http_stopping(c->http))
		models_unwell(c, "draining");
	else if (s.running + s.queued > 0 && s.step_age > http_stall(c->http))
		models_unwell(c, "the engine has made no step for too long");
	else
		call_reply(c, MHD_HTTP_OK, json_pack("{s:s, s:s, s:i, s:i}", "status", "ready", "model",
						     engine_model_name(c->engine), "running", s.running, "queued", s.queued));
}
