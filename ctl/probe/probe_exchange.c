/* SPDX-License-Identifier: MIT
 * probe_exchange.c - what came back of one raw HTTP exchange.
 * Threads: one at a time per exchange. Locks: none. */
#include "ctl/probe/probe_exchange.h"

const char *probe_reply_header(const struct probe_reply *r, const char *name)
{
	const char *value = json_string_value(json_object_get(r->headers, name));

	return value ? value : "";
}

void probe_reply_fini(struct probe_reply *r)
{
	json_decref(r->headers);
	buf_fini(&r->body);
	*r = (struct probe_reply){ 0 };
}
