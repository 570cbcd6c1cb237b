/* SPDX-License-Identifier: MIT
 * router.h - finds the route of a request in routes.def.
 * Threads: any. Locks: none. */
#ifndef API_ROUTER_H
#define API_ROUTER_H

struct exchange;

/* Replies, streams or defers (exchange.h). The body is read completely. */
typedef void route_f(struct exchange *x);

enum route_access { ROUTE_OPEN, ROUTE_KEY };

struct route {
	const char *method, *path;
	enum route_access access;
	const char *id_prefix;
	route_f *handler;
	const char *text;
};

extern const struct route router_table[];
extern const int router_count;

/* NULL when none matches. *ret_rest is the path from what stands for a "*" on, pointing into it. */
const struct route *router_find(const char *method, const char *path, const char **ret_rest);
/* "GET, HEAD, DELETE": what the path takes, "" when it is no route's; path NULL: what any path takes. */
#define ROUTER_ALLOW 64
void router_allow(const char *path, char ret_list[ROUTER_ALLOW]);

/* The handlers. */
#define ROUTE(method, path, access, prefix, handler, text) route_f handler;
#include "api/http/routes.def"
#undef ROUTE

#endif
