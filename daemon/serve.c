/* SPDX-License-Identifier: MIT
 * serve.c - the HTTP server as the configuration wants it: checked before the model is read, started after.
 * Threads: control. Locks: none. */
#include "daemon/serve.h"
#include "daemon/tell.h"
#include "engine/base/rc.h"

static const char *serve_path(const struct conf *c, enum conf_key key)
{
	return *conf_text(c, key) ? conf_text(c, key) : NULL;
}

static struct http_options serve_options(const struct conf *c)
{
	return (struct http_options){
		.listen = conf_text(c, CONF_listen),
		.keys = serve_path(c, CONF_keys),
		.allow_no_keys = conf_yes(c, CONF_allow_no_keys),
		.version = PACKAGE_VERSION,
	};
}

int serve_check(const struct conf *c, struct buf *why)
{
	struct http_options o = serve_options(c);

	return http_check(&o, why);
}

int serve_start(struct daemon *d, struct buf *why)
{
	struct http_options o = serve_options(&d->conf);

	o.ask = tell_ask;
	o.ask_arg = d;
	return http_start(&o, d->engine, &d->http, why);
}

int serve_reload(struct daemon *d, struct http_next **ret_next, struct buf *why)
{
	struct http_options o = serve_options(&d->conf);

	*ret_next = NULL;
	return d->http ? http_next_read(d->http, &o, ret_next, why) : 0;
}

void serve_reload_end(struct daemon *d, struct http_next **next, bool use)
{
	if (*next && use)
		http_next_use(d->http, next);
	http_next_free(next);
}
