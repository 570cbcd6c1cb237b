/* SPDX-License-Identifier: MIT
 * engine.c - the callers' side of the engine: open and close, submit, live control, status, the ring.
 * Threads: any. Lock: engine. */
#include "engine/engine.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inspect.h"
#include "engine/serve/recall_put.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENGINE_PREFILL_CHUNK 512
#define ENGINE_MAX_RUNNING 64
#define ENGINE_MAX_QUEUED 256
#define ENGINE_RING_REQUESTS 256
#define ENGINE_RING_BYTES ((size_t)64 << 20)

/* ---- open and close ---- */

/* The directory's last component; "." and ".." are resolved first. */
static char *engine_dir_name(const char *dir)
{
	char *real = realpath(dir, NULL), *name;
	const char *slash = real ? strrchr(real, '/') : NULL;

	name = mem_strdup(slash && slash[1] ? slash + 1 : dir);
	free(real);
	return name;
}

size_t engine_memory_share(size_t n)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	must(pages > 0 && size > 0);
	return (size_t)pages / n * (size_t)size;
}

size_t engine_work_share(const struct engine *e, size_t n)
{
	return device_is_gpu(e->device) ? e->device_free / n : engine_memory_share(n);
}

static void engine_opens(const struct engine_options *o, const char *stage)
{
	if (o->progress)
		o->progress(o->progress_arg, stage);
}

/* What a GPU has beside weights and the slots that are to come. */
static size_t engine_rank_free(const struct engine *e, int rank)
{
	const struct model *m = e->model->view ? e->model->view[rank] : e->model;
	uint64_t slots = (uint64_t)m->expert_slots * m->expert_slot_bytes;
	struct device_view v;

	device_view(ranks_device(e->ranks, rank), &v);
	return (size_t)(v.free > slots ? v.free - slots : 0);
}

static int engine_place(struct engine *e, const struct engine_options *o, struct buf *why)
{
	int rc, n;

	if (!e->ranks)
		return 0;
	if (device_is_gpu(e->device))
		engine_opens(o, "copying weights to the GPU");
	n = ranks_n(e->ranks);
	rc = model_place_ranks(e->model, e->ranks, why);
	for (int i = 0; i < n && device_is_gpu(e->device); i++) {
		size_t bytes = engine_rank_free(e, i);

		e->device_free = i && e->device_free < bytes ? e->device_free : bytes;
	}
	return rc;
}

static int engine_open_files(struct engine *e, const struct engine_options *o, struct buf *why)
{
	struct buf path = { 0 };
	int rc;

	engine_opens(o, "mapping weights");
	rc = model_open(o->model_dir, &e->model, why);
	if (rc == 0 && o->mlock)
		rc = checkpoint_lock(e->model->weights->checkpoint, why);
	if (rc == 0)
		rc = engine_place(e, o, why);
	if (rc)
		return rc;
	engine_opens(o, "reading the tokenizer");
	buf_printf(&path, "%s/tokenizer.json", o->model_dir);
	rc = tokenizer_open(buf_str(&path), &e->tokenizer, why);
	buf_fini(&path);
	if (rc == 0 && tokenizer_vocab(e->tokenizer) > e->model->config->vocab_size)
		rc = buf_why(why, RC_MODEL, "tokenizer.json: %d tokens, config.json: vocab_size %d",
			     tokenizer_vocab(e->tokenizer), e->model->config->vocab_size);
	return rc;
}

/* Half of it, and never more than three eighths of memory: some is left for requests. */
static size_t engine_repack_half(uint64_t bytes)
{
	size_t most = 3 * engine_memory_share(8);

	return bytes / 2 < most ? (size_t)(bytes / 2) : most;
}

static int engine_env_init(struct engine *e, const struct engine_options *o, struct buf *why)
{
	struct request_env *env = &e->env;
	int own = e->model->config->max_context, rc;

	if (o->max_context < 0 || o->max_context > own)
		return buf_why(why, RC_INVALID, "max_context %d is outside 1 to %d, the model's own limit",
			       o->max_context, own);
	env->model = e->model;
	env->tokenizer = e->tokenizer;
	env->max_context = o->max_context ? o->max_context : own;
	/* unlike weights of the mapping, copies are no memory that the system could take back */
	e->repack_bytes = engine_repack_plan(e, o->repack);
	env->max_state = o->state_bytes ? o->state_bytes : engine_work_share(e, 2) - engine_repack_half(e->repack_bytes);
	env->think = tokenizer_added(e->tokenizer, "<think>");
	env->think_end = tokenizer_added(e->tokenizer, "</think>");
	rc = constraint_vocab_new(e->tokenizer, e->model->config->vocab_size, e->model->config->eos_id, &env->vocab);
	return rc ? buf_why(why, rc, "no memory for a tree of %d tokens", tokenizer_vocab(e->tokenizer)) : 0;
}

static void engine_wake(void *arg)
{
	struct engine *e = arg;

	lock_take(&e->lock);
	e->woken = true;
	must_zero(pthread_cond_signal(&e->cond));
	lock_drop(&e->lock);
}

