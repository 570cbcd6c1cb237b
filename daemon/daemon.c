/* SPDX-License-Identifier: MIT
 * daemon.c - the daemon's life: start, serve, reload, drain, stop.
 * Threads: control (main); the model is opened on ops. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/crash.h"
#include "daemon/exactness.h"
#include "daemon/kernels.h"
#include "daemon/last_good.h"
#include "daemon/plugins.h"
#include "daemon/serve.h"
#include "daemon/start.h"
#include "daemon/state.h"
#include "daemon/wait.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define DAEMON_TICK_MS 1000
#define DAEMON_FAST_MS 20
#define DAEMON_MMAP_BYTES (1 << 20) /* from here on a block is its own mapping, which a free gives back */
#define DAEMON_CANCEL_MS 5000 /* what cancelled requests get to end */

/* ---- configuration ---- */

const char *daemon_config_path(const struct daemon_flags *f)
{
	return f->config ? f->config : DSV4_SYSCONFDIR "/dsv4d/dsv4d.conf";
}

int daemon_configure(const struct daemon_flags *f, struct conf *ret_c, struct buf *why)
{
	struct conf c;
	int r;

	conf_init(&c);
	r = conf_load(&c, daemon_config_path(f), why);
	if (r == -ENOENT && !f->config) {
		buf_fini(why);
		r = 0;
	}
	for (int i = 0; i < CONF_COUNT && !r; i++)
		if (f->value[i])
			r = conf_set(&c, (enum conf_key)i, f->value[i], why);
	if (r)
		conf_fini(&c);
	else
		*ret_c = c;
	return r;
}

/* ---- state ---- */

const char *daemon_state_name(enum daemon_state s)
{
	static const char *const names[] = { "loading", "ready", "draining", "drained", "stopping",
					     "failed" };

	return names[s];
}

void daemon_load(struct daemon *d, int *ret_running, int *ret_queued)
{
	struct engine_status s = { 0 };

	if (d->engine)
		engine_status(d->engine, &s);
	*ret_running = s.running;
	*ret_queued = s.queued;
}

enum daemon_state daemon_state(struct daemon *d)
{
	struct engine_status s;

	if (d->stopping)
		return DAEMON_STOPPING;
	if (!d->engine || !d->http)
		return DAEMON_LOADING;
	engine_status(d->engine, &s);
	if (s.failed)
		return DAEMON_FAILED;
	if (s.draining)
		return s.running + s.queued ? DAEMON_DRAINING : DAEMON_DRAINED;
	return DAEMON_READY;
}

int daemon_need_engine(struct daemon *d, struct buf *why)
{
	return d->engine && d->http ? 0 : buf_why(why, RC_NOT_READY, "the model is being loaded");
}

/* ---- the timer ---- */

static void daemon_set_timer(struct daemon *d, bool fast)
{
	long ms = fast ? DAEMON_FAST_MS : DAEMON_TICK_MS;
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	struct itimerspec its = { t, t };

	d->fast = fast;
	must_zero(timerfd_settime(d->timer.fd, 0, &its, NULL));
}

void daemon_hurry(struct daemon *d)
{
	if (!d->fast)
		daemon_set_timer(d, true);
}

static void daemon_cancel_all(struct daemon *d)
{
	struct record *r[256];
	int n = engine_records(d->engine, r, (int)mem_countof(r));

	for (int i = 0; i < n; i++) {
		struct record_view v;

		record_view(r[i], &v);
		if (v.finish == GEN_RUNNING)
			engine_cancel(d->engine, v.id, RC_DRAINING);
		record_unref(&r[i]);
	}
}

