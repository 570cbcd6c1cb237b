/* SPDX-License-Identifier: MIT
 * completions_route.c - POST /v1/completions.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/completions/completions.h"
#include "api/completions/completions_request.h"
#include "api/request/answer.h"
#include "api/request/handle.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>

static void completions_route_begin(void *form, const struct gen_usage *usage, struct buf *out)
{
	(void)usage;
	completions_begin(form, out);
}

static void completions_route_event(void *form, int choice, const struct gen_event *ev, const struct gen_usage *usage,
	struct buf *out)
{
	(void)usage;
	completions_event(form, choice, ev, out);
}

static void completions_route_end(void *form, const struct gen_usage *usage, struct buf *out)
{
	completions_end(form, usage, out);
}

static void completions_route_fail(void *form, const struct error *err, struct buf *out)
{
	completions_fail(form, err, out);
}

static json_t *completions_route_reply(void *form, const struct collect *choice, int n, const struct gen_usage *usage)
{
	return completions_reply(form, choice, n, usage);
}

static void completions_route_free(void *form)
{
	completions_fini(form);
	free(form);
}

static const struct answer_form completions_route_form = {
	completions_route_begin, completions_route_event, completions_route_end, completions_route_fail, NULL,
	completions_route_reply, completions_route_free,
};

static void completions_route_echo(const struct engine *e, const struct completions_request *r, struct completions *s)
{
	for (int i = 0; i < r->n_prompts; i++)
		if (r->text[i])
			buf_adds(&s->echo[i], r->text[i]);
		else
			tokenizer_decode(engine_tokenizer(e), r->ids[i].id, r->ids[i].n, false, &s->echo[i]);
}

static int completions_route_answer(struct exchange *x, json_t *body, struct error *err)
{
	struct completions *s;
	struct completions_request r;
	int rc = completions_request_parse(x->engine, body, &r, err), each;

	if (rc)
		return rc;
	each = r.settings.n;
	s = mem_new(sizeof *s);
	*s = (struct completions){ .head = { x->engine, x->id, time(NULL) }, .n = each * r.n_prompts, .each = each,
				   .include_usage = r.settings.include_usage };
	if (r.echo)
		completions_route_echo(x->engine, &r, s);
	rc = answer_start(x,
		&(struct answer_order){ r.spec, r.n_prompts, each, r.settings.stream, &completions_route_form, s },
		err);
	if (rc == RC_CONTEXT)
		snprintf(err->param, sizeof err->param, "prompt");
	completions_request_fini(&r);
	return rc;
}

void completions_route(struct exchange *x)
{
	handle_body(x, completions_route_answer);
}
