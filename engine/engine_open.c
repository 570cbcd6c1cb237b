/* SPDX-License-Identifier: MIT
 * engine_open.c - opening an engine: its model, prefix cache and all that computes; and closing it.
 * Threads: any. Lock: engine. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/engine_priv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_PREFILL_CHUNK 512
#define ENGINE_MAX_RUNNING 64
#define ENGINE_MAX_QUEUED 256
#define ENGINE_RECOMPUTE_PATIENCE 5.0
#define ENGINE_RING_REQUESTS 256
#define ENGINE_RING_BYTES ((size_t)64 << 20)

/* The directory's last component; "." and ".." are resolved first. */
static char *engine_dir_name(const char *dir)
{
	char *real = realpath(dir, NULL), *name;
	const char *slash = real ? strrchr(real, '/') : NULL;

	name = mem_strdup(slash && slash[1] ? slash + 1 : dir);
	free(real);
	return name;
}

static void engine_opens(const struct engine_options *o, const char *stage)
{
	if (o->progress)
		o->progress(o->progress_arg, stage);
}

/* What a GPU has beside weights and the slots that are to come. */
static size_t engine_rank_free(const struct engine *e, int rank)
{
	const struct model *m = e->model->shard ? e->model->shard[rank] : e->model;
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
	e->model->progress = o->progress;
	e->model->progress_arg = o->progress_arg;
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
	env->max_state = o->state_bytes;
	if (!env->max_state)
		env->max_state = engine_memory_work_share(e, 2) - engine_repack_half(e->repack_bytes);
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
	e->recompute_patience = o->recompute_patience > 0 ? o->recompute_patience : ENGINE_RECOMPUTE_PATIENCE;
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
