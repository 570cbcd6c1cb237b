/* SPDX-License-Identifier: MIT
 * engine.c - the callers' side of an open engine: what it serves, submitting, live control, status, the ring.
 * Threads: any. Lock: engine. */
#include "engine/engine.h"
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/inspect.h"
#include "engine/engine_priv.h"
#include "engine/serve/recall_put.h"

#include <string.h>

/* ---- what it serves ---- */

bool engine_device_lost(const struct engine *e)
{
	for (int i = 0; e->ranks && i < ranks_n(e->ranks); i++)
		if (device_broken(ranks_device(e->ranks, i)))
			return true;
	return false;
}

const char *engine_model_name(const struct engine *e)
{
	return e->name;
}

bool engine_model_is(const struct engine *e, const char *name)
{
	const char *s = e->aliases + strspn(e->aliases, " ");

	if (!strcmp(name, e->name))
		return true;
	for (size_t n; *s; s += n + strspn(s + n, " ")) {
		n = strcspn(s, " ");
		if (s[n - 1] == '*' ? !strncmp(s, name, n - 1) : strlen(name) == n && !memcmp(s, name, n))
			return true;
	}
	return false;
}

const struct model_config *engine_config(const struct engine *e)
{
	return e->model->config;
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
	return e->tokenizer;
}

int engine_max_context(const struct engine *e)
{
	return e->env.max_context;
}

void engine_describe(const struct engine *e, struct buf *out)
{
	struct buf why = { 0 };

	if (inspect_checkpoint(e->model->weights->checkpoint, false, out, &why))
		buf_printf(out, "%s\n", buf_str(&why));
	buf_fini(&why);
}

void gen_sampling_init(const struct engine *e, struct gen_sampling *s)
{
	const struct model_config *c = e->model->config;

	s->temperature = c->do_sample ? c->temperature : 0;
	s->top_p = c->top_p;
	s->repetition_penalty = 1;
}

/* ---- submitting ---- */

/* How many more may come: into the places that are free of the running and of the queue, less those held. Who is queued
 * goes to a free place as soon as the engine's thread looks. */
static int engine_room(const struct engine *e)
{
	int places = e->sched.max_running - e->count.running;

	must(lock_held(&e->lock));
	return (places > 0 ? places : 0) + e->max_queued - e->count.queued - e->reserved;
}

/* May a request be queued now, in a place of its own or one that is reserved? Under the lock. */
static int engine_admits(const struct engine *e, bool reserved, struct buf *why)
{
	const struct engine_status *s = &e->count;

	must(lock_held(&e->lock));
	if (s->failed)
		return buf_why(why, RC_NOT_READY, "the engine has stopped: %s", s->why_failed);
	if (s->draining)
		return buf_why(why, RC_DRAINING, "the server is draining: it takes no new requests now");
	must(!reserved || e->reserved > 0);
	if (!reserved && engine_room(e) < 1)
		return buf_why(why, RC_BUSY, "%d requests are waiting already", s->queued);
	return 0;
}

static void engine_pin_what(struct engine *e, const struct generation_spec *spec, struct request_pins *ret_p)
{
	struct request_pins p = { .kset = e->kset, .numerics = e->numerics, .epoch = e->count.epoch,
				  .speculate = e->count.speculate };

	must(lock_held(&e->lock));
	p.own = spec->set || spec->numerics;
	if (spec->set)
		p.kset = spec->set;
	if (spec->numerics)
		p.numerics = *spec->numerics;
	if (p.own && engine_other_numbers(e->kset, &e->numerics, p.kset, &p.numerics))
		p.epoch = 0;
	kset_pin(p.kset);
	*ret_p = p;
}

static int engine_pin(struct engine *e, const struct generation_spec *spec, struct request_pins *ret_p, struct buf *why)
{
	int rc;

	lock_take(&e->lock);
	rc = engine_admits(e, spec->reserved, why);
	if (rc == 0)
		engine_pin_what(e, spec, ret_p);
	lock_drop(&e->lock);
	return rc;
}

/* The ring has the request before the thread does: it may finish before this returns. */
static int engine_queue(struct engine *e, struct request *r, bool reserved, struct buf *why)
{
	int rc;

	if (!ring_put(e->ring, r->rec))
		return buf_why(why, RC_BUSY, "what is running and waiting has too long prompts to take one more");
	lock_take(&e->lock);
	rc = engine_admits(e, reserved, why);
	if (rc == 0) {
		e->reserved -= reserved;
		list_put(&e->incoming, &r->task.link);
		list_put(&e->live, &r->live);
		e->count.requests++;
		e->count.queued++;
		must_zero(pthread_cond_signal(&e->cond));
	}
	lock_drop(&e->lock);
	if (rc)
		ring_remove(e->ring, r->rec);
	return rc;
}

static int engine_try_submit(struct engine *e, const struct generation_spec *spec, struct generation **ret_g,
			     struct buf *why)
{
	struct request_pins pins = { 0 };
	struct generation *g;
	struct request *r;
	int rc = engine_pin(e, spec, &pins, why);

