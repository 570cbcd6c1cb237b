/* SPDX-License-Identifier: MIT
 * http.c - the HTTP server: starts, ticks and stops libmicrohttpd, and leads each call through it.
 * Threads: control starts, ticks and stops; libmicrohttpd's threads run callbacks. Lock: http. */
#include "api/http.h"
#include "api/conns.h"
#include "api/cors.h"
#include "api/exchange.h"
#include "api/head.h"
#include "api/page.h"
#include "api/port.h"
#include "api/server.h"
#include "api/tls.h"
#include "api/traffic.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_MAGIC 0x477b5eed
#define HTTP_MAX_PORTS 8
#define HTTP_BODY_SECONDS 20              /* without a byte of a body */
#define HTTP_STOP_MS 3000                 /* for slow clients to take their last bytes */

/* Files as they were read. */
struct http_next {
	struct keys *keys;
	struct tls_pair *tls;
};

struct http {
	unsigned magic;
	struct http_options options;
	char *version, *aliases, *cors;
	char address[HTTP_MAX_PORTS * ENDPOINT_MAX];
	struct engine *engine;
	struct keys *keys;            /* NULL: everyone may call */
	time_t started;
	struct port port[HTTP_MAX_PORTS];
	int n_ports;
	struct conns conns;
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
	return h->options.keep_alive < 0 ? INFINITY : h->options.keep_alive;
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
	const struct head_options head = { h->keys, h->options.allow_no_keys, h->cors, h->options.max_body };

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
	if (x->status)
		return MHD_YES;
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
	bool gone;

