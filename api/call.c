/* SPDX-License-Identifier: MIT
 * call.c - one HTTP exchange, from its headers to its last byte: body, reply, stream, waiting.
 * Threads: the connection's libmicrohttpd thread; call_wake() from any. Locks: none (call->wake is atomic). */
#include "api/call.h"
#include "api/server.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#define CALL_MAGIC 0xca11f00d
#define CALL_BLOCK 16384       /* bytes asked of a stream at a time */
#define CALL_SWALLOW 8         /* times the body limit that is read and thrown away before the connection is cut */

double call_now(void)
{
	struct timespec t;

	must_zero(clock_gettime(CLOCK_MONOTONIC, &t));
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void call_make_id(struct call *c, const char *prefix)
{
	unsigned char r[12];
	int n = snprintf(c->id, sizeof c->id, "%.16s-", prefix);

	must(getrandom(r, sizeof r, 0) == (ssize_t)sizeof r);
	for (size_t i = 0; i < sizeof r; i++)
		n += snprintf(c->id + n, sizeof c->id - (size_t)n, "%02x", r[i]);
}

struct call *call_new(struct http *h, struct engine *e, struct MHD_Connection *conn, const char *method, const char *url)
{
	struct call *c = mem_new(sizeof *c);

	c->magic = CALL_MAGIC;
	list_init(&c->node);
	c->http = h;
	c->engine = e;
	c->connection = conn;
	c->method = method;
	c->path = mem_strdup(url);
	c->started = call_now();
	c->route = router_find(method, c->path, &c->rest, &c->allow);
	call_make_id(c, c->route ? c->route->id_prefix : "req");
	if (!c->route && c->allow)
		error_set(&c->error, RC_METHOD, NULL, "%s does not take %s, only %s", c->path, method, c->allow);
	else if (!c->route)
		error_set(&c->error, RC_NOT_FOUND, NULL, "no route %s", c->path);
	return c;
}

void call_free(struct call **pc)
{
	struct call *c = *pc;

	*pc = NULL;
	if (!c)
		return;
	must_magic(c, CALL_MAGIC);
	if (c->work.end)
		c->work.end(c->work.arg);
	c->magic = 0;
	error_fini(&c->error);
	buf_fini(&c->out);
	free(c->body);
	free(c->path);
	free(c);
}

/* ---- body ---- */

static int call_grow_body(struct call *c, size_t need, size_t max, size_t max_total, atomic_size_t *total)
{
	size_t cap = c->body_cap ? c->body_cap : 4096, more;
	char *p;

	while (cap < need)
		cap *= 2;
	if (cap > max)
		cap = max;
	more = cap - c->body_cap;
	if (atomic_fetch_add(total, more) + more > max_total) {
		atomic_fetch_sub(total, more);
		return error_set(&c->error, RC_BUSY, NULL, "too many bytes of request bodies in flight, try again");
	}
	p = realloc(c->body, cap);
	if (!p) {
		atomic_fetch_sub(total, more);
		return error_set(&c->error, RC_BUSY, NULL, "out of memory for the request body");
	}
	c->body = p;
	c->body_cap = cap;
	return 0;
}

bool call_take_body(struct call *c, const char *data, size_t len, size_t max, size_t max_total, atomic_size_t *total)
{
	c->body_seen += len;
	if (c->error.rc)
		return c->body_seen <= max * CALL_SWALLOW;
	if (c->body_seen > max) {
		error_set(&c->error, RC_TOO_LARGE, NULL, "the body is larger than %zu bytes", max);
		call_drop_body(c, total);
		return true;
	}
	if (c->body_len + len > c->body_cap && call_grow_body(c, c->body_len + len, max, max_total, total)) {
		call_drop_body(c, total);
		return true;
	}
	memcpy(c->body + c->body_len, data, len);
	c->body_len += len;
	return true;
}

void call_drop_body(struct call *c, atomic_size_t *total)
{
	atomic_fetch_sub(total, c->body_cap);
	free(c->body);
	c->body = NULL;
	c->body_len = c->body_cap = 0;
}

/* ---- replies ---- */

static void call_header(struct MHD_Response *r, const char *name, const char *value)
{
	must(MHD_add_response_header(r, name, value) == MHD_YES);
}

static void call_queue(struct call *c, unsigned status, struct MHD_Response *r)
{
	must(r && !c->status);
	c->status = (int)status;
	call_header(r, "x-request-id", c->id);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED && c->allow)
		call_header(r, "Allow", c->allow);
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
		call_header(r, "Retry-After", "1");
	/* It can fail only when the connection is past its headers or dying; libmicrohttpd then closes it. */
	(void)MHD_queue_response(c->connection, status, r);
	MHD_destroy_response(r);
}

