/* SPDX-License-Identifier: MIT
 * daemon.h - the daemon's life: start, serve, reload, drain, stop.
 * Threads: control (main). Locks: none. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "api/http/http.h"
#include "daemon/conf.h"
#include "daemon/control/control.h"
#include "daemon/control/listen.h"
#include "daemon/loop.h"
#include "daemon/manager.h"
#include "daemon/ops.h"
#include "engine/base/keyhash.h"
#include "engine/base/list.h"
#include "engine/engine.h"

/* sysexits(3) and our own. */
enum daemon_exit {
	DAEMON_OK = 0,
	DAEMON_ERROR = 1,
	DAEMON_USAGE = 2,
	DAEMON_UNAVAILABLE = 69, /* model or plugin */
	DAEMON_TEMPORARY = 75,   /* socket or port in use */
	DAEMON_CONFIG = 78
};

/* The order is that of io.dsv4.Daemon.State. */
enum daemon_state { DAEMON_LOADING, DAEMON_READY, DAEMON_DRAINING, DAEMON_DRAINED, DAEMON_STOPPING,
		    DAEMON_FAILED };

/* What the command line said; it wins over the file, also at a reload. */
struct daemon_flags {
	const char *value[CONF_COUNT]; /* NULL: not given */
	const char *config;            /* NULL: the default path, which may be missing */
};

#define DAEMON_MAX_UNIX 4

struct daemon {
	const struct daemon_flags *flags;
	struct conf conf;
	struct manager manager;
	struct loop loop;
	struct loop_source signals, timer;
	struct control *control;
	struct ops *ops;
	struct state *state;           /* NULL when the directory is of no use */
	struct plugins *plugins;
	struct kernels *kernels;
	struct ranks *ranks;           /* what computes; NULL until it is open */
	struct device *device;         /* the first of them */
	struct engine *engine;         /* NULL until loaded */
	struct http *http;
	char probe_key[KEYHASH_NEW];   /* lets probes in at http's front; made at each start, stands nowhere else */
	struct listen http_unix[DAEMON_MAX_UNIX]; /* HTTP's Unix sockets */
	int n_http_unix;
	struct list waits;             /* wait.c */
	struct probe_history *probe_history;
	struct list probe_jobs;        /* probe_job.c */
	struct probe_schedule *probe_schedule;
	double began;                  /* seconds since 1970 */
	int exact_told, exact_kept;    /* exactness.c: so many of the disproved */
	struct exactness_keep *exact_keeping; /* NULL: none */
	long long started, stop_by, ticked; /* milliseconds, clock_ms() */
	bool loading, drain, stopping, forced, cancelled, failed_logged, fast;
	int exit;
};

/* Runs until the daemon ends; returns an enum daemon_exit. */
int daemon_run(const struct daemon_flags *f);
/* The configuration that file and flags make. RC_CONFIG, -errno; why names file and line. */
int daemon_configure(const struct daemon_flags *f, struct conf *ret_c, struct buf *why);
const char *daemon_config_path(const struct daemon_flags *f);

enum daemon_state daemon_state(struct daemon *d);
const char *daemon_state_name(enum daemon_state s);
/* Running and queued requests; both 0 while loading. */
void daemon_load(struct daemon *d, int *ret_running, int *ret_queued);
/* 0, or RC_NOT_READY while the model is being loaded. */
int daemon_need_engine(struct daemon *d, struct buf *why);
/* Begins to end: drains, at the drain timeout or with `now` cancels. */
void daemon_stop(struct daemon *d, bool now);
/* Ends at once with this enum daemon_exit, and logs `event`; returns -1. */
int daemon_fail(struct daemon *d, int code, const char *event, const char *why);
/* What is being done, to the service manager; only when requests can be served. */
void daemon_tell_manager(struct daemon *d);
/* A tick every few milliseconds instead of every second, until a tick finds nothing to wait for. */
void daemon_hurry(struct daemon *d);

/* reload.c: reads the file again and applies what is live. {changed, restart: names of configuration keys; keys: how
 * the callers' keys differ, where there are any}. */
int daemon_reload(struct daemon *d, json_t **ret_told, struct buf *why);

#endif
