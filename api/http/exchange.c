/* SPDX-License-Identifier: MIT
 * exchange.c - one HTTP exchange, from its headers to its last byte: body, reply, stream, waiting.
 * Threads: the connection's libmicrohttpd thread; exchange_wake() from any. Locks: none. */
#include "api/http/exchange.h"
#include "api/http/body.h"
#include "api/http/server.h"
#include "api/http/tls.h"
#include "engine/base/clock.h"
#include "engine/base/hexid.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define EXCHANGE_MAGIC 0xca11f00d
#define EXCHANGE_MESSAGES "/v1/messages" /* it and paths below have errors of another form */
#define EXCHANGE_BLOCK 16384       /* bytes asked of a stream at a time */
#define EXCHANGE_UNSENT 65536      /* of a stream that the kernel has but cannot send yet: then its socket is full */
/* Times the body limit, of one with a length: so much is read and thrown away before we answer in the middle of it. */
#define EXCHANGE_SWALLOW 8
#define EXCHANGE_LINGER 2          /* seconds that it may then go on, and bytes: a reset would take the answer away */
#define EXCHANGE_LINGER_BYTES ((size_t)64 << 20)

static int exchange_fd(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	must(i);
	return i->connect_fd;
}

/* Clients that take us for a proxy name the server too. */
static const char *exchange_path(const char *url)
{
	size_t scheme = !strncasecmp(url, "http://", 7) ? 7 : !strncasecmp(url, "https://", 8) ? 8 : 0;
	const char *path = scheme ? strchr(url + scheme, '/') : url;

	return path ? path : "/";
}

struct exchange *exchange_new(struct http *h, struct engine *e, struct MHD_Connection *conn,
			      const char *method, const char *url)
{
	struct exchange *x = mem_new(sizeof *x);

	x->magic = EXCHANGE_MAGIC;
	list_init(&x->node);
	x->http = h;
	x->engine = e;
	x->connection = conn;
	x->method = method;
	x->path = mem_strdup(exchange_path(url));
	x->started = clock_s();
	atomic_store(&x->quiet_since, x->started);
	x->fd = exchange_fd(conn);
	x->route = router_find(method, x->path, &x->rest);
	router_allow(x->path, x->allow);
	strcpy(x->label, "http");
	hexid_make(x->id, sizeof x->id, x->route ? x->route->id_prefix : "req-");
	if (!x->route && *x->allow)
		error_set(&x->error, RC_METHOD, NULL, "%s does not take %s, only %s", x->path, method,
			  x->allow);
	else if (!x->route)
		error_set(&x->error, RC_NOT_FOUND, NULL, "no route %s", x->path);
	return x;
}

void exchange_free(struct exchange **pc)
{
	struct exchange *x = *pc;

	*pc = NULL;
	if (!x)
		return;
	must_magic(x, EXCHANGE_MAGIC);
	if (x->work.end)
		x->work.end(x->work.arg);
	x->magic = 0;
	keys_leave(&x->pass);
	error_fini(&x->error);
	buf_fini(&x->out);
	free(x->body);
	free(x->path);
	free(x);
}

/* ---- body ---- */

static int exchange_grow_body(struct exchange *x, size_t need, size_t max, size_t max_total,
			      atomic_size_t *total)
{
	size_t cap = x->body_cap ? x->body_cap : 4096, more;
	char *p;

	while (cap < need)
		cap *= 2;
	if (cap > max)
		cap = max;
	more = cap - x->body_cap;
	if (atomic_fetch_add(total, more) + more > max_total) {
		atomic_fetch_sub(total, more);
		return error_set(&x->error, RC_BUSY, NULL,
				 "too many bytes of request bodies in flight, try again");
	}
	p = realloc(x->body, cap);
	if (!p) {
		atomic_fetch_sub(total, more);
		return error_set(&x->error, RC_BUSY, NULL, "out of memory for the request body");
	}
	x->body = p;
	x->body_cap = cap;
	return 0;
}