/* With max_context known: everything that computes. */
static int engine_open_machinery(struct engine *e, const struct engine_options *o, struct buf *why)
{
	int rc = pool_new(o->n_threads, &e->pool);

	if (rc)
		return buf_why(why, rc, "cannot start %d threads", o->n_threads);
	rc = kset_build(NULL, 0, &e->kset, why);
	if (rc)
		return rc;
	rc = sampler_work_new(e->model->config->vocab_size, &e->work);
	rc = rc ? rc : picking_new(e->model->config->vocab_size, e->sched.max_running, e->pool, &e->picking);
	if (rc)
		return buf_why(why, rc, "no memory to sample from %d tokens", e->model->config->vocab_size);
	numerics_init(&e->numerics, NUMERICS_NATIVE, e->model->config->index_topk);
	e->forward = forward_new(e->model, e->pool);
	forward_keep_experts(e->forward, INT_MAX);
	if (e->model->weights->mtp)
		e->speculate = speculate_new(e->model, e->sched.max_running);
	e->ring = ring_new(o->ring_requests ? o->ring_requests : ENGINE_RING_REQUESTS,
			   o->ring_bytes ? o->ring_bytes : ENGINE_RING_BYTES);
	rc = engine_repack_open(e, o, why);
	if (rc)
		return rc;
	engine_repack_set(e, e->kset);
	e->max_queued = o->max_queued ? o->max_queued : ENGINE_MAX_QUEUED;
	return 0;
}

static int engine_check_options(const struct engine_options *o, struct buf *why)
{
#define ENGINE_NOT_NEGATIVE(field) \
	if (o->field < 0) \
		return buf_why(why, RC_INVALID, #field ": %d is negative", o->field);
	ENGINE_NOT_NEGATIVE(n_threads)
	ENGINE_NOT_NEGATIVE(prefill_chunk)
	ENGINE_NOT_NEGATIVE(max_running)
	ENGINE_NOT_NEGATIVE(max_queued)
	ENGINE_NOT_NEGATIVE(ring_requests)
	ENGINE_NOT_NEGATIVE(request_timeout)
#undef ENGINE_NOT_NEGATIVE
	return 0;
}

int engine_open(const struct engine_options *o, struct engine **ret_e, struct buf *why)
{
	struct engine *e;
	int rc = engine_check_options(o, why);

	if (rc)
		return rc;
	e = mem_new(sizeof *e);
	lock_init(&e->lock, "engine");
	tally_init(&e->tally);
	lock_cond_init(&e->cond);
	lock_cond_init(&e->room);
	list_init(&e->incoming);
	list_init(&e->live);
	scheduler_init(&e->sched, o->prefill_chunk ? o->prefill_chunk : ENGINE_PREFILL_CHUNK,
		       o->max_running ? o->max_running : ENGINE_MAX_RUNNING);
	e->items = mem_grow(NULL, (size_t)e->sched.max_running, sizeof *e->items);
	e->names = mem_grow(NULL, (size_t)e->sched.max_running, sizeof *e->names);
	e->count.epoch = 1;
	e->ranks = o->ranks;
	e->device = e->ranks ? ranks_device(e->ranks, 0) : device_cpu();
	e->request_timeout = o->request_timeout;
	e->pin = o->pin;
	e->env.wake = engine_wake;
	e->env.wake_arg = e;
	e->name = o->model_name ? mem_strdup(o->model_name) : engine_dir_name(o->model_dir);
	e->aliases = mem_strdup(o->model_aliases ? o->model_aliases : "");
	rc = engine_open_files(e, o, why);
	rc = rc ? rc : engine_env_init(e, o, why);
	engine_opens(o, "opening the prefix cache");
	rc = rc ? rc : engine_cache_open(e, o, why);
	engine_opens(o, "starting threads");
	rc = rc ? rc : engine_open_machinery(e, o, why);
	if (rc == 0 && (rc = -pthread_create(&e->thread, NULL, engine_thread_main, e)) != 0)
		rc = buf_why(why, rc, "cannot start the engine thread");
	if (rc) {
		engine_close(&e);
		return rc;
	}
	e->started = true;
	*ret_e = e;
	return 0;
}

void engine_close(struct engine **pe)
{
	struct engine *e = *pe;

	if (!e)
		return;
	*pe = NULL;
	if (e->started) {
		lock_take(&e->lock);
		e->stopping = true;
		must_zero(pthread_cond_signal(&e->cond));
		lock_drop(&e->lock);
		must_zero(pthread_join(e->thread, NULL));
	}
	must(list_empty(&e->live));
	scheduler_fini(&e->sched);
	engine_cache_close(e);
	ring_free(&e->ring);
	free(e->logits);
	free(e->items);
	free(e->names);
	forward_free(&e->forward);
	speculate_free(&e->speculate);
	picking_free(&e->picking);
	sampler_work_free(&e->work);
	repack_stop(&e->repack);
	kset_unpin(&e->kset);
	kset_unpin(&e->repin);
	shadow_unref(&e->shadow);
	pool_free(&e->pool);
	constraint_vocab_free(&e->env.vocab);
	tokenizer_free(&e->tokenizer);
	model_free(&e->model);
	must_zero(pthread_cond_destroy(&e->cond));
	must_zero(pthread_cond_destroy(&e->room));
	lock_fini(&e->lock);
	tally_fini(&e->tally);
	free(e->name);
	free(e->aliases);
	free(e);
}

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
			       "%d at once, and no more than %d may ever run and wait (max_running, max_queued)", n, most);
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
		ret_s->step_age = (double)(clock_ns() - atomic_load(&e->step_end_ns)) * 1e-9;
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
