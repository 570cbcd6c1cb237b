/* SPDX-License-Identifier: MIT
 * http.c - the HTTP server: starts, ticks and stops libmicrohttpd, and leads each call through it.
 * Threads: control starts, ticks and stops; libmicrohttpd's threads run callbacks. Lock: http. */
#include "api/http/http.h"
#include "api/http/conns.h"
#include "api/http/exchange.h"
#include "api/http/files.h"
#include "api/http/head.h"
#include "api/http/page.h"
#include "api/http/ports.h"
#include "api/http/server.h"
#include "api/http/tls.h"
#include "api/http/traffic.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_MAGIC 0x477b5eed
#define HTTP_BODY_SECONDS 20              /* without a byte of a body */
#define HTTP_LARGE ((size_t)1 << 20)      /* bytes of a body or an answer after which freed memory is given back */
#define HTTP_TRIM_SECONDS 2
#define HTTP_TRIMS 2                      /* the engine lets go of a call a little later */
#define HTTP_NO_PATIENCE 0                /* without an end, as libmicrohttpd has it */
#define HTTP_HEARD_S 1.0 /* that connections without a request yet get when stopping */
#define HTTP_HEARD_POLL_MS 5
#define HTTP_STOP_MS 3000                 /* for slow clients to take their last bytes */

struct http {
	unsigned magic;
	struct http_options options;
	char *version, *cors;
	struct engine *engine;
	struct keys *keys;            /* NULL: everyone may call */
	struct keyhash own;           /* of options.own_key, if there is one */
	time_t started;
	struct ports ports;
	struct conns conns;
	atomic_bool stopping;
	atomic_size_t body_total;
	atomic_bool large_over;       /* a call that was large */
	int trims; double trimmed;    /* the ticking thread's: to come; when the last one was */
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

bool http_repetition_guard(const struct http *h)
{
	return h->options.repetition_guard;
}

double http_keep_alive(const struct http *h)
{
	return h->options.keep_alive < 0 ? INFINITY : h->options.keep_alive;
}

double http_unread(const struct http *h)
{
	return h->options.unread;
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

const char *http_address(const struct http *h)
{
	return h->ports.address;
}

void http_own_url(const struct http *h, struct buf *ret_url)
{
	static const char *const any[][2] = { { "0.0.0.0:", "127.0.0.1:" }, { "[::]:", "[::1]:" } };
	const char *address = h->ports.n ? h->ports.port[0].address : "", *host = "";

	buf_clear(ret_url);
	if (*address && strncmp(address, ENDPOINT_UNIX, strlen(ENDPOINT_UNIX)))
		buf_adds(ret_url, h->options.tls_cert ? "https://" : "http://");
	for (size_t i = 0; i < mem_countof(any) && !*host; i++)
		if (!strncmp(address, any[i][0], strlen(any[i][0]))) {
			host = any[i][1];
			address += strlen(any[i][0]);
		}
	buf_printf(ret_url, "%s%s", host, address);
}

bool http_is_local(const struct http *h)
{
	return h->ports.local;
}

/* ---- one call's way through libmicrohttpd ---- */

/* `old`: HTTP/1.0. */
static void http_begin(struct http *h, struct exchange *x, bool old)
{
	const struct head_options head = { h->keys, h->options.own_key ? &h->own : NULL, h->options.allow_no_keys,
					   h->cors, h->options.max_body };

	lock_take(&h->lock);
	list_put(&h->calls, &x->node);
	lock_drop(&h->lock);
	traffic_began(h->traffic);
	conns_body_begins(&h->conns, x->connection);
	head_check(x, &head, old);
	if (x->error.rc && head_refuses_now(x, h->options.max_body))
		exchange_fail(x, &x->error);
}

static bool http_take(struct http *h, struct exchange *x, const char *data, size_t n)
{
	const struct http_options *o = &h->options;

	return exchange_take_body(x, data, n, o->max_body, o->max_body_total, &h->body_total);
}

/* Seconds that libmicrohttpd lets a connection be silent, from now on. */
static void http_patience(struct MHD_Connection *conn, unsigned seconds)
{
	MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
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
		http_patience(conn, HTTP_BODY_SECONDS);
		http_begin(h, x, !strcmp(version, "HTTP/1.0"));
		return MHD_YES;
	}
	*len = 0;
	if (x->status && !x->blurted)
		return MHD_YES;
	if (x->blurted && !n)
		return MHD_NO;
	if (n)
		return http_take(h, x, data, n) ? MHD_YES : MHD_NO;
	if (x->work.step)
		return exchange_advance(x);
	conns_request_whole(&h->conns, conn);
	http_patience(conn, (unsigned)h->options.idle);
	if (x->error.rc && !page_refuse(x))
		exchange_fail(x, &x->error);
	else if (!x->error.rc)
		x->route->handler(x);
	exchange_drop_body(x, &h->body_total);
	if (x->streaming)
		http_patience(conn, HTTP_NO_PATIENCE); /* http_tick() knows better who takes nothing */
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
	const struct traffic_call c = { x->route, x->status, x->rc, gone, x->sent };

	traffic_ended(h->traffic, &c);
}

static void http_completed(void *arg, struct MHD_Connection *conn, void **state,
			   enum MHD_RequestTerminationCode why)
{
	struct http *h = arg;
	struct exchange *x = *state;
	bool gone;

