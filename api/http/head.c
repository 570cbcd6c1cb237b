/* SPDX-License-Identifier: MIT
 * head.c - what a request's line and headers alone decide: framing, keys, limits, media type.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/http/head.h"
#include "api/http/cors.h"
#include "api/http/endpoint.h"
#include "api/http/http.h"
#include "api/http/server.h"
#include "engine/base/clock.h"
#include "engine/base/hexid.h"
#include "engine/base/keyhash.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX_BYTES (32 * 1024) /* far below a connection's memory: the refusal is ours, in JSON */
#define HEAD_MAX_FIELDS 100

struct head_sum {
	size_t bytes, count;
	int lengths, codings, hosts;
	bool chunked, bad_name;
};

static enum MHD_Result head_count(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct head_sum *sum = arg;

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

static const char *head_value(const struct exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* Without the blanks at its end, which are no part of a value (RFC 9110, 5.5) and which libmicrohttpd leaves. */
static size_t head_length(const char *v)
{
	size_t n = strlen(v);

	while (n && (v[n - 1] == ' ' || v[n - 1] == '\t'))
		n--;
	return n;
}

static bool head_is(const struct exchange *x, const char *name, const char *want)
{
	const char *v = head_value(x, name);
	size_t n = strlen(want);

	return v && !strncasecmp(v, want, n) && (!v[n] || strchr("; \t", v[n]));
}

/* Where the body ends must not depend on who reads the head: a proxy in front could see another request than
 * we do. NULL when all is well. libmicrohttpd's strict mode knows less than this, and sends the head of its
 * refusals twice. */
static const char *head_bad_framing(const struct head_sum *sum, bool old)
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

/* "Authorization: Bearer KEY" as OpenAI's clients send it; NULL when there is none. */
static const char *head_bearer(const struct exchange *x)
{
	const char *authorization = head_value(x, "Authorization");
	bool bearer = authorization && !strncasecmp(authorization, "Bearer ", 7);

	return bearer ? authorization + 7 + strspn(authorization + 7, " ") : NULL;
}

/* Anthropic's clients send "x-api-key: KEY". */
static int head_keys(const struct exchange *x, struct keys *keys, struct keys_pass *ret_pass, struct error *err)
{
	const char *given[2] = { head_bearer(x), head_value(x, "x-api-key") };
	char *shown[2];
	int rc;

	for (int i = 0; i < 2; i++)
		shown[i] = given[i] ? mem_strndup(given[i], head_length(given[i])) : NULL;
	rc = keys_enter(keys, (const char *const *)shown, 2, clock_s(), ret_pass, err);
	free(shown[0]);
	free(shown[1]);
	return rc;
}

static bool head_is_own(const struct exchange *x, const struct keyhash *own)
{
	const char *shown = own ? head_bearer(x) : NULL;

	return shown && keyhash_is(own, shown, head_length(shown));
}

/* Everything but open routes needs a key, also what is not there: who has none learns nothing. */
static int head_admit(struct exchange *x, const struct head_options *o)
{
	struct keys *keys = o->keys;
	struct error err = { 0 };
	int rc;

	if (head_is_own(x, o->own)) {
		strcpy(x->label, HTTP_OWN_LABEL);
		return 0;
	}
	if (!keys || (x->route && x->route->access == ROUTE_OPEN))
		return 0;
	rc = head_keys(x, keys, &x->pass, &err);
	if (rc) {
		hexid_make(x->id, sizeof x->id, "req-"); /* the route's own prefix would say that it is there */
		error_fini(&x->error);
		x->error = err;
	} else {
		snprintf(x->label, sizeof x->label, "http:%s", keys_name(&x->pass));
	}
	return rc;
}

/* Without keys, only this machine may ask; but a page from anywhere could, by having its own name resolve to the
 * loopback address: to the browser we are then the page's server. Such a name has a dot and is no number. */
static bool head_is_rebound(const struct exchange *x)
{
	const char *host = head_value(x, "Host"), *colon = host ? strrchr(host, ':') : NULL;
	size_t n = !host ? 0 : colon ? (size_t)(colon - host) : head_length(host), local = strlen(".localhost");

	if (n == 0 || *host == '[' || !memchr(host, '.', n) || strspn(host, "0123456789.") >= n)
		return false;
	if (n >= local && !strncasecmp(host + n - local, ".localhost", local))
		return false;
	return !endpoint_is_unix(x->fd);
}

static bool head_too_large(const struct exchange *x, size_t max_body)
{
	const char *length = head_value(x, "Content-Length");

	return length && strtoull(length, NULL, 10) > max_body;
}

static void head_check_body(struct exchange *x, size_t max_body)
{
	bool post = !strcmp(x->method, "POST");


	if (post && head_value(x, "Content-Encoding") && !head_is(x, "Content-Encoding", "identity"))
		error_set(&x->error, RC_MEDIA, NULL, "compressed request bodies are not accepted");
	/* A browser sends any other type across origins without asking first; so this is also a guard against
	 * pages that talk to a server on the loopback address. */
	else if (post && !head_is(x, "Content-Type", "application/json"))
		error_set(&x->error, RC_MEDIA, NULL, "expected Content-Type: application/json");
	else if (head_too_large(x, max_body))
		error_set(&x->error, RC_TOO_LARGE, NULL, "the body is larger than %zu bytes", max_body);
}

void head_check(struct exchange *x, const struct head_options *o, bool old)
{
	struct head_sum sum = { .bytes = strlen(x->path) };
	const char *framing;

	MHD_get_connection_values(x->connection, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, head_count, &sum);
	framing = head_bad_framing(&sum, old);
	x->close = framing != NULL;
	if (framing)
		error_set(&x->error, RC_INVALID, NULL, "%s", framing);
	else if (sum.bytes > HEAD_MAX_BYTES || sum.count > HEAD_MAX_FIELDS)
		error_set(&x->error, RC_HEADERS, NULL,
			  "request headers larger than %d bytes or more than %d of them", HEAD_MAX_BYTES,
			  HEAD_MAX_FIELDS);
	else if (cors_admit(x, o->cors) || head_admit(x, o) || x->error.rc)
		return;
	else if (!o->keys && !o->any_host && head_is_rebound(x))
		error_set(&x->error, RC_DENIED, NULL,
			  "without keys this server answers by address or as localhost only, not as \"%s\": see keys "
			  "and allow_no_keys", head_value(x, "Host"));
	else if (http_stopping(x->http))
		error_set(&x->error, RC_DRAINING, NULL, "the server is shutting down");
	else
		head_check_body(x, o->max_body);
}

bool head_refuses_now(const struct exchange *x, size_t max_body)
{
	const char *expect = head_value(x, "Expect");

	return x->close || (expect && head_is(x, "Expect", "100-continue")) || head_too_large(x, 8 * max_body);
}
