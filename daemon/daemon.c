/* SPDX-License-Identifier: MIT
 * daemon.c - the daemon's life: start, serve, reload, drain, stop.
 * Threads: control (main). Locks: none. */
#include "daemon/daemon.h"
#include "daemon/conf_file.h"
#include "daemon/crash.h"
#include "daemon/kernels/exactness.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/last_good.h"
#include "daemon/kernels/plugins.h"
#include "daemon/open.h"
#include "daemon/probes/probe_history.h"
#include "daemon/probes/probe_schedule.h"
#include "daemon/serve.h"
#include "daemon/state.h"
#include "daemon/verbs/wait.h"
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
	r = conf_file_load(&c, daemon_config_path(f), why);
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

void daemon_tell_manager(struct daemon *d)
{
	struct engine_status s;

	engine_status(d->engine, &s);
	manager_tick(&d->manager, &s, engine_model_name(d->engine), http_address(d->http));
}

static void daemon_slow_tick(struct daemon *d)
{
	struct engine_status s;

	control_tick(d->control);
	if (d->http)
		http_tick(d->http);
	if (!d->engine || !d->http)
		manager_loading(&d->manager, conf_text(&d->conf, CONF_model));
	if (!d->engine)
		return;
	kernels_tick(d);
	plugins_tell_crash(d);
	exactness_tick(d);
	probe_schedule_tick(d);
	if (d->http && !d->stopping)
		daemon_tell_manager(d);
	engine_status(d->engine, &s);
	if (s.failed && d->failed_logged && engine_device_lost(d->engine))
		daemon_fail(d, DAEMON_ERROR, "device_lost", s.why_failed); /* its clients were told a tick ago */
	if (s.failed && !d->failed_logged) {
		d->failed_logged = true;
		log_event(LOG_LV_ERR, "engine_failed", "why=%s kernels=%s", LOGQ(s.why_failed),
			  LOGQ(kset_name(d->kernels->active->kset)));
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
		manager_stopping(&d->manager, conf_int(&d->conf, CONF_drain_timeout) + DAEMON_CANCEL_MS / 1000);
		d->stopping = true;
		d->stop_by = clock_ms() + conf_int(&d->conf, CONF_drain_timeout) * 1000;
		if (d->engine) {
			engine_drain(d->engine);
			probe_schedule_tick(d); /* nobody waits for what it runs */
		}
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
	json_t *told = NULL;
	struct buf why = { 0 };

	if (daemon_reload(d, &told, &why))
		log_event(LOG_LV_ERR, "reload_failed", "why=%s", LOGQ(buf_str(&why)));
	json_decref(told);
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

int daemon_fail(struct daemon *d, int code, const char *event, const char *why)
{
	log_event(LOG_LV_ERR, event, "error=%s", LOGQ(why));
	d->exit = code;
	d->loop.quit = true;
	return -1;
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
		.fd = d->manager.control,
	};
	struct buf why = { 0 };
	int r = control_open(&o, &d->loop, d, &d->control, &why);

	d->manager.control = -1;
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
	if (r != -EBUSY)
		probe_history_read(d->probe_history, d->state);
	buf_fini(&why);
	return r == -EBUSY ? r : 0;
}

static int daemon_start(struct daemon *d)
{
	int r = daemon_signals(d);

	r = r ? r : daemon_timer(d);
	if (!r && (daemon_control(d) || daemon_state_dir(d)))
		return -1;
	r = r ? r : ops_open(&d->ops, &d->loop);
	if (r)
		return daemon_fail(d, DAEMON_ERROR, "start_failed", rc_text(r));
	open_model(d);
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
	crash_engine(NULL);
	if (d->engine)
		engine_close(&d->engine);
	ops_close(&d->ops);
	kernels_free(&d->kernels);
	plugins_free(&d->plugins);
	ranks_close(&d->ranks);
	state_close(&d->state, clean);
	if (d->control)
		control_flush(d->control, 1000);
	control_close(&d->control);
	manager_close(&d->manager);
	if (d->timer.fd > 0)
		close(d->timer.fd);
	if (d->signals.fd > 0)
		close(d->signals.fd);
	loop_fini(&d->loop);
	probe_history_free(&d->probe_history);
	probe_schedule_free(&d->probe_schedule);
	conf_fini(&d->conf);
}

int daemon_run(const struct daemon_flags *f)
{
	struct daemon d = { .flags = f, .started = clock_ms(), .began = (double)time(NULL),
			    .probe_history = probe_history_new(), .probe_schedule = probe_schedule_new() };
	struct buf why = { 0 };
	enum log_level level;
	int r = daemon_configure(f, &d.conf, &why);

	if (!r && (r = serve_check(&d.conf, &why)))
		conf_fini(&d.conf);
	if (!r && (r = manager_open(&d.manager, &d.conf, &why)))
		conf_fini(&d.conf);
	if (r)
		log_event(LOG_LV_ERR, "bad_config", "error=%s", LOGQ(buf_str(&why)));
	buf_fini(&why);
	if (r) {
		probe_history_free(&d.probe_history);
		probe_schedule_free(&d.probe_schedule);
		return DAEMON_CONFIG;
	}
	/* Said once, it no longer grows with what was freed; else a large body moves all larger ones into the heap. */
	mallopt(M_MMAP_THRESHOLD, DAEMON_MMAP_BYTES);
	mallopt(M_TRIM_THRESHOLD, DAEMON_MMAP_BYTES);
	list_init(&d.waits);
	list_init(&d.probe_jobs);
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