/* Has it said how long its body is? One in chunks may have no end. */
static bool exchange_sized(const struct exchange *x)
{
	return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH) != NULL;
}

bool exchange_take_body(struct exchange *x, const char *data, size_t len, size_t max, size_t max_total,
			atomic_size_t *total)
{
	x->body_seen += len;
	if (x->blurted)
		return x->body_seen <= max * EXCHANGE_SWALLOW + EXCHANGE_LINGER_BYTES && clock_s() < x->linger;
	if (!x->error.rc && x->body_seen > max) {
		error_set(&x->error, RC_TOO_LARGE, NULL, "the body is larger than %zu bytes", max);
		exchange_drop_body(x, total);
	}
	if (x->error.rc) {
		if (x->body_seen > (exchange_sized(x) ? max * EXCHANGE_SWALLOW : max))
			exchange_blurt(x);
		return true;
	}
	if (x->body_len + len > x->body_cap &&
	    exchange_grow_body(x, x->body_len + len, max, max_total, total)) {
		exchange_drop_body(x, total);
		return true;
	}
	memcpy(x->body + x->body_len, data, len);
	x->body_len += len;
	return true;
}

void exchange_drop_body(struct exchange *x, atomic_size_t *total)
{
	atomic_fetch_sub(total, x->body_cap);
	free(x->body);
	x->body = NULL;
	x->body_len = x->body_cap = 0;
}

/* By the path, not by the route: what is refused there before any handler runs looks alike. */
static bool exchange_messages(const struct exchange *x)
{
	size_t n = strlen(EXCHANGE_MESSAGES);

	return !strncmp(x->path, EXCHANGE_MESSAGES, n) && (!x->path[n] || x->path[n] == '/');
}

/* ---- replies ---- */

static void exchange_header(struct MHD_Response *r, const char *name, const char *value)
{
	must(MHD_add_response_header(r, name, value) == MHD_YES);
}

static void exchange_retry_after(const struct exchange *x, struct MHD_Response *r)
{
	char seconds[16];

	snprintf(seconds, sizeof seconds, "%d", x->retry_after > 0 ? x->retry_after : 1);
	exchange_header(r, "Retry-After", seconds);
}

/* No credentials: a page has to show a key of its own. */
static void exchange_cors(const struct exchange *x, struct MHD_Response *r)
{
	exchange_header(r, "Access-Control-Allow-Origin", x->cors);
	exchange_header(r, "Access-Control-Expose-Headers", "x-request-id, retry-after");
	exchange_header(r, "Vary", "Origin");
}

static void exchange_queue(struct exchange *x, unsigned status, struct MHD_Response *r)
{
	must(r && !x->status);
	x->status = (int)status;
	exchange_header(r, "x-request-id", x->id);
	if (exchange_messages(x))
		exchange_header(r, "request-id", x->id); /* as those clients call it */
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED && *x->allow)
		exchange_header(r, "Allow", x->allow);
	if (status == MHD_HTTP_UNAUTHORIZED)
		exchange_header(r, "WWW-Authenticate", "Bearer");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE || status == MHD_HTTP_TOO_MANY_REQUESTS)
		exchange_retry_after(x, r);
	if (x->close)
		exchange_header(r, "Connection", "close");
	if (x->cors)
		exchange_cors(x, r);
	if (!x->streaming)
		keys_answered(&x->pass);
	/* It can fail only when the connection is past its headers or dying; libmicrohttpd then closes it. */
	(void)MHD_queue_response(x->connection, status, r);
	MHD_destroy_response(r);
}

void exchange_reply_with(struct exchange *x, unsigned status, struct buf *text, const struct exchange_header *header)
{
	size_t len = text->len;
	char *s = buf_take(text);
	struct MHD_Response *r = MHD_create_response_from_buffer(len, s, MHD_RESPMEM_MUST_FREE);

	must(r);
	x->sent = len;
	for (; header->name; header++)
		exchange_header(r, header->name, header->value);
	exchange_queue(x, status, r);
}

