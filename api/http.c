/* SPDX-License-Identifier: MIT
 * http.c - the HTTP server: starts, ticks and stops libmicrohttpd, and leads each call through it.
 * Threads: control starts, ticks and stops; libmicrohttpd's threads run callbacks. Lock: http. */
#include "api/http.h"
#include "api/exchange.h"
#include "api/endpoint.h"
#include "api/server.h"
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
#define HTTP_MAX_HEADER_BYTES (32 * 1024) /* far below the memory above: the refusal is ours, in JSON */
#define HTTP_MAX_HEADERS 100
#define HTTP_IDLE_SECONDS 60
#define HTTP_FIRST_SECONDS 10             /* until the first head is whole */
#define HTTP_STOP_MS 3000                 /* for slow clients to take their last bytes */

struct http {
	unsigned magic;
	struct http_options options;
	char *version;
	char address[ENDPOINT_MAX];
	struct engine *engine;
	time_t started;
	struct MHD_Daemon *daemon;
	atomic_bool stopping;
	atomic_size_t body_total;
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

const char *http_address(const struct http *h)
{
	return h->address;
}

/* ---- one call's way through libmicrohttpd ---- */

struct http_header_sum {
	size_t bytes, count;
	int lengths, codings, hosts;
	bool chunked, bad_name;
};

static enum MHD_Result http_count_header(void *arg, enum MHD_ValueKind kind, const char *key,
					 const char *value)
{
	struct http_header_sum *sum = arg;

	sum->count++;
	sum->bytes += strlen(key) + (value ? strlen(value) : 0) + 4;
	sum->lengths += kind == MHD_HEADER_KIND && !strcasecmp(key, "Content-Length");
	sum->hosts += kind == MHD_HEADER_KIND && !strcasecmp(key, "Host");
	sum->bad_name |= kind == MHD_HEADER_KIND && (!value || key[strcspn(key, " \t")]);
	if (kind == MHD_HEADER_KIND && !strcasecmp(key, "Transfer-Encoding")) {
		sum->codings++;
		sum->chunked = value && !strcasecmp(value, "chunked");
	}
	return MHD_YES;
}

static bool http_header_is(struct exchange *x, const char *name, const char *want)
{
	const char *v = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
	size_t n = strlen(want);

	return v && !strncasecmp(v, want, n) && (!v[n] || v[n] == ';' || v[n] == ' ');
}

/* Where the body ends must not depend on who reads the head: a proxy in front could see another request than
 * we do. NULL when all is well. libmicrohttpd's strict mode knows less than this, and sends the head of its
 * refusals twice. */
static const char *http_bad_framing(const struct http_header_sum *sum, bool old)
{
	if (sum->lengths > 1)
		return "more than one Content-Length";
	if (sum->lengths && sum->codings)
		return "both Content-Length and Transfer-Encoding";
	if (sum->codings > 1 || (sum->codings && !sum->chunked))
		return "Transfer-Encoding other than one \"chunked\"";
	if (sum->bad_name)
		return "a header line without a name and a colon";
	if (sum->hosts > 1 || (sum->hosts == 0 && !old))
		return "expected one Host header";
	return NULL;
}

/* Refuses by the headers alone; the error is answered when the body has been read. */
static void http_check_head(struct http *h, struct exchange *x, bool old)
{
	struct http_header_sum sum = { .bytes = strlen(x->path) };
	bool post = !strcmp(x->method, "POST");
	const char *framing;

	MHD_get_connection_values(x->connection, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, http_count_header,
				  &sum);
	framing = http_bad_framing(&sum, old);
	x->close = framing != NULL;
	if (framing)
		error_set(&x->error, RC_INVALID, NULL, "%s", framing);
	else if (sum.bytes > HTTP_MAX_HEADER_BYTES || sum.count > HTTP_MAX_HEADERS)
		error_set(&x->error, RC_HEADERS, NULL,
			  "request headers larger than %d bytes or more than %d of them",
			  HTTP_MAX_HEADER_BYTES, HTTP_MAX_HEADERS);
	else if (!x->error.rc && http_stopping(h))
		error_set(&x->error, RC_DRAINING, NULL, "the server is shutting down");
	else if (!x->error.rc && post &&
		 MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Content-Encoding") &&
		 !http_header_is(x, "Content-Encoding", "identity"))
		error_set(&x->error, RC_MEDIA, NULL, "compressed request bodies are not accepted");
	/* A browser sends any other type across origins without asking first; so this is also a guard against
	 * pages that talk to a server on the loopback address. */
	else if (!x->error.rc && post && !http_header_is(x, "Content-Type", "application/json"))
		error_set(&x->error, RC_MEDIA, NULL, "expected Content-Type: application/json");
}

/* Does the client wait for a word before it sends its body? Then an error can come now. */
static bool http_may_refuse_now(const struct exchange *x, size_t max_body)
{
	const char *expect = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Expect");
	const char *length = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Content-Length");

	return x->close || (expect && !strcasecmp(expect, "100-continue")) ||
	       (length && strtoull(length, NULL, 10) > 8 * max_body);
}

/* `old`: HTTP/1.0, where Host may be missing. */
static void http_begin(struct http *h, struct exchange *x, bool old)
{
	const char *length = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Content-Length");

	lock_take(&h->lock);
	list_put(&h->calls, &x->node);
	lock_drop(&h->lock);
	http_check_head(h, x, old);
	if (!x->error.rc && length && strtoull(length, NULL, 10) > h->options.max_body)
		error_set(&x->error, RC_TOO_LARGE, NULL, "the body is larger than %zu bytes",
			  h->options.max_body);
	if (x->error.rc && http_may_refuse_now(x, h->options.max_body))
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
	if (x->error.rc)
		exchange_fail(x, &x->error);
	else
		x->route->handler(x);
	exchange_drop_body(x, &h->body_total);
	return x->work.step ? exchange_advance(x) : MHD_YES;
}

static void http_log(const struct exchange *x)
{
	double ms = (clock_s() - x->started) * 1e3;
	unsigned long long sent = x->sent;

#define HTTP_LOG(level)                                                                                      \
	log_event(level, "http", "id=%s method=%s path=%s status=%d error=%s ms=%.1f bytes=%llu", x->id,     \
		  LOGQ(x->method), LOGQ(x->path), x->status, x->failed[0] ? x->failed : "-", ms, sent)
	/* Two call sites, so that a flood of good requests cannot crowd out the failures. */
	if (x->status >= 500)
		HTTP_LOG(LOG_LV_WARN);
	else
		HTTP_LOG(LOG_LV_INFO);
#undef HTTP_LOG
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

int http_start(const struct http_options *o, struct engine *e, struct http **ret_h, struct buf *why)
{
	struct http *h = mem_new(sizeof *h);
	int fd = o->listen_fd, rc = 0;

	h->magic = HTTP_MAGIC;
	h->options = *o;
	http_defaults(&h->options);
	h->version = mem_strdup(h->options.version);
	h->engine = e;
	h->started = time(NULL);
	list_init(&h->calls);
	lock_init(&h->lock, "http");
	lock_cond_init(&h->idle);
	if (fd <= 0)
		rc = endpoint_open(h->options.listen, &fd, why);
	if (!rc)
		rc = endpoint_name(fd, h->address, why);
	if (!rc && !(h->daemon = http_mhd_start(h, fd)))
		rc = buf_why(why, RC_INTERNAL, "cannot start the HTTP server on %s", h->address);
	h->options.listen = h->options.version = NULL; /* the caller's */
	if (rc) {
		if (o->listen_fd <= 0 && fd > 0)
			close(fd);
		http_stop(&h);
		return rc;
	}
	*ret_h = h;
	return 0;
}

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
	free(h->version);
	free(h);
}
