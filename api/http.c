/* SPDX-License-Identifier: MIT
 * http.c - the HTTP server: starts, ticks and stops libmicrohttpd, and leads each call through it.
 * Threads: control starts, ticks and stops; libmicrohttpd's threads run callbacks. Lock: http. */
#include "api/http.h"
#include "api/exchange.h"
#include "api/endpoint.h"
#include "api/head.h"
#include "api/page.h"
#include "api/server.h"
#include "api/traffic.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_MAGIC 0x477b5eed
#define HTTP_CONNECTION_MEMORY (128 * 1024)
#define HTTP_IDLE_SECONDS 60
#define HTTP_FIRST_SECONDS 10             /* until the first head is whole */
#define HTTP_STOP_MS 3000                 /* for slow clients to take their last bytes */

struct http {
	unsigned magic;
	struct http_options options;
	char *version, *aliases;
	char address[ENDPOINT_MAX];
	struct engine *engine;
	struct keys *keys;            /* NULL: everyone may call */
	time_t started;
	struct MHD_Daemon *daemon;
	atomic_bool stopping;
	atomic_size_t body_total;
	struct traffic *traffic;
	struct lock lock;
	pthread_cond_t idle;          /* the list became empty */
	struct list calls;
};

bool http_stopping(const struct http *h)
{
	return atomic_load(&h->stopping);
}

time_t http_started(const struct http *h)
{
	return h->started;
}

const char *http_version(const struct http *h)
{
	return h->version;
}

double http_keep_alive(const struct http *h)
{
	return h->options.keep_alive;
}

double http_stall(const struct http *h)
{
	return h->options.stall;
}

struct traffic *http_traffic(const struct http *h)
{
	return h->traffic;
}

bool http_ask(struct http *h, struct question *q)
{
	if (h->options.ask)
		h->options.ask(h->options.ask_arg, q);
	return h->options.ask != NULL;
}

bool http_model_alias(const struct http *h, const char *name)
{
	const char *s = h->aliases + strspn(h->aliases, " ");

	for (size_t n; *s; s += n + strspn(s + n, " ")) {
		n = strcspn(s, " ");
		if (s[n - 1] == '*' ? !strncmp(s, name, n - 1) : strlen(name) == n && !memcmp(s, name, n))
			return true;
	}
	return false;
}

const char *http_address(const struct http *h)
{
	return h->address;
}

/* ---- one call's way through libmicrohttpd ---- */

/* `old`: HTTP/1.0. */
static void http_begin(struct http *h, struct exchange *x, bool old)
{
	lock_take(&h->lock);
	list_put(&h->calls, &x->node);
	lock_drop(&h->lock);
	traffic_began(h->traffic);
	head_check(x, h->keys, h->options.max_body, old);
	if (x->error.rc && head_refuses_now(x, h->options.max_body))
		exchange_fail(x, &x->error);
}

static bool http_take(struct http *h, struct exchange *x, const char *data, size_t n)
{
	const struct http_options *o = &h->options;

	return exchange_take_body(x, data, n, o->max_body, o->max_body_total, &h->body_total);
}

static enum MHD_Result http_access(void *arg, struct MHD_Connection *conn, const char *url,
				   const char *method, const char *version, const char *data, size_t *len,
				   void **state)
{
	struct http *h = arg;
	struct exchange *x = *state;
	size_t n = *len;

	if (!x) {
		*state = x = exchange_new(h, h->engine, conn, method, url);
		MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS);
		http_begin(h, x, !strcmp(version, "HTTP/1.0"));
		return MHD_YES;
	}
	*len = 0;
	if (x->status)
		return MHD_YES;
	if (n)
		return http_take(h, x, data, n) ? MHD_YES : MHD_NO;
	if (x->work.step)
		return exchange_advance(x);
	if (x->error.rc && !page_refuse(x))
		exchange_fail(x, &x->error);
	else if (!x->error.rc)
		x->route->handler(x);
	exchange_drop_body(x, &h->body_total);
	return x->work.step ? exchange_advance(x) : MHD_YES;
}