	*state = NULL;
	if (!x)
		return;
	gone = why != MHD_REQUEST_TERMINATED_COMPLETED_OK || x->abandoned;
	if (gone && !x->failed[0])
		snprintf(x->failed, sizeof x->failed, "disconnected");
	http_log(x);
	http_count(h, x, gone);
	exchange_drop_body(x, &h->body_total);
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
	o->model_aliases = o->model_aliases ? o->model_aliases : "claude-*";
	o->max_connections = o->max_connections > 0 ? o->max_connections : 256;
	o->head = o->head > 0 ? o->head : 10;
	o->idle = o->idle > 0 ? o->idle : 60;
	o->threads = o->threads > 0 ? o->threads : 4;
	o->max_body = o->max_body ? o->max_body : (size_t)8 << 20;
	o->max_body_total = o->max_body_total ? o->max_body_total : 8 * o->max_body;
	o->keep_alive = o->keep_alive != 0 ? o->keep_alive : 4;
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

/* The next of words separated by blanks, or false at the end. */
static bool http_word(const char **s, char out[ENDPOINT_MAX])
{
	size_t n;

	*s += strspn(*s, " \t");
	n = strcspn(*s, " \t");
	snprintf(out, ENDPOINT_MAX, "%.*s", (int)n, *s);
	*s += n;
	return n > 0;
}

/* Whom it serves: those with a key, or everyone where only this machine can ask. */
static int http_guard(const struct http_options *o, const char *address, bool local, struct buf *why)
{
	if (o->keys || o->allow_no_keys || local)
		return 0;
	return buf_why(why, RC_CONFIG, "%s can be reached from other machines and there is no key file: name one "
		       "(keys = FILE, lines for it come from dsv4ctl key new), listen on 127.0.0.1, or say "
		       "allow_no_keys = yes", address);
}

static int http_read_files(const struct http_options *o, struct http_next *next, struct buf *why)
{
	int r = o->cors ? cors_check(o->cors, why) : 0;

	if (!r && !o->tls_cert != !o->tls_key)
		r = buf_why(why, RC_CONFIG, "tls_cert and tls_key: one without the other");
	if (!r && o->keys)
		r = keys_read(o->keys, &next->keys, why);
	if (!r && o->tls_cert)
		r = tls_read(o->tls_cert, o->tls_key, &next->tls, why);
	return r;
}

int http_check(const struct http_options *o, struct buf *why)
{
	struct http_next next = { 0 };
	const char *s = o->listen ? o->listen : HTTP_DEFAULT_LISTEN;
	char address[ENDPOINT_MAX];
	bool local;
	int r = http_read_files(o, &next, why);

	while (!r && http_word(&s, address)) {
		r = endpoint_check(address, &local, why);
		r = r ? r : http_guard(o, address, local, why);
	}
	keys_free(&next.keys);
	tls_pair_free(&next.tls);
	return r;
}

/* Listening sockets: those of the addresses, then those given. */
static int http_sockets(const struct http_options *o, int fd[HTTP_MAX_PORTS], int *ret_n, struct buf *why)
{
	const char *s = o->listen;
	char address[ENDPOINT_MAX];
	int r = 0;

	*ret_n = 0;
	while (!r && http_word(&s, address)) {
		if (*ret_n + o->n_fds >= HTTP_MAX_PORTS)
			r = buf_why(why, RC_INVALID, "more than %d addresses to listen on", HTTP_MAX_PORTS);
		r = r ? r : endpoint_open(address, &fd[*ret_n], why);
		*ret_n += r == 0;
	}
	for (int i = 0; i < o->n_fds; i++)
		fd[(*ret_n)++] = o->fds[i];
	return r;
}

static int http_open_port(struct http *h, int fd, struct buf *why)
{
	const struct http_options *o = &h->options;
	const struct port_options po = {
		.tls = o->tls_cert, .threads = (unsigned)o->threads, .connections = (unsigned)o->max_connections,
		.per_address = (unsigned)o->max_connections_per_address, .first_seconds = (unsigned)ceil(o->head),
		.accept = http_accept, .access = http_access, .completed = http_completed, .arg = h,
		.notify = conns_notify, .notify_arg = &h->conns,
	};
	struct port *p = &h->port[h->n_ports];
	size_t used;
	int r = port_open(p, fd, &po, why);

	if (r)
		return r;
	h->n_ports++;
	used = strlen(h->address);
	snprintf(h->address + used, sizeof h->address - used, "%s%s", used ? " " : "", p->address);
	return 0;
}

/* All are looked at before one is served. */
static int http_open_ports(struct http *h, struct buf *why)
{
	int fd[HTTP_MAX_PORTS], n, r = http_sockets(&h->options, fd, &n, why);
	char address[ENDPOINT_MAX];

	for (int i = 0; i < n && !r; i++) {
		r = endpoint_name(fd[i], address, why);
		r = r ? r : http_guard(&h->options, address, endpoint_is_local(fd[i]), why);
	}
	for (int i = 0; i < n; i++) {
		r = r ? r : http_open_port(h, fd[i], why);
		if (h->n_ports <= i)
			close(fd[i]);
	}
	return r;
}

static int http_open(struct http *h, struct buf *why)
{
	const struct http_options *o = &h->options;
	struct http_next next = { 0 };
	int r = http_read_files(o, &next, why);

	h->keys = next.keys;
	if (next.tls)
		tls_use(&next.tls);
	h->cors = o->cors ? mem_strdup(o->cors) : NULL;
	return r ? r : http_open_ports(h, why);
}

int http_start(const struct http_options *o, struct engine *e, struct http **ret_h, struct buf *why)
{
	struct http *h = mem_new(sizeof *h);
	int rc;

	must(o->n_fds <= HTTP_MAX_PORTS);
	h->magic = HTTP_MAGIC;
	h->options = *o;
	http_defaults(&h->options);
	h->version = mem_strdup(h->options.version);
	h->aliases = mem_strdup(h->options.model_aliases);
	h->engine = e;
	h->traffic = traffic_new();
	h->started = time(NULL);
	list_init(&h->calls);
	conns_init(&h->conns, h->options.head, h->options.idle);
	lock_init(&h->lock, "http");
	lock_cond_init(&h->idle);
	rc = http_open(h, why);
	h->options.listen = h->options.version = h->options.keys = h->options.model_aliases = NULL; /* the caller's */
	h->options.cors = NULL;
	h->options.fds = NULL;
	if (rc)
		http_stop(&h);
	else
		*ret_h = h;
	return rc;
}

/* ---- what a reload replaces ---- */

int http_next_read(const struct http *h, const struct http_options *o, struct http_next **ret_next, struct buf *why)
{
	struct http_next *next = mem_new(sizeof *next);
	int r = http_read_files(o, next, why);

	/* A server that had none of them when it started gets none now. */
	if (!h->keys)
		keys_free(&next->keys);
	if (!h->options.tls_cert)
		tls_pair_free(&next->tls);
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
	if ((*next)->tls)
		tls_use(&(*next)->tls);
	http_next_free(next);
}

void http_next_free(struct http_next **pn)
{
	struct http_next *next = *pn;

	*pn = NULL;
	if (!next)
		return;
	keys_free(&next->keys);
	tls_pair_free(&next->tls);
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

void http_tick(struct http *h)
{
	double now = clock_s(), keep_alive = http_keep_alive(h);

	must_magic(h, HTTP_MAGIC);
	lock_take(&h->lock);
	list_each(x, &h->calls, struct exchange, node)
		exchange_tick(x, now, keep_alive);
	lock_drop(&h->lock);
	conns_tick(&h->conns);
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
	atomic_store(&h->stopping, true);
	http_wake_all(h);
	http_wait_idle(h);
	for (int i = 0; i < h->n_ports; i++)
		port_close(&h->port[i]);
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
	free(h->aliases);
	free(h);
}
