/* SPDX-License-Identifier: MIT
 * router.c - finds the route of a request in routes.def.
 * Threads: any. Locks: none. */
#include "api/http/router.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stddef.h>
#include <string.h>

#define ROUTER_REST "**"

const struct route router_table[] = {
#define ROUTE(method, path, access, prefix, handler, text)                                                   \
	{ method, path, ROUTE_##access, prefix, handler, text },
#include "api/http/routes.def"
#undef ROUTE
};
const int router_count = (int)mem_countof(router_table);

/* The path from the pattern's name on ("" without one), or NULL. */
static const char *router_match(const char *pattern, const char *path)
{
	size_t n = strcspn(pattern, "*"), name;
	const char *after = pattern + n, *from = path + n;

	if (!*after)
		return strcmp(pattern, path) ? NULL : "";
	if (strncmp(pattern, path, n) || !*from)
		return NULL;
	if (!strcmp(after, ROUTER_REST))
		return from;
	name = strcspn(from, "/");
	return name && !strcmp(from + name, after + 1) ? from : NULL;
}

/* Adds the method to the list, once. */
static void router_add(char *list, const char *method)
{
	const char *at = strstr(list, method);

	if (at && (at == list || at[-1] == ' '))
		return;
	must(strlen(list) + strlen(method) + sizeof ", " <= ROUTER_ALLOW);
	strcat(strcat(list, *list ? ", " : ""), method);
}

void router_allow(const char *path, char ret_list[ROUTER_ALLOW])
{
	ret_list[0] = '\0';
	for (int i = 0; i < router_count; i++) {
		if (path && !router_match(router_table[i].path, path))
			continue;
		router_add(ret_list, router_table[i].method);
		if (!strcmp(router_table[i].method, "GET"))
			router_add(ret_list, "HEAD");
	}
}

const struct route *router_find(const char *method, const char *path, const char **ret_rest)
{
	*ret_rest = "";
	if (!strcmp(method, "HEAD"))
		method = "GET";
	for (int i = 0; i < router_count; i++) {
		const char *rest = router_match(router_table[i].path, path);

		if (!rest)
			continue;
		*ret_rest = rest;
		if (!strcmp(method, router_table[i].method))
			return &router_table[i];
	}
	return NULL;
}
