/* SPDX-License-Identifier: MIT
 * engine_cache.c - the prefix cache of an open model, in memory and on disk.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/model_id.h"
#include "engine/engine_priv.h"

#define ENGINE_CACHE_PATIENCE 5.0
#define ENGINE_CACHE_CLOSE 5.0 /* seconds in which what is queued for the disk may still be written */

/* A disk cache that cannot be had is no reason not to serve. */
static void engine_cache_open_disk(struct engine *e, const struct engine_options *o)
{
	const struct cache_disk_options d = {
		.dir = o->cache_dir,
		.layout = &e->model->layout,
		.model_id = e->model_id,
		.bytes = o->cache_disk_bytes,
		.write_rate = o->cache_write_rate,
		.patience = o->cache_disk_patience,
	};

	if (o->cache_dir && *o->cache_dir && cache_disk_open(&d, &e->cache_disk, &e->cache_disk_why) < 0)
		e->cache_disk = NULL;
}

int engine_cache_open(struct engine *e, const struct engine_options *o, struct buf *why)
{
	struct cache_options c = {
		.layout = &e->model->layout,
		.model_id = e->model_id,
		.bytes = o->cache_bytes == SIZE_MAX ? engine_memory_work_share(e, 8) : o->cache_bytes,
		.ready = e->env.wake,
		.ready_arg = e->env.wake_arg,
	};
	int rc = model_id(e->model->weights->checkpoint, e->model_id, why);

	if (rc)
		return rc;
	engine_cache_open_disk(e, o);
	c.disk = e->cache_disk;
	e->env.cache = e->cache = cache_new(&c);
	e->env.disk_wait_ns =
		(long long)(1e9 * (o->cache_disk_patience > 0 ? o->cache_disk_patience : ENGINE_CACHE_PATIENCE));
	return 0;
}

void engine_cache_close(struct engine *e)
{
	/* Before the cache, which waits for its reads: of a disk that hangs they end here. */
	cache_disk_stop(e->cache_disk, ENGINE_CACHE_CLOSE);
	cache_free(&e->cache);
	cache_disk_close(&e->cache_disk, 0);
	buf_fini(&e->cache_disk_why);
	buf_fini(&e->kept);
}

struct cache *engine_cache(struct engine *e)
{
	return e->cache;
}

struct cache_disk *engine_cache_disk(struct engine *e)
{
	return e->cache_disk;
}

const char *engine_cache_disk_why(struct engine *e)
{
	return buf_str(&e->cache_disk_why);
}
