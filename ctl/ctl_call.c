/* SPDX-License-Identifier: MIT
 * ctl_call.c - one call of the daemon, from its socket to the last reply.
 * Threads: one. Locks: none. */
#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/dump_file.h"

#include <string.h>

#define CTL_REPLY_MS 30000
#define CTL_WAIT_S 60

/* Calls that last as long as their work does have no deadline of their own. */
static long ctl_call_deadline(const struct ctl *c)
{
	return c->verb->lasts == VERB_BRIEF ? CTL_REPLY_MS : -1;
}

/* The part of a file that came with a reply, if there is one. */
static int ctl_call_part(struct ctl *c, json_t *params, struct buf *why)
{
	json_t *part = json_object_get(params, "part");
	int r = 0;

	if (c->dump && json_is_string(part)) {
		r = dump_file_add(c->dump, json_string_value(part), json_string_length(part), why);
		json_object_del(params, "part");
	}
	return r;
}

static int ctl_call_replies(struct ctl *c, struct buf *why)
{
	bool bar = false, more;
	int code = CTL_OK, r;

	do {
		struct varlink_reply reply;

		r = client_reply(c->client, ctl_call_deadline(c), &reply, why);
		if (r)
			return ctl_show_failed(r, why);
		more = reply.continues && !reply.error;
		if (more && ctl_call_part(c, reply.params, why)) {
			code = ctl_show_file_failed(why);
			more = false;
		} else if (more) {
			ctl_show_progress(c, reply.params);
			bar = true;
		} else {
			if (bar)
				ctl_show_no_progress(c);
			if (!reply.error && c->dump && dump_file_end(&c->dump, why))
				code = ctl_show_file_failed(why);
			else
				code = reply.error ? ctl_show_error(c, &reply) : ctl_show_reply(c, &reply);
		}
		varlink_reply_fini(&reply);
	} while (more);
	return code;
}

/* `wait` is what scripts call right after they started the daemon: its socket may not be there yet. */
static int ctl_call_open(struct ctl *c, json_t *params, struct buf *why)
{
	json_t *timeout = json_object_get(params, "timeout");
	long long s = timeout ? json_integer_value(timeout) : CTL_WAIT_S;

	if (strcmp(c->verb->id, "wait"))
		return client_open(c->socket, &c->client, why);
	return client_open_patiently(c->socket, s < 0 || s > 86400 ? 0 : (long)s * 1000, &c->client, why);
}

int ctl_call(struct ctl *c, json_t *params)
{
	struct buf why = { 0 };
	bool more = c->verb->lasts == VERB_TELLS;
	int r = ctl_call_open(c, params, &why), code;

	r = r ? r : client_send(c->client, c->verb->method, params, more, &why);
	code = r ? ctl_show_failed(r, &why) : ctl_call_replies(c, &why);
	/* `stop` means stopped when it returns: the daemon closes the socket as its last act. */
	if (!r && code == CTL_OK && !strcmp(c->verb->id, "stop"))
		client_wait_close(c->client, -1);
	client_close(&c->client);
	buf_fini(&why);
	return code;
}
