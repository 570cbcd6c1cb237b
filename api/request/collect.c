/* SPDX-License-Identifier: MIT
 * collect.c - one generation as a whole: its events put together, for answers that are not streamed.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/request/collect.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

/* Room for one more in an array that doubles: n elements are in it. */
static void *collect_room(void *array, int n, size_t size)
{
	if (n & (n - 1))
		return array;
	return mem_grow(array, n ? 2 * (size_t)n : 1, size);
}

static void collect_call_fini(struct collect_call *call)
{
	free(call->id);
	free(call->name);
	buf_fini(&call->arguments);
	*call = (struct collect_call){ 0 };
}

static struct collect_part *collect_new_part(struct collect *c, enum gen_event_kind kind)
{
	c->part = collect_room(c->part, c->n_parts, sizeof *c->part);
	c->part[c->n_parts] = (struct collect_part){ .kind = kind };
	c->parted = kind == GEN_EV_TOOL_END;
	return &c->part[c->n_parts++];
}

static void collect_text(struct collect *c, const struct gen_event *ev, struct buf *all)
{
	struct collect_part *last = c->n_parts && !c->parted ? &c->part[c->n_parts - 1] : NULL;

	if (!last || last->kind != ev->kind) {
		last = collect_new_part(c, ev->kind);
		last->from = all->len;
	}
	buf_add(all, ev->text, ev->len);
	last->len = all->len - last->from;
}

static void collect_begin_call(struct collect *c, const struct gen_event *ev)
{
	if (c->open)
		collect_call_fini(&c->call[c->n_calls]);
	else
		c->call = collect_room(c->call, c->n_calls, sizeof *c->call);
	c->call[c->n_calls] = (struct collect_call){ .id = mem_strdup(ev->tool_id ? ev->tool_id : ""),
						     .name = mem_strdup(ev->text) };
	c->open = c->parted = true;
}

static void collect_end_call(struct collect *c)
{
	must(c->open);
	c->open = false;
	collect_new_part(c, GEN_EV_TOOL_END)->call = c->n_calls++;
}

/* Keeps the event itself. */
static void collect_logprob(struct collect *c, struct gen_event *ev)
{
	c->logprob = collect_room(c->logprob, c->n_logprobs, sizeof *c->logprob);
	c->logprob[c->n_logprobs++] = *ev;
	*ev = (struct gen_event){ 0 };
}

static void collect_end(struct collect *c, const struct gen_event *ev)
{
	c->ended = true;
	c->finish = ev->finish;
	c->stop = ev->stop;
	buf_add(&c->detail, ev->text, ev->len);
	if (!collect_finish_ok(ev->finish))
		collect_error(ev, &c->error);
}

bool collect_add(struct collect *c, struct gen_event *ev)
{
	must(!c->ended);
	switch (ev->kind) {
	case GEN_EV_REASONING: collect_text(c, ev, &c->reasoning); break;
	case GEN_EV_CONTENT: collect_text(c, ev, &c->content); break;
	case GEN_EV_TOOL_BEGIN: collect_begin_call(c, ev); break;
	case GEN_EV_TOOL_ARGS: buf_add(&c->call[c->n_calls].arguments, ev->text, ev->len); break;
	case GEN_EV_TOOL_END: collect_end_call(c); break;
	case GEN_EV_LOGPROB: collect_logprob(c, ev); break;
	case GEN_EV_FINISH: collect_end(c, ev); break;
	}
	gen_event_fini(ev);
	return c->ended;
}

void collect_fini(struct collect *c)
{
	for (int i = 0; i < c->n_calls + c->open; i++)
		collect_call_fini(&c->call[i]);
	for (int i = 0; i < c->n_logprobs; i++)
		gen_event_fini(&c->logprob[i]);
	free(c->call);
	free(c->logprob);
	free(c->part);
	buf_fini(&c->reasoning);
	buf_fini(&c->content);
	buf_fini(&c->detail);
	error_fini(&c->error);
	*c = (struct collect){ 0 };
}

bool collect_finish_ok(enum gen_finish f)
{
	return f == GEN_STOP || f == GEN_LENGTH || f == GEN_TOOL_CALLS;
}

void collect_error(const struct gen_event *ev, struct error *err)
{
	int rc = ev->rc ? ev->rc : RC_INTERNAL;

	if (ev->finish == GEN_CANCELLED && ev->rc == RC_DRAINING)
		error_set(err, RC_DRAINING, NULL, "the server is shutting down");
	else if (ev->finish == GEN_CANCELLED)
		error_set(err, RC_CANCELLED, NULL, "the request was cancelled");
	else
		error_set(err, rc, NULL, "%s", ev->len ? ev->text : rc_text(rc));
}
