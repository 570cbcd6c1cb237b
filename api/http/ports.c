/* SPDX-License-Identifier: MIT
 * ports.c - all listening sockets of the HTTP server, opened together or not at all.
 * Threads: control. Locks: none. */
#include "api/http/ports.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The next of words separated by blanks, or false at the end. */
static bool ports_word(const char **s, char out[ENDPOINT_MAX])
{
	size_t n;

	*s += strspn(*s, " \t");
	n = strcspn(*s, " \t");
	snprintf(out, ENDPOINT_MAX, "%.*s", (int)n, *s);
	*s += n;
	return n > 0;
}

/* Whom it serves: those with a key, or everyone where only this machine can ask. */
static int ports_guard(const struct http_options *o, const char *address, bool local, struct buf *why)
{
	if (o->keys || o->allow_no_keys || local)
		return 0;
	return buf_why(why, RC_CONFIG, "%s can be reached from other machines and there is no key file: name one "
		       "(keys = FILE, lines for it come from dsv4ctl key new), listen on 127.0.0.1, or say "
		       "allow_no_keys = yes", address);
}

int ports_check(const struct http_options *o, struct buf *why)
{
	const char *s = o->listen ? o->listen : HTTP_DEFAULT_LISTEN;
	char address[ENDPOINT_MAX];
	bool local;
	int r = 0;

	while (!r && ports_word(&s, address)) {
		r = endpoint_check(address, &local, why);
		r = r ? r : ports_guard(o, address, local, why);
	}
	return r;
}

/* Listening sockets: those of the addresses, then those given. */
static int ports_sockets(const struct http_options *o, int fd[PORTS_MAX], int *ret_n, struct buf *why)
{
	const char *s = o->listen;
	char address[ENDPOINT_MAX];
	int r = 0;

	must(o->n_fds <= PORTS_MAX);
	*ret_n = 0;
	while (!r && ports_word(&s, address)) {
		if (*ret_n + o->n_fds >= PORTS_MAX)
			r = buf_why(why, RC_INVALID, "more than %d addresses to listen on", PORTS_MAX);
		r = r ? r : endpoint_open(address, &fd[*ret_n], why);
		*ret_n += r == 0;
	}
	for (int i = 0; i < o->n_fds; i++)
		fd[(*ret_n)++] = o->fds[i];
	return r;
}

static int ports_add(struct ports *p, int fd, const struct port_options *po, struct buf *why)
{
	size_t used = strlen(p->address);
	int r = port_open(&p->port[p->n], fd, po, why);

	if (r)
		return r;
	snprintf(p->address + used, sizeof p->address - used, "%s%s", used ? " " : "", p->port[p->n].address);
	p->n++;
	return 0;
}

/* All are looked at before one is served. */
int ports_open(struct ports *p, const struct http_options *o, const struct port_options *po, struct buf *why)
{
	int fd[PORTS_MAX], n, r = ports_sockets(o, fd, &n, why);
	char address[ENDPOINT_MAX];

	p->local = true;
	for (int i = 0; i < n && !r; i++) {
		bool local = endpoint_is_local(fd[i]);

		p->local &= local;
		r = endpoint_name(fd[i], address, why);
		r = r ? r : ports_guard(o, address, local, why);
	}
	for (int i = 0; i < n; i++) {
		r = r ? r : ports_add(p, fd[i], po, why);
		if (p->n <= i)
			close(fd[i]);
	}
	return r;
}

void ports_deafen(struct ports *p)
{
	for (int i = 0; i < p->n; i++)
		port_deafen(&p->port[i]);
}

void ports_close(struct ports *p)
{
	while (p->n > 0)
		port_close(&p->port[--p->n]);
}
