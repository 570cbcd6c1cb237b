/* SPDX-License-Identifier: MIT
 * traffic.c - counts of HTTP calls by route and status.
 * Threads: any. Locks: none (atomics). */
#include "api/http/traffic.h"
#include "api/http/metrics.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAFFIC_MAX_STATUS 600

enum { TRAFFIC_NONE = 0 /* routes, and the place of calls that matched none */
#define ROUTE(method, path, access, prefix, handler, text) +1
#include "api/http/routes.def"
#undef ROUTE
};

static const struct {
	const char *name;
	int rc;
} traffic_errors[] = {
#define RC(name, code, http, type, varlink, text) { #name, name },
#include "engine/base/rc.def"
#undef RC
};
#define TRAFFIC_ERRORS (mem_countof(traffic_errors) + 1) /* -errno comes last */

struct traffic_route {
	atomic_ullong status[TRAFFIC_MAX_STATUS];
	atomic_ullong gone, sent;
};

struct traffic {
	atomic_int open;
	atomic_ullong error[TRAFFIC_ERRORS];
	struct traffic_route route[TRAFFIC_NONE + 1];
};

struct traffic *traffic_new(void)
{
	return mem_new(sizeof(struct traffic));
}

void traffic_free(struct traffic **t)
{
	free(*t);
	*t = NULL;
}

void traffic_began(struct traffic *t)
{
	atomic_fetch_add(&t->open, 1);
}

static size_t traffic_error(int rc)
{
	size_t e = 0;

	while (e < mem_countof(traffic_errors) && traffic_errors[e].rc != rc)
		e++;
	return e;
}

/* "too_large"; "system" for the last. */
static void traffic_error_name(size_t e, char ret_name[32])
{
	snprintf(ret_name, 32, "%s", e < mem_countof(traffic_errors) ? traffic_errors[e].name + strlen("RC_") :
		 "system");
	for (char *p = ret_name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

void traffic_ended(struct traffic *t, const struct traffic_call *c)
{
	struct traffic_route *r = &t->route[c->route ? c->route - router_table : TRAFFIC_NONE];

	atomic_fetch_sub(&t->open, 1);
	atomic_fetch_add(&r->status[c->status > 0 && c->status < TRAFFIC_MAX_STATUS ? c->status : 0], 1);
	atomic_fetch_add(&r->gone, c->gone);
	if (c->rc)
		atomic_fetch_add(&t->error[traffic_error(c->rc)], 1);
	atomic_fetch_add(&r->sent, c->sent);
}

static const char *traffic_method(int i)
{
	return i == TRAFFIC_NONE ? "any" : router_table[i].method;
}

static const char *traffic_path(int i)
{
	return i == TRAFFIC_NONE ? "none" : router_table[i].path;
}

static void traffic_statuses(struct traffic *t, int i, struct metrics *m)
{
	for (int s = 0; s < TRAFFIC_MAX_STATUS; s++) {
		unsigned long long n = atomic_load(&t->route[i].status[s]);
		char code[12];

		snprintf(code, sizeof code, "%d", s);
		if (n)
			metrics_put(m, METRIC_http_requests_total, (double)n,
				    METRICS_LABELS(traffic_method(i), traffic_path(i), code));
	}
}

void traffic_metrics(struct traffic *t, struct metrics *m)
{
	for (int i = 0; i <= TRAFFIC_NONE; i++)
		traffic_statuses(t, i, m);
	for (size_t e = 0; e < TRAFFIC_ERRORS; e++) {
		char name[32];

		traffic_error_name(e, name);
		metrics_put(m, METRIC_http_errors_total, (double)atomic_load(&t->error[e]), METRICS_LABELS(name));
	}
	for (int i = 0; i <= TRAFFIC_NONE; i++)
		metrics_put(m, METRIC_http_disconnects_total, (double)atomic_load(&t->route[i].gone),
			    METRICS_LABELS(traffic_method(i), traffic_path(i)));
	for (int i = 0; i <= TRAFFIC_NONE; i++)
		metrics_put(m, METRIC_http_sent_bytes_total, (double)atomic_load(&t->route[i].sent),
			    METRICS_LABELS(traffic_method(i), traffic_path(i)));
	metrics_put(m, METRIC_http_open_requests, atomic_load(&t->open), NULL);
}
