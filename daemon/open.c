/* SPDX-License-Identifier: MIT
 * open.c - from the configuration to a daemon that serves: the model is opened, then kernels, numerics, HTTP.
 * Threads: control; the model is opened on ops. Locks: none. */
#include "daemon/open.h"
#include "daemon/daemon.h"
#include "daemon/kernels/exactness.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/start.h"
#include "daemon/serve.h"
#include "daemon/verbs/wait.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

struct open_job {
	struct ops_job job;
	struct daemon *daemon;
	struct ranks *ranks;
	struct engine *engine;
	struct buf why;
	int rc;
};

/* Where the prefix cache has its files, or NULL; malloc'd. */
static char *open_cache_dir(const struct conf *c)
{
	const char *disk = conf_text(c, CONF_disk);
	struct buf dir = { 0 };

	if (!strcmp(disk, "no") || conf_int(c, CONF_memory) == 0)
		return NULL;
	if (*disk == '/')
		return mem_strdup(disk);
	buf_printf(&dir, "%s/cache", conf_text(c, CONF_state));
	return buf_take(&dir);
}

static void open_progress(void *arg, const char *stage)
{
	manager_progress(arg, stage);
}

static enum pool_pin open_pin(const char *pin)
{
	return !strcmp(pin, "cpu") ? POOL_PIN_CPU : !strcmp(pin, "node") ? POOL_PIN_NODE : POOL_PIN_NO;
}

static enum engine_repack open_repack(const char *repack)
{
	return !strcmp(repack, "auto") ? ENGINE_REPACK_AUTO : !strcmp(repack, "yes") ? ENGINE_REPACK_YES :
		ENGINE_REPACK_NO;
}

static void open_run(struct ops_job *j)
{
	struct open_job *o = list_entry(j, struct open_job, job);
	const struct conf *c = &o->daemon->conf;
	char *dir = open_cache_dir(c);
	struct engine_options e = {
		.model_dir = conf_text(c, CONF_model),
		.model_aliases = conf_text(c, CONF_model_aliases),
		.model_name = *conf_text(c, CONF_model_name) ? conf_text(c, CONF_model_name) : NULL,
		.n_threads = (int)conf_int(c, CONF_threads),
		.pin = open_pin(conf_text(c, CONF_pin)),
		.repack = open_repack(conf_text(c, CONF_repack)),
		.mlock = conf_yes(c, CONF_mlock),
		.prefill_chunk = (int)conf_int(c, CONF_prefill_chunk),
		.max_context = (int)conf_int(c, CONF_max_context),
		.max_running = (int)conf_int(c, CONF_max_running),
		.max_queued = (int)conf_int(c, CONF_max_queued),
		.ring_requests = (int)conf_int(c, CONF_ring_requests),
		.ring_bytes = (size_t)conf_int(c, CONF_ring_bytes),
		.request_timeout = (int)conf_int(c, CONF_request_timeout),
		.cache_bytes = conf_int(c, CONF_memory) == CONF_AUTO ? SIZE_MAX : (size_t)conf_int(c, CONF_memory),
		.cache_dir = dir,
		.cache_disk_bytes = (size_t)conf_int(c, CONF_disk_bytes),
		.cache_write_rate = (size_t)conf_int(c, CONF_write_rate),
		.progress = open_progress,
		.progress_arg = &o->daemon->manager,
	};

	manager_begins(&o->daemon->manager, "opening the device", (int)conf_int(c, CONF_nccl_timeout));
	o->rc = ranks_open(conf_text(c, CONF_device), (int)conf_int(c, CONF_nccl_timeout), &o->ranks, &o->why);
	e.ranks = o->ranks;
	manager_progress(&o->daemon->manager, "computing the golden digest");
	o->rc = o->rc ? o->rc : exactness_golden(o->ranks, &o->why);
	o->rc = o->rc ? o->rc : engine_open(&e, &o->engine, &o->why);
	free(dir);
}

/* The file's numerics and what else is live, then the HTTP server. */
static int open_serve(struct daemon *d)
{
	struct buf why = { 0 };
	int r = 0, code = DAEMON_CONFIG;

	for (int i = 0; i < numerics_count && !r; i++)
		if (d->conf.numeric[i])
			r = engine_numerics_set(d->engine, numerics_table[i].name, d->conf.numeric[i], &why);
	r = r ? r : engine_speculate(d->engine, (int)conf_int(&d->conf, CONF_speculate), &why);
	engine_max_gap(d->engine, (int)conf_int(&d->conf, CONF_max_gap));
	if (!r) {
		r = serve_start(d, &why);
		code = r == RC_CONFIG ? DAEMON_CONFIG : DAEMON_TEMPORARY;
	}
	if (r)
		daemon_fail(d, code, "start_failed", why.len ? buf_str(&why) : rc_text(r));
	buf_fini(&why);
	return r;
}

/* Model and kernels are there. */
static void open_ready(struct daemon *d, int rc, const char *why)
{
	if (rc) {
		daemon_fail(d, DAEMON_UNAVAILABLE, "kernels_failed", why);
	} else if (open_serve(d) == 0) {
		log_event(LOG_LV_NOTICE, "ready", "model=%s http=%s control=%s seconds=%.2f",
			  LOGQ(engine_model_name(d->engine)), http_address(d->http),
			  LOGQ(conf_text(&d->conf, CONF_control)), (double)(clock_ms() - d->started) / 1000);
		manager_ready(&d->manager);
		daemon_tell_manager(d);
		wait_tick(d);
	}
}

static void open_done(struct ops_job *j)
{
	struct open_job *o = list_entry(j, struct open_job, job);
	struct daemon *d = o->daemon;

	d->loading = false;
	d->ranks = o->ranks;
	d->device = d->ranks ? ranks_device(d->ranks, 0) : NULL;
	d->engine = o->engine;
	ops_yield(d->ops); /* the pool and the engine thread were started from it */
	if (d->engine) {
		kernels_adopt(d);
		if (*engine_cache_disk_why(d->engine))
			log_event(LOG_LV_WARN, "cache_disk_unusable", "why=%s", LOGQ(engine_cache_disk_why(d->engine)));
	}
	if (d->stopping)
		daemon_hurry(d);
	else if (o->rc)
		daemon_fail(d, DAEMON_UNAVAILABLE, d->device ? "model_failed" : "device_failed",
			    o->why.len ? buf_str(&o->why) : rc_text(o->rc));
	else {
		manager_progress(&d->manager, "trying kernels");
		start_kernels(d, open_ready);
	}
	buf_fini(&o->why);
	free(o);
}

void open_model(struct daemon *d)
{
	struct open_job *o = mem_new(sizeof *o);

	manager_loading(&d->manager, conf_text(&d->conf, CONF_model));
	*o = (struct open_job){ .job = { .run = open_run, .done = open_done }, .daemon = d };
	d->loading = true;
	must_zero(ops_submit(d->ops, &o->job, NULL));
}