void exchange_reply_text(struct exchange *x, unsigned status, struct buf *text)
{
	static const struct exchange_header json[] = { { "Content-Type", "application/json" }, { NULL, NULL } };

	exchange_reply_with(x, status, text, json);
}

void exchange_reply(struct exchange *x, unsigned status, json_t *body)
{
	struct buf text = { 0 };

	body_print(&text, body);
	buf_addc(&text, '\n');
	exchange_reply_text(x, status, &text);
}

json_t *exchange_error(const struct exchange *x, const struct error *err)
{
	return exchange_messages(x) ? error_json_messages(err, x->id) : error_json(err, x->id);
}

void exchange_fail(struct exchange *x, const struct error *err)
{
	char code[48];

	snprintf(x->failed, sizeof x->failed, "%s", error_code(err, code));
	x->rc = err->rc;
	x->retry_after = err->retry_after;
	exchange_reply(x, (unsigned)rc_http(err->rc), exchange_error(x, err));
}

void exchange_blurt(struct exchange *x)
{
	struct buf body = { 0 }, all = { 0 };
	char code[48];
	int status = rc_http(x->error.rc);

	must(x->error.rc && !x->status);
	body_print(&body, exchange_error(x, &x->error));
	buf_addc(&body, '\n');
	buf_printf(&all,
		   "HTTP/1.1 %d Refused\r\nConnection: close\r\nContent-Type: application/json\r\n"
		   "Content-Length: %zu\r\nx-request-id: %s\r\n",
		   status, body.len, x->id);
	if (x->cors)
		buf_printf(&all, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n", x->cors);
	buf_printf(&all, "\r\n%s", buf_str(&body));
	tls_write(x->connection, x->fd, all.data, all.len);
	shutdown(x->fd, SHUT_WR);
	snprintf(x->failed, sizeof x->failed, "%s", error_code(&x->error, code));
	x->rc = x->error.rc;
	x->status = status;
	x->sent = body.len;
	x->linger = clock_s() + EXCHANGE_LINGER;
	x->blurted = true;
	buf_fini(&body);
	buf_fini(&all);
}

void exchange_preflight(struct exchange *x)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	char all[ROUTER_ALLOW];

	must(r);
	router_allow(NULL, all);
	exchange_header(r, "Access-Control-Allow-Methods", all);
	exchange_header(r, "Access-Control-Allow-Headers", "*, Authorization"); /* "*" does not mean that one */
	exchange_header(r, "Access-Control-Max-Age", "600");
	exchange_queue(x, MHD_HTTP_NO_CONTENT, r);
}

/* ---- waiting ---- */

void exchange_wake(struct exchange *x, unsigned why)
{
	unsigned old;

	must_magic(x, EXCHANGE_MAGIC);
	old = atomic_load(&x->wake);
	while (!atomic_compare_exchange_weak(&x->wake, &old, (old | why) & ~(unsigned)EXCHANGE_PARKED))
		;
	if (old & EXCHANGE_PARKED)
		MHD_resume_connection(x->connection);
}

/* Suspends first and says so second: a waker that comes between finds no EXCHANGE_PARKED and leaves its bits,
 * which the exchange below then sees. So exactly one side resumes. */
static void exchange_park(struct exchange *x)
{
	unsigned none = 0;

	MHD_suspend_connection(x->connection);
	if (!atomic_compare_exchange_strong(&x->wake, &none, EXCHANGE_PARKED))
		MHD_resume_connection(x->connection);
}

static void exchange_step(struct exchange *x)
{
	unsigned why = atomic_exchange(&x->wake, 0);

	if (http_stopping(x->http))
		why |= EXCHANGE_STOPPING;
	x->work.step(x, x->work.arg, why);
	/* Nothing may park once the server stops. */
	must(!(why & EXCHANGE_STOPPING) || x->status || x->finished);
}

