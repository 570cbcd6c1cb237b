/* SPDX-License-Identifier: MIT
 * serve.c - the HTTP server as the configuration wants it: checked before the model is read, started after.
 * Threads: control. Locks: none. */
#include "api/http/keys.h"
#include "daemon/serve.h"
#include "daemon/tell/tell.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const char *serve_path(const struct conf *c, enum conf_key key)
{
	return *conf_text(c, key) ? conf_text(c, key) : NULL;
}

/* `tcp`: the addresses that are no Unix sockets. */
static struct http_options serve_options(const struct conf *c, const char *tcp)
{
	int keep_alive = (int)conf_int(c, CONF_keep_alive);

	return (struct http_options){
		.listen = tcp,
		.tls_cert = serve_path(c, CONF_tls_cert),
		.tls_key = serve_path(c, CONF_tls_key),
		.cors = serve_path(c, CONF_cors_origins),
		.keys = serve_path(c, CONF_keys),
		.allow_no_keys = conf_yes(c, CONF_allow_no_keys),
		.version = PACKAGE_VERSION,
		.max_connections = (int)conf_int(c, CONF_max_connections),
		.max_connections_per_address = (int)conf_int(c, CONF_max_connections_per_address),
		.max_body = (size_t)conf_int(c, CONF_max_body),
		.idle = (double)conf_int(c, CONF_idle_timeout),
		.unread = (double)conf_int(c, CONF_stall_timeout),
		.repetition_guard = conf_yes(c, CONF_repetition_guard),
		.keep_alive = keep_alive ? keep_alive : -1,
	};
}

/* Parts `listen`: TCP addresses into a text, paths of Unix sockets to be freed. */
static int serve_addresses(const struct conf *c, struct buf *tcp, char *path[DAEMON_MAX_UNIX], int *ret_n,
			   struct buf *why)
{
	struct conf_address a;

	*ret_n = 0;
	for (const char *s = conf_text(c, CONF_listen); conf_next_address(&s, &a);) {
		if (!a.local) {
			buf_add(tcp, a.text, a.n);
			buf_addc(tcp, ' ');
		} else if (*ret_n == DAEMON_MAX_UNIX) {
			return buf_why(why, RC_CONFIG, "listen: more than %d Unix sockets", DAEMON_MAX_UNIX);
		} else {
			path[(*ret_n)++] = mem_strndup(a.text, a.n);
		}
	}
	return 0;
}

int serve_check(const struct conf *c, struct buf *why)
{
	char *path[DAEMON_MAX_UNIX];
	struct buf tcp = { 0 };
	struct http_options o;
	int n, r = serve_addresses(c, &tcp, path, &n, why);

	o = serve_options(c, buf_str(&tcp));
	r = r ? r : http_check(&o, why);
	while (n > 0)
		free(path[--n]);
	buf_fini(&tcp);
	return r;
}

/* The daemon keeps the sockets' files, the server gets descriptors of its own. */
static int serve_unix(struct daemon *d, const char *path, int *ret_fd, struct buf *why)
{
	struct listen *l = &d->http_unix[d->n_http_unix];
	int r = listen_open(l, path, (mode_t)conf_int(&d->conf, CONF_socket_mode), (gid_t)-1, why);

	if (r)
		return r;
	d->n_http_unix++;
	*ret_fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? buf_why(why, -errno, "%s: %s", path, strerror(errno)) : 0;
}

/* The sockets of `listen`: TCP addresses as a text, Unix sockets as descriptors. */
static int serve_sockets(struct daemon *d, struct buf *tcp, int fd[DAEMON_MAX_UNIX], int *ret_n, struct buf *why)
{
	char *path[DAEMON_MAX_UNIX];
	int n, r = serve_addresses(&d->conf, tcp, path, &n, why);

	for (int i = 0; i < n; i++) {
		r = r ? r : serve_unix(d, path[i], &fd[*ret_n], why);
		*ret_n += r == 0;
		free(path[i]);
	}
	return r;
}

int serve_start(struct daemon *d, struct buf *why)
{
	struct manager *m = &d->manager;
	int fd[MANAGER_MAX_SOCKETS], n = m->n_http, r = 0;
	struct buf tcp = { 0 };
	struct http_options o;

	/* Where the service manager listens for us, `listen` says nothing. */
	memcpy(fd, m->http, (size_t)n * sizeof *fd);
	m->n_http = 0;
	if (!n)
		r = serve_sockets(d, &tcp, fd, &n, why);
	o = serve_options(&d->conf, buf_str(&tcp));
	o.fds = fd;
	o.n_fds = n;
	keyhash_new_key(d->probe_key);
	o.own_key = d->probe_key;
	o.ask = tell_ask;
	o.ask_arg = d;
	/* What could be opened is closed by the end that now follows. */
	r = r ? r : http_start(&o, d->engine, &d->http, why);
	buf_fini(&tcp);
	return r;
}

void serve_stop(struct daemon *d)
{
	http_stop(&d->http);
	while (d->n_http_unix > 0)
		listen_close(&d->http_unix[--d->n_http_unix]);
}

int serve_reload(struct daemon *d, struct http_next **ret_next, struct buf *why)
{
	struct http_options o = serve_options(&d->conf, NULL);

	*ret_next = NULL;
	return d->http ? http_next_read(d->http, &o, ret_next, why) : 0;
}

/* An emptied file lets nobody in: rarely what was meant. */
static json_t *serve_keys(const struct keys_change *c)
{
	json_t *o = json_pack("{s:i, s:i, s:i, s:i}", "added", c->added, "removed", c->removed, "changed", c->changed,
		"keys", c->now);

	must(o);
	log_event(LOG_LV_NOTICE, "keys_reloaded", "added=%d removed=%d changed=%d keys=%d", c->added, c->removed,
		c->changed, c->now);
	if (!c->now)
		log_event(LOG_LV_WARN, "keys_empty", "why=%s",
			LOGQ("the key file has no key: nobody may call until it has one and is read again"));
	return o;
}

json_t *serve_reload_end(struct daemon *d, struct http_next **next, bool use)
{
	struct keys_change c;
	json_t *told = NULL;

	if (*next && use && http_next_use(d->http, next, &c))
		told = serve_keys(&c);
	http_next_free(next);
	return told;
}