	if (rc)
		return rc;
	rc = request_new(&e->env, spec, &pins, &r, &g, why);
	if (rc) {
		kset_unpin(&pins.kset);
		return rc;
	}
	request_deadline(r, spec->deadline > 0 ? spec->deadline : e->request_timeout);
	request_cache_lookup(r);
	/* Before the engine thread knows of it: notify may be called at once. */
	*ret_g = g;
	rc = engine_queue(e, r, spec->reserved, why);
	if (rc) {
		*ret_g = NULL;
		generation_unref(&g);
		request_free(&r);
	}
	return rc;
}

int engine_submit(struct engine *e, const struct generation_spec *spec, struct generation **ret_g,
		  struct buf *why)
{
	int rc = engine_try_submit(e, spec, ret_g, why);

	if (rc)
		tally_refused(&e->tally, rc);
	return rc;
}

int engine_reserve(struct engine *e, int n, struct buf *why)
{
	int rc, queued, most = e->sched.max_running + e->max_queued;

	must(n > 0);
	if (n > most)
		return buf_why(why, RC_INVALID,
			       "%d at once, and no more than %d may ever run and wait (max_running, max_queued)", n,
			       most);
	lock_take(&e->lock);
	rc = engine_admits(e, false, why);
	queued = e->count.queued;
	if (rc == 0 && engine_room(e) < n)
		rc = buf_why(why, RC_BUSY, "%d requests are waiting already: there is no place for %d more", queued, n);
	if (rc == 0)
		e->reserved += n;
	lock_drop(&e->lock);
	if (rc)
		tally_refused(&e->tally, rc);
	return rc;
}

void engine_unreserve(struct engine *e, int n)
{
	lock_take(&e->lock);
	must(n >= 0 && e->reserved >= n);
	e->reserved -= n;
	lock_drop(&e->lock);
}

/* ---- live control ---- */

static void engine_set_draining(struct engine *e, int draining)
{
	lock_take(&e->lock);
	e->count.draining = draining;
	lock_drop(&e->lock);
}

void engine_drain(struct engine *e)
{
	engine_set_draining(e, 1);
}

void engine_resume(struct engine *e)
{
	engine_set_draining(e, 0);
}

int engine_can_speculate(const struct engine *e, int n, struct buf *why)
{
	if (n < 0 || n > SPECULATE_MAX)
		return buf_why(why, RC_INVALID, "speculate: %d is outside 0 to %d", n, SPECULATE_MAX);
	if (n && !e->speculate)
		return buf_why(why, RC_UNSUPPORTED, "speculate: the model has no draft block that this engine runs");
	return 0;
}

int engine_speculate(struct engine *e, int n, struct buf *why)
{
	int rc = engine_can_speculate(e, n, why);

	if (rc)
		return rc;
	lock_take(&e->lock);
	e->count.speculate = n;
	lock_drop(&e->lock);
	return 0;
}

void engine_max_gap(struct engine *e, int ms)
{
	must(ms >= 0);
	lock_take(&e->lock);
	e->count.pace.gap = ms * 1e-3;
	lock_drop(&e->lock);
}

/* ---- looking in ---- */

void engine_status(struct engine *e, struct engine_status *ret_s)
{
	lock_take(&e->lock);
	*ret_s = e->count;
	lock_drop(&e->lock);
	ret_s->state_bytes = atomic_load(&e->state_bytes);
	ret_s->kernels = atomic_load(&pool_running(e->pool)->kernels);
	ret_s->n_threads = pool_threads(e->pool);
	ret_s->max_running = e->sched.max_running;
	if (e->repack)
		repack_view(e->repack, &ret_s->repack);
	if (atomic_load(&e->busy))
		ret_s->step_age = clock_since(atomic_load(&e->step_end_ns));
}

const struct running *engine_running(const struct engine *e)
{
	return pool_running(e->pool);
}

void engine_tally(struct engine *e, struct tally_view *ret_v)
{
	tally_read(&e->tally, ret_v);
}

/* ---- the request ring ---- */

int engine_records(struct engine *e, struct record **ret_r, int max)
{
	return ring_list(e->ring, ret_r, max);
}

struct record *engine_record(struct engine *e, const char *id)
{
	return ring_find(e->ring, id);
}

struct recall *engine_recall(const struct engine *e, const char *label)
{
	return recall_new(e->ring, e->tokenizer, label, engine_max_context(e));
}

int engine_keep(struct engine *e, const char *id, struct buf *text)
{
	struct record *r = ring_find(e->ring, id);

	if (!r) {
		buf_fini(text);
		return RC_NOT_FOUND;
	}
	record_keep(r, text);
	ring_changed(e->ring, r);
	record_unref(&r);
	return 0;
}

int engine_kept(struct engine *e, const char *id, const char *label, struct buf *ret_text, struct buf *ret_messages)
{
	struct record *r = ring_find(e->ring, id);

	if (!r)
		return RC_NOT_FOUND;
	if (record_is_of(r, label))
		record_kept(r, ret_text);
	if (ret_text->len)
		record_messages(r, ret_messages);
	record_unref(&r);
	return ret_text->len ? 0 : RC_NOT_FOUND;
}

int engine_cancel(struct engine *e, const char *id, int why)
{
	int rc = RC_NOT_FOUND;

	lock_take(&e->lock);
	list_each(r, &e->live, struct request, live) {
		if (strcmp(generation_id(r->gen), id) != 0)
			continue;
		generation_stop(r->gen, why);
		e->woken = true;
		rc = 0;
	}
	must_zero(pthread_cond_signal(&e->cond));
	lock_drop(&e->lock);
	return rc;
}