bool exchange_gone(const struct exchange *x)
{
	/* Not by a read, which would find what came before the goodbye: another request, or the end of TLS. */
	struct pollfd p = { .fd = x->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void exchange_tick(struct exchange *x, double now, double keep_alive)
{
	/* One that is at work looks for itself before it parks; its other fields are its thread's. */
	if (!(atomic_load(&x->wake) & EXCHANGE_PARKED) ||
	    now - atomic_load(&x->quiet_since) >= (x->streaming ? keep_alive : INFINITY) || exchange_gone(x))
		exchange_wake(x, EXCHANGE_TICK);
}

bool exchange_full(const struct exchange *x)
{
	struct pollfd p = { .fd = x->fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 0;
}

/* Its client takes nothing: no byte left us, and none left the kernel, while there is no room for more. */
bool exchange_unread(struct exchange *x, double now)
{
	double sent = atomic_load(&x->quiet_since);
	int queued = 0;

	if (ioctl(x->fd, TIOCOUTQ, &queued))
		queued = 0;
	if (x->stuck.since <= 0 || !x->streaming || atomic_load(&x->wake) & EXCHANGE_PARKED || !exchange_full(x) ||
	    queued != x->stuck.queued || sent > x->stuck.sent) {
		x->stuck.since = now;
		x->stuck.queued = queued;
		x->stuck.sent = sent;
	}
	return now - x->stuck.since >= http_unread(x->http);
}

/* At once and for good: the kernel is not to keep, and offer, what nobody reads. */
void exchange_cut(struct exchange *x)
{
	const struct linger none = { .l_onoff = 1 };

	atomic_store(&x->cut, true);
	(void)setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	shutdown(x->fd, SHUT_RDWR); /* an edge that libmicrohttpd sees; it closes */
}

/* libmicrohttpd asks for bytes; 0 while parked. */
static ssize_t exchange_read(void *arg, uint64_t pos, char *to, size_t max)
{
	struct exchange *x = arg;
	size_t n;

	(void)pos;
	must_magic(x, EXCHANGE_MAGIC);
	if (x->out_at == x->out.len) {
		buf_clear(&x->out);
		x->out_at = 0;
		if (!x->finished)
			exchange_step(x);
	}
	n = x->out.len - x->out_at;
	if (n == 0 && x->finished)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		exchange_park(x);
		return 0;
	}
	n = n < max ? n : max;
	memcpy(to, x->out.data + x->out_at, n);
	x->out_at += n;
	x->sent += n;
	atomic_store(&x->quiet_since, clock_s());
	return (ssize_t)n;
}

void exchange_stream(struct exchange *x, const struct exchange_work *work)
{
	const int unsent = EXCHANGE_UNSENT;
	struct MHD_Response *r;

	x->work = *work;
	x->streaming = true;
	/* Not on a Unix socket, where what is sent is with the reader at once. */
	(void)setsockopt(x->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
	r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EXCHANGE_BLOCK, exchange_read, x, NULL);
	must(r);
	exchange_header(r, "Content-Type", "text/event-stream");
	exchange_header(r, "Cache-Control", "no-cache");
	exchange_header(r, "X-Accel-Buffering", "no"); /* proxies must not collect events */
	exchange_queue(x, MHD_HTTP_OK, r);
}

void exchange_finish(struct exchange *x)
{
	x->finished = true;
	keys_answered(&x->pass);
}

void exchange_abandon(struct exchange *x)
{
	x->abandoned = true;
	exchange_finish(x);
}

void exchange_defer(struct exchange *x, const struct exchange_work *work)
{
	x->work = *work;
}

enum MHD_Result exchange_advance(struct exchange *x)
{
	if (x->streaming || x->status)
		return MHD_YES;
	exchange_step(x);
	if (x->finished && !x->status)
		return MHD_NO; /* the client is gone */
	if (!x->status)
		exchange_park(x);
	return MHD_YES;
}