/* One look at the requests while stopping: leave when all have ended, or when they have had their time. */
static void daemon_stop_tick(struct daemon *d)
{
	int running, queued;

	if (d->loading)
		return; /* opening cannot be interrupted; its end comes back here */
	daemon_load(d, &running, &queued);
	if (running + queued == 0) {
		d->loop.quit = true;
		return;
	}
	if (clock_ms() < d->stop_by)
		return;
	if (d->cancelled) {
		log_event(LOG_LV_WARN, "stop", "abandoned=%d", running + queued);
		d->loop.quit = true;
		return;
	}
	log_event(LOG_LV_NOTICE, "stop", "cancelled=%d forced=%d", running + queued, d->forced);
	daemon_cancel_all(d);
	d->cancelled = true;
	d->stop_by = clock_ms() + DAEMON_CANCEL_MS;
}

static void daemon_slow_tick(struct daemon *d)
{
	struct engine_status s;

	control_tick(d->control);
	if (d->http)
		http_tick(d->http);
	if (!d->engine)
		return;
	kernels_tick(d);
	exactness_tick(d);
	engine_status(d->engine, &s);
	if (s.failed && !d->failed_logged) {
		d->failed_logged = true;
		log_event(LOG_LV_ERR, "engine_failed", "why=%s", LOGQ(s.why_failed));
		sd_notify(0, "STATUS=the engine failed");
	}
}

static void daemon_on_timer(void *arg, uint32_t events)
{
	struct daemon *d = arg;
	long long now = clock_ms();
	uint64_t n;
	bool waiting;

	(void)events;
	must(read(d->timer.fd, &n, sizeof n) == sizeof n || errno == EAGAIN);
	if (now - d->ticked >= DAEMON_TICK_MS - DAEMON_FAST_MS) {
		d->ticked = now;
		daemon_slow_tick(d);
	}
	waiting = wait_tick(d);
	if (d->stopping)
		daemon_stop_tick(d);
	else if (d->fast && !waiting)
		daemon_set_timer(d, false);
}

/* ---- signals ---- */

void daemon_stop(struct daemon *d, bool now)
{
	now |= d->stopping;
	if (!d->stopping) {
		log_event(LOG_LV_NOTICE, "stopping", "drain_timeout=%lld",
			  conf_int(&d->conf, CONF_drain_timeout));
		sd_notify(0, "STOPPING=1\nSTATUS=finishing requests");
		d->stopping = true;
		d->stop_by = clock_ms() + conf_int(&d->conf, CONF_drain_timeout) * 1000;
		if (d->engine)
			engine_drain(d->engine);
	}
	if (now && !d->forced) {
		d->forced = true;
		d->stop_by = clock_ms();
		/* From here on one more signal kills, whatever hangs. */
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
	}
	daemon_hurry(d);
}

static void daemon_on_hup(struct daemon *d)
{
	json_t *changed = NULL, *restart = NULL;
	struct buf why = { 0 };

	if (daemon_reload(d, &changed, &restart, &why))
		log_event(LOG_LV_ERR, "reload_failed", "why=%s", LOGQ(buf_str(&why)));
	json_decref(changed);
	json_decref(restart);
	buf_fini(&why);
}

static void daemon_on_signal(void *arg, uint32_t events)
{
	struct daemon *d = arg;
	struct signalfd_siginfo s;

	(void)events;
	if (read(d->signals.fd, &s, sizeof s) != sizeof s)
		return;
	if (s.ssi_signo == SIGHUP)
		daemon_on_hup(d);
	else
		daemon_stop(d, false);
	if (d->forced) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		sigaddset(&set, SIGINT);
		must_zero(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	}
}

/* ---- loading the model ---- */

struct daemon_open {
	struct ops_job job;
	struct daemon *daemon;
	struct engine *engine;
	struct buf why;
	int rc;
};

/* Where the prefix cache has its files, or NULL; malloc'd. */
static char *daemon_cache_dir(const struct conf *c)
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

