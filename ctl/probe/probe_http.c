/* SPDX-License-Identifier: MIT
 * probe_http.c - a chat server by its URL: HTTP by libcurl, with what a probe must not do left out.
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_http.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_MAX_BODY (64u << 20)  /* bytes of one answer */
#define HTTP_MAX_KEY 4096
#define HTTP_CONNECT_S 15L
#define HTTP_PATIENCE_S 600
/* A whole exchange may take so many times the patience, and once more for so many tokens that may be answered: a server
 * that drips a byte now and then, or comments for ever, is never silent. */
#define HTTP_WHOLE 4
#define HTTP_WHOLE_TOKENS 1000
#define HTTP_UNIX "unix:"

struct probe_http {
	CURL *curl;
	char *base, *key, *socket; /* key, socket: NULL when none */
	bool own, local;
	int patience;
	bool (*cancelled)(void *arg);
	void *arg;
};

/* One exchange under way. */
struct http_now {
	const struct probe_http *h;
	const struct probe_request *q;
	struct probe_reply *reply;
	double began, heard; /* clock_s(): its start, the last byte of the answer */
	int patience, rc;    /* rc: why a callback ended it; 0: none did */
	bool too_long;       /* and it was the whole that took too long */
};

/* ---- the address ---- */

static bool probe_http_host_is_local(const char *host)
{
	return !strcasecmp(host, "localhost") || !strcmp(host, "[::1]") ||
	       (!strncmp(host, "127.", 4) && !host[strspn(host, "0123456789.")]);
}

static char *probe_http_part(CURLU *u, CURLUPart part)
{
	char *s = NULL;

	return curl_url_get(u, part, &s, 0) == CURLUE_OK ? s : NULL;
}

/* What must not stand in the base, and what its path ends in. */
static int probe_http_judge(CURLU *u, struct probe_http *h, struct buf *why)
{
	static const CURLUPart none[] = { CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT };
	char *scheme = probe_http_part(u, CURLUPART_SCHEME), *host = probe_http_part(u, CURLUPART_HOST);
	char *path = probe_http_part(u, CURLUPART_PATH), *bad = NULL, *base;
	int r = 0;

	for (size_t i = 0; i < mem_countof(none) && !bad; i++)
		bad = probe_http_part(u, none[i]);
	if (!scheme || (strcmp(scheme, "http") && strcmp(scheme, "https")) || !host || bad)
		r = buf_why(why, RC_INVALID,
			    "the URL must be http or https with a host, without user, query and fragment");
	else if (!path || !*path || !strcmp(path, "/"))
		must(curl_url_set(u, CURLUPART_PATH, "/v1", 0) == CURLUE_OK);
	base = r ? NULL : probe_http_part(u, CURLUPART_URL);
	if (base) {
		h->base = mem_strdup(base);
		for (size_t n = strlen(h->base); n && h->base[n - 1] == '/'; n--)
			h->base[n - 1] = '\0';
		h->local = probe_http_host_is_local(host);
	}
	curl_free(base);
	curl_free(bad);
	curl_free(path);
	curl_free(host);
	curl_free(scheme);
	return r;
}

static int probe_http_address(struct probe_http *h, const char *url, struct buf *why)
{
	size_t n = strlen(HTTP_UNIX);
	CURLU *u;
	int r;

	if (!strncmp(url, HTTP_UNIX, n)) {
		h->socket = mem_strdup(url + n);
		h->base = mem_strdup("http://localhost/v1");
		h->local = true;
		return *h->socket == '/' ? 0 : buf_why(why, RC_INVALID, "unix: needs a path that begins with /");
	}
	u = curl_url();
	must(u);
	if (curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
		r = probe_http_judge(u, h, why);
	else
		r = buf_why(why, RC_INVALID, "no URL: it begins with http://, https:// or unix:/");
	curl_url_cleanup(u);
	return r;
}

/* What would end the header, or lie in two of them, is no key. */
static int probe_http_set_key(struct probe_http *h, const char *key, struct buf *why)
{
	size_t n = key ? strlen(key) : 0;

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)key[i]))
			return buf_why(why, RC_INVALID, "the key has blanks or bytes that no header takes");
	if (n > HTTP_MAX_KEY)
		return buf_why(why, RC_INVALID, "the key is longer than %d bytes", HTTP_MAX_KEY);
	h->key = n ? mem_strdup(key) : NULL;
	return 0;
}

