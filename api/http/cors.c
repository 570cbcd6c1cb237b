/* SPDX-License-Identifier: MIT
 * cors.c - pages of which other origins may read answers: none but those that are listed.
 * Threads: any. Locks: none. */
#include "api/http/cors.h"
#include "engine/base/rc.h"

#include <string.h>

/* The n bytes are an origin as browsers write it. */
static bool cors_is_origin(const char *s, size_t n)
{
	static const char host[] = "abcdefghijklmnopqrstuvwxyz0123456789-.:[]_";
	const char *p = memchr(s, ':', n);
	size_t scheme = p ? (size_t)(p - s) : 0, from = scheme + 3;

	if (n == 1 && *s == '*')
		return true;
	if (scheme == 0 || from >= n || strncmp(p, "://", 3))
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyz+-.0123456789") >= scheme && strspn(s + from, host) >= n - from;
}

int cors_check(const char *origins, struct buf *why)
{
	for (const char *s = origins; *(s += strspn(s, " \t"));) {
		size_t n = strcspn(s, " \t");

		if (!cors_is_origin(s, n))
			return buf_why(why, RC_CONFIG, "cors_origins: '%.*s' is no origin: SCHEME://HOST[:PORT] in "
				       "small letters without a path, or *", (int)(n < 96 ? n : 96), s);
		s += n;
	}
	return 0;
}

/* What Access-Control-Allow-Origin says to the origin, or NULL. */
static const char *cors_find(const char *origins, const char *origin)
{
	for (const char *s = origins; *(s += strspn(s, " \t"));) {
		size_t n = strcspn(s, " \t");

		if (n == 1 && *s == '*')
			return "*";
		if (strlen(origin) == n && !memcmp(s, origin, n))
			return origin;
		s += n;
	}
	return NULL;
}

bool cors_admit(struct exchange *x, const char *origins)
{
	const char *origin = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Origin");

	x->cors = origins && origin ? cors_find(origins, origin) : NULL;
	if (!x->cors || strcmp(x->method, "OPTIONS") ||
	    !MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Access-Control-Request-Method"))
		return false;
	exchange_preflight(x);
	return true;
}