static void daemon_open_run(struct ops_job *j)
{
	struct daemon_open *o = list_entry(j, struct daemon_open, job);
	const struct conf *c = &o->daemon->conf;
	char *dir = daemon_cache_dir(c);
	const struct engine_options e = {
		.model_dir = conf_text(c, CONF_model),
		.model_aliases = conf_text(c, CONF_model_aliases),
		.model_name = *conf_text(c, CONF_model_name) ? conf_text(c, CONF_model_name) : NULL,
		.n_threads = (int)conf_int(c, CONF_threads),
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
	};

	o->rc = exactness_golden(&o->why);
	o->rc = o->rc ? o->rc : engine_open(&e, &o->engine, &o->why);
	free(dir);
}

static int daemon_fail(struct daemon *d, int code, const char *event, const char *why)
{
	log_event(LOG_LV_ERR, event, "error=%s", LOGQ(why));
	d->exit = code;
	d->loop.quit = true;
	return -1;
}

/* The file's numerics, then the HTTP server. */
static int daemon_serve(struct daemon *d)
{
	struct buf why = { 0 };
	int r = 0, code = DAEMON_CONFIG;

	for (int i = 0; i < numerics_count && !r; i++)
		if (d->conf.numeric[i])
			r = engine_numerics_set(d->engine, numerics_table[i].name, d->conf.numeric[i], &why);
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
static void daemon_ready(struct daemon *d, int rc, const char *why)
{
	if (rc) {
		daemon_fail(d, DAEMON_UNAVAILABLE, "kernels_failed", why);
	} else if (daemon_serve(d) == 0) {
		log_event(LOG_LV_NOTICE, "ready", "model=%s http=%s control=%s seconds=%.2f",
			  LOGQ(engine_model_name(d->engine)), http_address(d->http),
			  LOGQ(conf_text(&d->conf, CONF_control)), (double)(clock_ms() - d->started) / 1000);
		sd_notifyf(0, "READY=1\nSTATUS=serving %s on %s", engine_model_name(d->engine),
			   http_address(d->http));
		wait_tick(d);
	}
}

static void daemon_open_done(struct ops_job *j)
{
	struct daemon_open *o = list_entry(j, struct daemon_open, job);
	struct daemon *d = o->daemon;

	d->loading = false;
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
		daemon_fail(d, DAEMON_UNAVAILABLE, "model_failed",
			    o->why.len ? buf_str(&o->why) : rc_text(o->rc));
	else
		start_kernels(d, daemon_ready);
	buf_fini(&o->why);
	free(o);
}

/* ---- start and end ---- */

static int daemon_signals(struct daemon *d)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	/* Before any thread starts, so that all inherit it. */
	must_zero(pthread_sigmask(SIG_BLOCK, &set, NULL));
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	d->signals = (struct loop_source){ fd, daemon_on_signal, d };
	return loop_add(&d->loop, &d->signals, EPOLLIN);
}

static int daemon_timer(struct daemon *d)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	d->timer = (struct loop_source){ fd, daemon_on_timer, d };
	daemon_set_timer(d, false);
	return loop_add(&d->loop, &d->timer, EPOLLIN);
}

static int daemon_control(struct daemon *d)
{
	const struct control_options o = {
		.path = conf_text(&d->conf, CONF_control),
		.group = conf_text(&d->conf, CONF_group),
		.admin_group = conf_text(&d->conf, CONF_admin_group),
		.mode = (mode_t)conf_int(&d->conf, CONF_mode),
	};
	struct buf why = { 0 };
	int r = control_open(&o, &d->loop, d, &d->control, &why);

	if (r)
		daemon_fail(d, r == -EADDRINUSE ? DAEMON_TEMPORARY : DAEMON_ERROR, "control_failed",
			    buf_str(&why));
	buf_fini(&why);
	return r;
}

/* Without a state directory requests are served all the same; what needs one says so. */
static int daemon_state_dir(struct daemon *d)
{
	struct buf why = { 0 };
	int r = state_open(conf_text(&d->conf, CONF_state), &d->state, &why);

	if (r == -EBUSY)
		daemon_fail(d, DAEMON_TEMPORARY, "state_failed", buf_str(&why));
	else if (r)
		log_event(LOG_LV_WARN, "state_unusable", "why=%s", LOGQ(buf_str(&why)));
	else
		last_good_read(d);
	exactness_read(d);
	buf_fini(&why);
	return r == -EBUSY ? r : 0;
}