static void probe_http_init(void)
{
	must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

int probe_http_new(const struct probe_http_options *o, struct probe_http **ret_h, struct buf *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct probe_http *h = mem_new(sizeof *h);
	int r;

	must_zero(pthread_once(&once, probe_http_init));
	h->curl = curl_easy_init();
	must(h->curl);
	h->own = o->own;
	h->patience = o->patience > 0 ? o->patience : HTTP_PATIENCE_S;
	h->cancelled = o->cancelled;
	h->arg = o->arg;
	r = probe_http_address(h, o->url, why);
	r = r ? r : probe_http_set_key(h, o->key, why);
	if (r)
		probe_http_free(&h);
	else
		*ret_h = h;
	return r;
}

void probe_http_free(struct probe_http **ph)
{
	struct probe_http *h = *ph;

	*ph = NULL;
	if (!h)
		return;
	curl_easy_cleanup(h->curl);
	if (h->key)
		explicit_bzero(h->key, strlen(h->key));
	free(h->key);
	free(h->base);
	free(h->socket);
	free(h);
}

bool probe_http_is_local(const struct probe_http *h)
{
	return h->local;
}

void probe_http_hide(const struct probe_http *h, struct buf *text)
{
	size_t n = h->key ? strlen(h->key) : 0;

	for (char *at = n && text->len ? strstr(text->data, h->key) : NULL; at; at = strstr(at, h->key))
		memset(at, '*', n);
}

/* ---- what libcurl tells ---- */

static int http_end(struct http_now *x, int rc)
{
	x->rc = x->rc ? x->rc : rc;
	return 0; /* taken nothing: libcurl ends the transfer */
}

static size_t http_header(char *line, size_t one, size_t n, void *arg)
{
	struct http_now *x = arg;
	char *colon = memchr(line, ':', n), *name;
	json_t *value;
	size_t end = n, at;

	(void)one;
	x->heard = clock_s();
	if (n > 5 && !strncmp(line, "HTTP/", 5)) { /* of a 100 Continue nothing stays */
		json_object_clear(x->reply->headers);
		return n;
	}
	if (!colon)
		return n;
	name = mem_strndup(line, (size_t)(colon - line));
	for (char *s = name; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	for (at = (size_t)(colon - line) + 1; at < n && strchr(" \t", line[at]); at++)
		;
	while (end > at && strchr(" \t\r\n", line[end - 1]))
		end--;
	value = json_stringn(line + at, end - at); /* NULL, and left out, when it is no UTF-8 */
	if (value)
		json_object_set_new(x->reply->headers, name, value);
	free(name);
	return n;
}

static size_t http_body(char *bytes, size_t one, size_t n, void *arg)
{
	struct http_now *x = arg;
	struct probe_reply *r = x->reply;
	long status = 0;

	(void)one;
	x->heard = clock_s();
	if (r->body.len == 0)
		r->first = x->heard - x->began;
	if (r->body.len + n > HTTP_MAX_BODY)
		return (size_t)http_end(x, RC_TOO_LARGE);
	buf_add(&r->body, bytes, n);
	curl_easy_getinfo(x->h->curl, CURLINFO_RESPONSE_CODE, &status);
	if (x->q->piece && status >= 200 && status < 300 && x->q->piece(x->q->arg, bytes, n, x->heard - x->began)) {
		r->dropped = true;
		return (size_t)http_end(x, RC_CANCELLED);
	}
	return n;
}

/* Seconds that the whole may take. */
static double http_whole(const struct http_now *x)
{
	return (double)x->patience * (HTTP_WHOLE + (double)x->q->tokens / HTTP_WHOLE_TOKENS);
}

static int http_progress(void *arg, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal, curl_off_t ulnow)
{
	struct http_now *x = arg;

	(void)dltotal;
	(void)dlnow;
	(void)ultotal;
	(void)ulnow;
	if (x->h->cancelled && x->h->cancelled(x->h->arg))
		http_end(x, RC_CANCELLED);
	else if (clock_s() - x->heard > x->patience)
		http_end(x, RC_TIMEOUT);
	else if (clock_s() - x->began > http_whole(x)) {
		x->too_long = true;
		http_end(x, RC_TIMEOUT);
	}
	return x->rc != 0;
}

/* ---- one exchange ---- */

static void http_add(struct curl_slist **list, const char *name, const char *value)
{
	struct buf line = { 0 };

	/* libcurl: "Name:" leaves a header of its own out. */
	buf_printf(&line, *value ? "%s: %s" : "%s:", name, value);
	*list = curl_slist_append(*list, buf_str(&line));
	must(*list);
	explicit_bzero(line.data, line.len);
	buf_fini(&line);
}

static struct curl_slist *http_headers(const struct probe_http *h, const struct probe_request *q)
{
	bool keyed = h->key != NULL;
	struct curl_slist *list = NULL;
	struct buf bearer = { 0 };
	const char *name;
	json_t *value;

	json_object_foreach(q->headers, name, value) {
		keyed &= strcasecmp(name, "Authorization") != 0;
		http_add(&list, name, json_string_value(value));
	}
	if (keyed) {
		buf_printf(&bearer, "Bearer %s", h->key);
		http_add(&list, "Authorization", buf_str(&bearer));
		explicit_bzero(bearer.data, bearer.len);
		buf_fini(&bearer);
	}
	http_add(&list, "Expect", "");
	return list;
}

static void http_setup(struct http_now *x, const char *url, struct curl_slist *headers)
{
	const struct probe_http *h = x->h;
	const struct probe_request *q = x->q;
	CURL *c = h->curl;

	curl_easy_reset(c); /* connections stay open */
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "dsv4-probe/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
	if (q->body) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->len);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->body);
	}
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, HTTP_CONNECT_S);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, http_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, http_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, http_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	if (h->socket)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->socket);
	if (h->local)
		curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	if (h->own) {
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
		curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	}
}

