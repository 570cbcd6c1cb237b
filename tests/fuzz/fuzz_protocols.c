/* SPDX-License-Identifier: MIT
 * fuzz_protocols.c - bytes as the body of POST /v1/messages and /v1/responses.
 * Threads: one, and the HTTP server's, which nobody calls. */
#include "api/anthropic/anthropic_request.h"
#include "api/http/body.h"
#include "api/http/http.h"
#include "api/responses/responses_request.h"
#include "engine/base/must.h"
#include "tests/http/fake_engine.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the engine would be given can be rendered, or it says why not. */
static void fuzz_render(const struct generation_spec *spec, struct error *err)
{
	struct numerics n = { 0 };
	struct prompt *p = NULL;
	struct buf why = { 0 };
	int rc;

	must(json_array_size(spec->messages) > 0 && spec->sampling.n_stop <= GEN_MAX_STOPS);
	rc = spec_render(spec, &n, &p, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	prompt_free(&p);
	buf_fini(&why);
}

static void fuzz_messages(const struct exchange *x, json_t *body, struct error *err)
{
	struct anthropic_request r;

	if (anthropic_request_parse(x, body, false, &r, err))
		return;
	fuzz_render(&r.spec, err);
	if (err->rc)
		anthropic_request_error(&r, err);
	anthropic_request_fini(&r);
}

static void fuzz_responses(const struct exchange *x, json_t *body, struct error *err)
{
	struct responses_request r;

	if (responses_request_parse(x, body, &r, err))
		return;
	fuzz_render(&r.spec, err);
	if (err->rc)
		responses_request_error(&r, err);
	responses_request_fini(&r);
}

static void fuzz_one(const struct exchange *x, const uint8_t *data, size_t size,
	void (*f)(const struct exchange *x, json_t *body, struct error *err))
{
	struct error err = { 0 };
	json_t *body = NULL;

	if (!body_parse((const char *)data, size, &body, &err))
		f(x, body, &err);
	/* Whatever was refused can be said in JSON, with a message. */
	if (err.rc) {
		must(err.why.len > 0);
		json_decref(error_json(&err, "req-0"));
		json_decref(error_json_messages(&err, "req-0"));
	}
	json_decref(body);
	error_fini(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct exchange x;

	if (!x.engine) {
		struct http_options o = { .listen = "127.0.0.1:0" };
		const char *dir = getenv("top_srcdir");
		struct buf path = { 0 };

		buf_printf(&path, "%s/etc/tiny", dir ? dir : ".");
		x.engine = fake_engine_open(buf_str(&path));
		must_zero(http_start(&o, x.engine, &x.http, NULL));
		buf_fini(&path);
	}
	fuzz_one(&x, data, size, fuzz_messages);
	fuzz_one(&x, data, size, fuzz_responses);
	return 0;
}
