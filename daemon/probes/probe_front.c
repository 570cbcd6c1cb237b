/* SPDX-License-Identifier: MIT
 * probe_front.c - this daemon's own HTTP front as a probe sees it: through a socket, past every limit.
 * Threads: control makes one, ops uses it. Locks: none. */
#include "daemon/probes/probe_front.h"
#include "ctl/probe/probe_http.h"
#include "engine/base/rc.h"

int probe_front_new(const struct daemon *d, bool (*cancelled)(void *arg), void *arg, struct probe_http **ret_h,
		    struct buf *why)
{
	struct buf url = { 0 };
	struct probe_http_options o = { .key = d->probe_key, .own = true, .cancelled = cancelled, .arg = arg };
	int r;

	if (d->http)
		http_own_url(d->http, &url);
	o.url = buf_str(&url);
	r = url.len ? probe_http_new(&o, ret_h, why) : buf_why(why, RC_UNSUPPORTED,
							       "this daemon listens nowhere for HTTP");
	buf_fini(&url);
	return r;
}