void call_reply_text(struct call *c, unsigned status, struct buf *text)
{
	size_t len = text->len;
	char *s = buf_take(text);
	struct MHD_Response *r = MHD_create_response_from_buffer(len, s, MHD_RESPMEM_MUST_FREE);

	must(r);
	c->sent = len;
	call_header(r, "Content-Type", "application/json");
	call_queue(c, status, r);
}

static int call_dump(const char *data, size_t len, void *arg)
{
	buf_add(arg, data, len);
	return 0;
}

void call_reply(struct call *c, unsigned status, json_t *body)
{
	struct buf text = { 0 };

	must(body);
	must_zero(json_dump_callback(body, call_dump, &text, JSON_COMPACT));
	json_decref(body);
	buf_addc(&text, '\n');
	call_reply_text(c, status, &text);
}

void call_fail(struct call *c, const struct error *err)
{
	char code[48];

	snprintf(c->failed, sizeof c->failed, "%s", error_code(err, code));
	call_reply(c, (unsigned)rc_http(err->rc), error_json(err, c->id));
}

/* ---- waiting ---- */

void call_wake(struct call *c, unsigned why)
{
	unsigned old;

	must_magic(c, CALL_MAGIC);
	old = atomic_load(&c->wake);
	while (!atomic_compare_exchange_weak(&c->wake, &old, (old | why) & ~(unsigned)CALL_PARKED))
		;
	if (old & CALL_PARKED)
		MHD_resume_connection(c->connection);
}

/* Suspends first and says so second: a waker that comes between finds no CALL_PARKED and leaves its bits, which the
 * exchange below then sees. So exactly one side resumes. */
static void call_park(struct call *c)
{
	unsigned none = 0;

	MHD_suspend_connection(c->connection);
	if (!atomic_compare_exchange_strong(&c->wake, &none, CALL_PARKED))
		MHD_resume_connection(c->connection);
}

static void call_step(struct call *c)
{
	unsigned why = atomic_exchange(&c->wake, 0);

	if (http_stopping(c->http))
		why |= CALL_STOPPING;
	c->work.step(c, c->work.arg, why);
	/* Nothing may park once the server stops. */
	must(!(why & CALL_STOPPING) || c->status || c->finished);
}

bool call_gone(const struct call *c)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	ssize_t n;
	char byte;

	if (!i)
		return true;
	n = recv(i->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* libmicrohttpd asks for bytes; 0 while parked. */
static ssize_t call_read(void *arg, uint64_t pos, char *to, size_t max)
{
	struct call *c = arg;
	size_t n;

	(void)pos;
	must_magic(c, CALL_MAGIC);
	if (c->out_at == c->out.len) {
		buf_clear(&c->out);
		c->out_at = 0;
		if (!c->finished)
			call_step(c);
	}
	n = c->out.len - c->out_at;
	if (n == 0 && c->finished)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		call_park(c);
		return 0;
	}
	n = n < max ? n : max;
	memcpy(to, c->out.data + c->out_at, n);
	c->out_at += n;
	c->sent += n;
	return (ssize_t)n;
}

void call_stream(struct call *c, const struct call_work *work)
{
	struct MHD_Response *r;

	c->work = *work;
	c->streaming = true;
	r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CALL_BLOCK, call_read, c, NULL);
	must(r);
	call_header(r, "Content-Type", "text/event-stream");
	call_header(r, "Cache-Control", "no-cache");
	call_header(r, "X-Accel-Buffering", "no"); /* proxies must not collect events */
	call_queue(c, MHD_HTTP_OK, r);
}

void call_finish(struct call *c)
{
	c->finished = true;
}

void call_defer(struct call *c, const struct call_work *work)
{
	c->work = *work;
}

enum MHD_Result call_advance(struct call *c)
{
	if (c->streaming || c->status)
		return MHD_YES;
	call_step(c);
	if (c->finished && !c->status)
		return MHD_NO; /* the client is gone */
	if (!c->status)
		call_park(c);
	return MHD_YES;
}