static void http_log(const struct exchange *x)
{
	double ms = (clock_s() - x->started) * 1e3;
	unsigned long long sent = x->sent;
	const char *key = keys_name(&x->pass);

#define HTTP_LOG(level)                                                                                      \
	log_event(level, "http", "id=%s method=%s path=%s key=%s status=%d error=%s ms=%.1f bytes=%llu",     \
		  x->id, LOGQ(x->method), LOGQ(x->path), key ? key : "-", x->status,                         \
		  x->failed[0] ? x->failed : "-", ms, sent)
	/* Two call sites, so that a flood of good requests cannot crowd out the failures. */
	if (x->status >= 500)
		HTTP_LOG(LOG_LV_WARN);
	else
		HTTP_LOG(LOG_LV_INFO);
#undef HTTP_LOG
}

static void http_count(struct http *h, const struct exchange *x, bool gone)
{
	const struct traffic_call c = { x->route, x->status, gone, x->sent };

	traffic_ended(h->traffic, &c);
}

static void http_completed(void *arg, struct MHD_Connection *conn, void **state,
			   enum MHD_RequestTerminationCode why)
{
	struct http *h = arg;
	struct exchange *x = *state;

	(void)conn;
	*state = NULL;
	if (!x)
		return;
	if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && !x->failed[0])
		snprintf(x->failed, sizeof x->failed, "disconnected");
	http_log(x);
	http_count(h, x, why != MHD_REQUEST_TERMINATED_COMPLETED_OK);
	exchange_drop_body(x, &h->body_total);
	/* Unlisted before it is freed: http_tick() only touches what is listed. */
	lock_take(&h->lock);
	list_del(&x->node);
	if (list_empty(&h->calls))
		must_zero(pthread_cond_signal(&h->idle));
	lock_drop(&h->lock);
	exchange_free(&x);
}

static void http_mhd_log(void *arg, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void http_mhd_log(void *arg, const char *fmt, va_list ap)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof text, fmt, ap);
	log_event(LOG_LV_DEBUG, "libmicrohttpd", "text=%s", LOGQ(text));
}

/* ---- life cycle ---- */

static void http_defaults(struct http_options *o)
{
	o->listen = o->listen ? o->listen : HTTP_DEFAULT_LISTEN;
	o->version = o->version ? o->version : "";
	o->model_aliases = o->model_aliases ? o->model_aliases : "claude-*";
	o->max_connections = o->max_connections > 0 ? o->max_connections : 256;
	o->threads = o->threads > 0 ? o->threads : 4;
	o->max_body = o->max_body ? o->max_body : (size_t)8 << 20;
	o->max_body_total = o->max_body_total ? o->max_body_total : 8 * o->max_body;
	o->keep_alive = o->keep_alive > 0 ? o->keep_alive : 4;
	o->stall = o->stall > 0 ? o->stall : 120;
}

/* When stopping, no new connection. MHD_quiesce_daemon() would say so to the kernel, but its workers' own removal of the
 * socket from their epoll sets races with it, and the loser aborts the process (0.9.75). */
static enum MHD_Result http_accept(void *arg, const struct sockaddr *address, socklen_t len)
{
	(void)address;
	(void)len;
	return http_stopping(arg) ? MHD_NO : MHD_YES;
}