static int daemon_start(struct daemon *d)
{
	struct daemon_open *o;
	int r = daemon_signals(d);

	r = r ? r : daemon_timer(d);
	if (!r && (daemon_control(d) || daemon_state_dir(d)))
		return -1;
	r = r ? r : ops_open(&d->ops, &d->loop);
	if (r)
		return daemon_fail(d, DAEMON_ERROR, "start_failed", rc_text(r));
	sd_notifyf(0, "STATUS=loading %s", conf_text(&d->conf, CONF_model));
	o = mem_new(sizeof *o);
	*o = (struct daemon_open){ .job = { .run = daemon_open_run, .done = daemon_open_done }, .daemon = d };
	d->loading = true;
	must_zero(ops_submit(d->ops, &o->job, NULL));
	return 0;
}

/* Did it end as asked, with an engine that worked? */
static bool daemon_clean(struct daemon *d)
{
	struct engine_status s = { 0 };

	if (d->engine)
		engine_status(d->engine, &s);
	return !s.failed;
}

/* Jobs use engine and sets, so ops stops first; the last sets are let go by the engine's end, and told to ops. */
static void daemon_fini(struct daemon *d)
{
	bool clean = daemon_clean(d);

	wait_fini(d);
	if (d->ops)
		ops_stop(d->ops);
	exactness_close(d);
	serve_stop(d);
	kernels_close(d->kernels);
	if (d->engine)
		engine_close(&d->engine);
	ops_close(&d->ops);
	kernels_free(&d->kernels);
	plugins_free(&d->plugins);
	state_close(&d->state, clean);
	if (d->control)
		control_flush(d->control, 1000);
	control_close(&d->control);
	if (d->timer.fd > 0)
		close(d->timer.fd);
	if (d->signals.fd > 0)
		close(d->signals.fd);
	loop_fini(&d->loop);
	json_decref(d->probe_history);
	json_decref(d->probe_counts);
	conf_fini(&d->conf);
}

int daemon_run(const struct daemon_flags *f)
{
	struct daemon d = { .flags = f, .started = clock_ms(), .began = (double)time(NULL),
			    .probe_history = json_array(), .probe_counts = json_object() };
	struct buf why = { 0 };
	enum log_level level;
	int r = daemon_configure(f, &d.conf, &why);

	if (!r && (r = serve_check(&d.conf, &why)))
		conf_fini(&d.conf);
	if (r)
		log_event(LOG_LV_ERR, "bad_config", "error=%s", LOGQ(buf_str(&why)));
	buf_fini(&why);
	if (r) {
		json_decref(d.probe_history);
		json_decref(d.probe_counts);
		return DAEMON_CONFIG;
	}
	/* Said once, it no longer grows with what was freed; else a large body moves all larger ones into the heap. */
	mallopt(M_MMAP_THRESHOLD, DAEMON_MMAP_BYTES);
	mallopt(M_TRIM_THRESHOLD, DAEMON_MMAP_BYTES);
	list_init(&d.waits);
	d.plugins = plugins_new();
	d.kernels = kernels_new();
	must_zero(log_parse_level(conf_text(&d.conf, CONF_log_level), &level));
	log_set_level(level);
	crash_log();
	must_zero(loop_init(&d.loop));
	log_event(LOG_LV_NOTICE, "starting", "version=%s pid=%d model=%s", PACKAGE_VERSION, (int)getpid(),
		  LOGQ(conf_text(&d.conf, CONF_model)));
	if (daemon_start(&d) == 0)
		loop_run(&d.loop);
	daemon_fini(&d);
	log_event(LOG_LV_NOTICE, "stopped", "status=%d", d.exit);
	return d.exit;
}