	*state = NULL;
	if (!x)
		return;
	gone = (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && !x->blurted) || x->abandoned;
	if (gone && !x->failed[0])
		snprintf(x->failed, sizeof x->failed, "%s", atomic_load(&x->cut) ? "unread" : "disconnected");
	http_log(x);
	http_count(h, x, gone);
	if (x->body_seen >= HTTP_LARGE || x->sent >= HTTP_LARGE)
		atomic_store(&h->large_over, true);
	exchange_drop_body(x, &h->body_total);
	if (x->streaming && !gone)
		http_patience(conn, (unsigned)h->options.idle); /* for its next request */
	conns_request_over(&h->conns, conn);
	/* Unlisted before it is freed: http_tick() only touches what is listed. */
	lock_take(&h->lock);
	list_del(&x->node);
	if (list_empty(&h->calls))
		must_zero(pthread_cond_signal(&h->idle));
	lock_drop(&h->lock);
	exchange_free(&x);
}

/* ---- life cycle ---- */

static void http_defaults(struct http_options *o)
{
	if (!o->listen)
		o->listen = o->n_fds ? "" : HTTP_DEFAULT_LISTEN;
	o->version = o->version ? o->version : "";
	o->max_connections = o->max_connections > 0 ? o->max_connections : 256;
	o->head = o->head > 0 ? o->head : 10;
	o->body = o->body > 0 ? o->body : 300; /* the largest then comes with 30 kB/s */
	o->idle = o->idle > 0 ? o->idle : 60;
	o->unread = o->unread > 0 ? o->unread : 900;
	o->threads = o->threads > 0 ? o->threads : 4;
	o->max_body = o->max_body ? o->max_body : (size_t)8 << 20;
	o->max_body_total = o->max_body_total ? o->max_body_total : 8 * o->max_body;
	o->keep_alive = o->keep_alive != 0 ? o->keep_alive : 4;
	o->stall = o->stall > 0 ? o->stall : 120;
}

/* When stopping, no new connection. */
static enum MHD_Result http_accept(void *arg, const struct sockaddr *address, socklen_t len)
{
	(void)address;
	(void)len;
	return http_stopping(arg) ? MHD_NO : MHD_YES;
}

int http_check(const struct http_options *o, struct buf *why)
{
	struct files f = { 0 };
	int r = files_read(&f, o, why);

	files_fini(&f);
	return r ? r : ports_check(o, why);
}

static int http_open(struct http *h, struct buf *why)
{
	const struct http_options *o = &h->options;
	const struct port_options po = {
		.tls = o->tls_cert, .threads = (unsigned)o->threads, .connections = (unsigned)o->max_connections,
		.per_address = (unsigned)o->max_connections_per_address, .first_seconds = (unsigned)ceil(o->head),
		.accept = http_accept, .access = http_access, .completed = http_completed, .arg = h,
		.notify = conns_notify, .notify_arg = &h->conns,
	};
	struct files f = { 0 };
	int r = files_read(&f, o, why);

	h->keys = f.keys;
	if (f.tls)
		tls_use(&f.tls);
	h->cors = o->cors ? mem_strdup(o->cors) : NULL;
	return r ? r : ports_open(&h->ports, o, &po, why);
}

int http_start(const struct http_options *o, struct engine *e, struct http **ret_h, struct buf *why)
{
	struct http *h = mem_new(sizeof *h);
	int rc;

	h->magic = HTTP_MAGIC;
	h->options = *o;
	http_defaults(&h->options);
	h->version = mem_strdup(h->options.version);
	if (o->own_key)
		keyhash_make(&h->own, o->own_key);
	h->engine = e;
	h->traffic = traffic_new();
	h->started = time(NULL);
	list_init(&h->calls);
	conns_init(&h->conns, h->options.head, h->options.body, h->options.idle);
	lock_init(&h->lock, "http");
	lock_cond_init(&h->idle);
	rc = http_open(h, why);
	h->options.listen = h->options.version = h->options.keys = NULL; /* the caller's */
	h->options.cors = NULL;
	h->options.fds = NULL;
	if (rc)
		http_stop(&h);
	else
		*ret_h = h;
	return rc;
}

/* ---- what a reload replaces ---- */

struct http_next {
	struct files files;
};

int http_next_read(const struct http *h, const struct http_options *o, struct http_next **ret_next, struct buf *why)
{
	struct http_next *next = mem_new(sizeof *next);
	int r = files_read(&next->files, o, why);

	/* A server that had none of them when it started gets none now. */
	if (!h->keys)
		keys_free(&next->files.keys);
	if (!h->options.tls_cert)
		tls_pair_free(&next->files.tls);
	if (r)
		http_next_free(&next);
	else
		*ret_next = next;
	return r;
}

bool http_next_use(struct http *h, struct http_next **next, struct keys_change *ret_change)
{
	bool keys = (*next)->files.keys != NULL;

	*ret_change = (struct keys_change){ 0 };
	if (keys)
		keys_replace(h->keys, &(*next)->files.keys, clock_s(), ret_change);
	if ((*next)->files.tls)
		tls_use(&(*next)->files.tls);
	http_next_free(next);
	return keys;
}

void http_next_free(struct http_next **pn)
{
	struct http_next *next = *pn;

	*pn = NULL;
	if (!next)
		return;
	files_fini(&next->files);
	free(next);
}

/* ---- ticks and the end ---- */

static void http_wake_all(struct http *h)
{
	lock_take(&h->lock);
	list_each(x, &h->calls, struct exchange, node)
		exchange_wake(x, EXCHANGE_STOPPING);
	lock_drop(&h->lock);
}

/* A large JSON is hundreds of thousands of small pieces among which others lie: freed, they stay in the heap that
 * the C library keeps, for each thread apart, until it is told. */
static void http_trim(struct http *h, double now)
{
	if (atomic_exchange(&h->large_over, false))
		h->trims = HTTP_TRIMS;
	if (h->trims == 0 || now - h->trimmed < HTTP_TRIM_SECONDS)
		return;
	h->trims--;
	h->trimmed = now;
	malloc_trim(0);
}

void http_tick(struct http *h)
{
	double now = clock_s(), keep_alive = http_keep_alive(h);

	must_magic(h, HTTP_MAGIC);
	lock_take(&h->lock);
	list_each(x, &h->calls, struct exchange, node) {
		exchange_tick(x, now, keep_alive);
		if (exchange_unread(x, now))
			exchange_cut(x);
	}
	lock_drop(&h->lock);
	conns_tick(&h->conns);
	http_trim(h, now);
}

static void http_wait_idle(struct http *h)
{
	double end = clock_s() + HTTP_STOP_MS * 1e-3, left;

	lock_take(&h->lock);
	while (!list_empty(&h->calls) && (left = end - clock_s()) > 0)
		lock_wait(&h->lock, &h->idle, (long)(left * 1e3) + 1);
	lock_drop(&h->lock);
}

/* Who was let in last is still answered, or what the service manager would have kept for the next start is lost. */
static void http_wait_heard(struct http *h)
{
	double end = clock_s() + HTTP_HEARD_S;

	while (conns_unheard(&h->conns) && clock_s() < end)
		poll(NULL, 0, HTTP_HEARD_POLL_MS);
}

void http_stop(struct http **ph)
{
	struct http *h = *ph;

	*ph = NULL;
	if (!h)
		return;
	must_magic(h, HTTP_MAGIC);
	ports_deafen(&h->ports);
	http_wait_heard(h);
	atomic_store(&h->stopping, true);
	http_wake_all(h);
	http_wait_idle(h);
	ports_close(&h->ports);
	must(list_empty(&h->calls));
	must_zero(pthread_cond_destroy(&h->idle));
	lock_fini(&h->lock);
	h->magic = 0;
	conns_fini(&h->conns);
	if (h->options.tls_cert)
		tls_end();
	keys_free(&h->keys);
	free(h->cors);
	traffic_free(&h->traffic);
	free(h->version);
	free(h);
}