/* What libcurl's result means here. */
static int http_result(const struct http_now *x, CURLcode code, struct buf *why)
{
	const struct probe_reply *r = x->reply;

	if (code == CURLE_OK || r->dropped)
		return 0;
	switch (x->rc) {
	case RC_TOO_LARGE: return buf_why(why, x->rc, "the answer is larger than %u bytes", HTTP_MAX_BODY);
	case RC_TIMEOUT:
		if (x->too_long)
			return buf_why(why, x->rc, "no whole answer within %.0f seconds (%zu bytes of it came)",
				       http_whole(x), r->body.len);
		return buf_why(why, x->rc, "nothing came for %d seconds", x->patience);
	case RC_CANCELLED: return buf_why(why, x->rc, "the run was cancelled");
	default: break;
	}
	if (code == CURLE_OPERATION_TIMEDOUT)
		return buf_why(why, RC_TIMEOUT, "no connection within %ld seconds", HTTP_CONNECT_S);
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_SSL_CONNECT_ERROR ||
	    code == CURLE_PEER_FAILED_VERIFICATION)
		return buf_why(why, -ECONNREFUSED, "no connection: %s", curl_easy_strerror(code));
	return buf_why(why, -ECONNRESET, "the connection broke after %zu bytes of the answer: %s", r->body.len,
		       curl_easy_strerror(code));
}

int probe_http_exchange(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why)
{
	struct probe_http *h = arg;
	struct probe_reply reply = { .headers = json_object() };
	struct http_now x =
		{ .h = h, .q = q, .reply = &reply, .patience = q->patience > 0 ? q->patience : h->patience };
	struct curl_slist *headers = http_headers(h, q);
	struct buf url = { 0 };
	long status = 0;
	int r;

	buf_printf(&url, "%s%s", h->base, q->path);
	http_setup(&x, buf_str(&url), headers);
	x.began = x.heard = clock_s();
	r = http_result(&x, curl_easy_perform(h->curl), why);
	reply.total = clock_s() - x.began;
	curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
	reply.status = (int)status;
	curl_slist_free_all(headers);
	buf_fini(&url);
	if (r)
		probe_reply_fini(&reply);
	else
		*ret_r = reply;
	return r;
}
