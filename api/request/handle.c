/* SPDX-License-Identifier: MIT
 * handle.c - what the handlers of several protocols do alike: the body is parsed, a prompt is counted.
 * Threads: any. Locks: none. */
#include "api/request/handle.h"
#include "api/http/body.h"

void handle_body(struct exchange *x, handle_f *f)
{
	struct error err = { 0 };
	json_t *body = NULL;
	int rc = body_parse(x->body, x->body_len, &body, &err);

	if (!rc)
		rc = f(x, body, &err);
	if (rc)
		exchange_fail(x, &err);
	error_fini(&err);
	json_decref(body);
}

int handle_count(const struct exchange *x, const struct generation_spec *spec, int *ret_n, struct error *err)
{
	struct token_ids ids = { 0 };
	struct prompt *p = NULL;
	struct numerics n;
	struct buf why = { 0 };
	int rc;

	engine_numerics(x->engine, &n);
	rc = spec_render(spec, &n, &p, &why);
	if (!rc)
		rc = prompt_tokens(p, engine_tokenizer(x->engine), &ids, &why);
	if (rc)
		error_from_engine(err, rc, &why);
	else
		*ret_n = ids.n;
	prompt_free(&p);
	token_ids_fini(&ids);
	buf_fini(&why);
	return rc;
}
