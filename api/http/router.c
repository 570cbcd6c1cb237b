/* SPDX-License-Identifier: MIT
 * router.c - finds the route of a request in routes.def.
 * Threads: any. Locks: none. */
#include "api/http/router.h"
#include "engine/base/mem.h"

#include <stddef.h>
#include <string.h>

const struct route router_table[] = {
#define ROUTE(method, path, access, prefix, handler, text)                                                   \
	{ method, path, ROUTE_##access, prefix, handler, text },
#include "api/http/routes.def"
#undef ROUTE
};
const int router_count = (int)mem_countof(router_table);

/* The rest of path after the pattern ("" without a final "*"), or NULL. */
static const char *router_match(const char *pattern, const char *path)
{
	size_t n = strlen(pattern);

	if (pattern[n - 1] != '*')
		return strcmp(pattern, path) ? NULL : "";
	return strncmp(pattern, path, n - 1) || !path[n - 1] ? NULL : path + n - 1;
}

const struct route *router_find(const char *method, const char *path, const char **ret_rest,
				const char **ret_allow)
{
	*ret_allow = NULL;
	*ret_rest = "";
	if (!strcmp(method, "HEAD"))
		method = "GET";
	for (int i = 0; i < router_count; i++) {
		const char *rest = router_match(router_table[i].path, path);

		if (!rest)
			continue;
		*ret_allow = router_table[i].method;
		*ret_rest = rest;
		if (!strcmp(method, router_table[i].method))
			return &router_table[i];
	}
	return NULL;
}