static struct MHD_Daemon *http_mhd_start(struct http *h, int fd)
{
	const struct http_options *o = &h->options;
	unsigned threads = (unsigned)o->threads, connections = (unsigned)o->max_connections;
	/* A pool of one is refused by libmicrohttpd: 0 means its one internal thread. */
	struct MHD_OptionItem pool[] = {
		{ threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)threads, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
				0, http_accept, h, http_access, h, MHD_OPTION_EXTERNAL_LOGGER, http_mhd_log, h,
				MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, http_completed, h,
				MHD_OPTION_CONNECTION_LIMIT, connections > threads ? connections : threads,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_MEMORY,
				MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_FIRST_SECONDS,
				MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}

/* Whom it serves: those with a key, or everyone where only this machine can ask. */
static int http_guard(struct http *h, int fd, struct buf *why)
{
	const struct http_options *o = &h->options;

	if (o->keys)
		return keys_read(o->keys, &h->keys, why);
	if (o->allow_no_keys || endpoint_is_local(fd))
		return 0;
	return buf_why(why, RC_CONFIG, "%s can be reached from other machines and there is no key file: name one "
		       "(keys = FILE, lines for it come from dsv4ctl key new), listen on 127.0.0.1, or say "
		       "allow_no_keys = yes", h->address);
}

int http_start(const struct http_options *o, struct engine *e, struct http **ret_h, struct buf *why)
{
	struct http *h = mem_new(sizeof *h);
	int fd = o->listen_fd, rc = 0;

	h->magic = HTTP_MAGIC;
	h->options = *o;
	http_defaults(&h->options);
	h->version = mem_strdup(h->options.version);
	h->aliases = mem_strdup(h->options.model_aliases);
	h->engine = e;
	h->traffic = traffic_new();
	h->started = time(NULL);
	list_init(&h->calls);
	lock_init(&h->lock, "http");
	lock_cond_init(&h->idle);
	if (fd <= 0)
		rc = endpoint_open(h->options.listen, &fd, why);
	if (!rc)
		rc = endpoint_name(fd, h->address, why);
	if (!rc)
		rc = http_guard(h, fd, why);
	if (!rc && !(h->daemon = http_mhd_start(h, fd)))
		rc = buf_why(why, RC_INTERNAL, "cannot start the HTTP server on %s", h->address);
	h->options.listen = h->options.version = h->options.keys = h->options.model_aliases = NULL; /* the caller's */
	if (rc) {
		if (o->listen_fd <= 0 && fd > 0)
			close(fd);
		http_stop(&h);
		return rc;
	}
	*ret_h = h;
	return 0;
}

int http_check(const struct http_options *o, struct buf *why)
{
	struct keys *k = NULL;
	int r = o->keys ? keys_read(o->keys, &k, why) : 0;

	keys_free(&k);
	return r;
}

/* ---- what a reload replaces ---- */

struct http_next {
	struct keys *keys;
};

int http_next_read(const struct http *h, const struct http_options *o, struct http_next **ret_next, struct buf *why)
{
	struct http_next *next = mem_new(sizeof *next);
	int r = h->keys && o->keys ? keys_read(o->keys, &next->keys, why) : 0;

	if (r)
		http_next_free(&next);
	else
		*ret_next = next;
	return r;
}

void http_next_use(struct http *h, struct http_next **next)
{
	if ((*next)->keys)
		keys_replace(h->keys, &(*next)->keys);
	http_next_free(next);
}

void http_next_free(struct http_next **pn)
{
	struct http_next *next = *pn;

	*pn = NULL;
	if (!next)
		return;
	keys_free(&next->keys);
	free(next);
}

/* ---- ticks and the end ---- */

static void http_wake_all(struct http *h, unsigned why)
{
	lock_take(&h->lock);
	list_each(x, &h->calls, struct exchange, node)
		exchange_wake(x, why);
	lock_drop(&h->lock);
}

void http_tick(struct http *h)
{
	must_magic(h, HTTP_MAGIC);
	http_wake_all(h, EXCHANGE_TICK);
}

static void http_wait_idle(struct http *h)
{
	double end = clock_s() + HTTP_STOP_MS * 1e-3, left;

	lock_take(&h->lock);
	while (!list_empty(&h->calls) && (left = end - clock_s()) > 0)
		lock_wait(&h->lock, &h->idle, (long)(left * 1e3) + 1);
	lock_drop(&h->lock);
}

void http_stop(struct http **ph)
{
	struct http *h = *ph;

	*ph = NULL;
	if (!h)
		return;
	must_magic(h, HTTP_MAGIC);
	if (h->daemon) {
		atomic_store(&h->stopping, true);
		http_wake_all(h, EXCHANGE_STOPPING);
		http_wait_idle(h);
		MHD_stop_daemon(h->daemon); /* closes the listening socket */
	}
	must(list_empty(&h->calls));
	must_zero(pthread_cond_destroy(&h->idle));
	lock_fini(&h->lock);
	h->magic = 0;
	keys_free(&h->keys);
	traffic_free(&h->traffic);
	free(h->version);
	free(h->aliases);
	free(h);
}
