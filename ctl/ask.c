/* SPDX-License-Identifier: MIT
 * ask.c - one short question to the daemon, for commands that put several together.
 * Threads: one. Locks: none. */
#include "ctl/ask.h"
#include "ctl/client.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

#define ASK_MS 10000

const struct verb *ask_verb(const char *id)
{
	int i = 0;

	while (i < verb_count && strcmp(verb_table[i].id, id) != 0)
		i++;
	must(i < verb_count);
	return &verb_table[i];
}

static json_t *ask_take(struct varlink_reply *r, struct buf *why)
{
	const char *message = json_string_value(json_object_get(r->params, "message"));
	json_t *params = NULL;

	if (r->error)
		buf_why(why, RC_INVALID, "%s%s%s", r->error, message ? ": " : "", message ? message : "");
	else
		params = r->params ? json_incref(r->params) : json_object();
	return params;
}

json_t *ask(struct ctl *c, const char *id, json_t *params, struct buf *why)
{
	struct varlink_reply r = { 0 };
	json_t *got = NULL;
	int rc = c->client ? 0 : client_open(c->socket, &c->client, why);

	rc = rc ? rc : client_send(c->client, ask_verb(id)->method, params, false, why);
	rc = rc ? rc : client_reply(c->client, ASK_MS, &r, why);
	if (rc) {
		c->silent |= rc == RC_TIMEOUT;
		client_close(&c->client);
		if (!why->len)
			buf_why(why, rc, "%s", rc_text(rc));
		return NULL;
	}
	got = ask_take(&r, why);
	varlink_reply_fini(&r);
	return got;
}
