/* SPDX-License-Identifier: MIT
 * port.c - one listening socket and libmicrohttpd's threads behind it.
 * Threads: control; libmicrohttpd's log. Locks: none. */
#include "api/http/port.h"
#include "api/http/tls.h"
#include "engine/base/log.h"
#include "engine/base/rc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_CONNECTION_MEMORY (128 * 1024)
#define PORT_MAX_OPTIONS 8

static void port_log(void *arg, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void port_log(void *arg, const char *fmt, va_list ap)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof text, fmt, ap);
	log_event(LOG_LV_DEBUG, "libmicrohttpd", "text=%s", LOGQ(text));
}

/* A path ends where it ends: what stands behind "%00" would be seen by nobody. With one, nothing is decoded, and no
 * route is called that. */
static size_t port_unescape(void *arg, struct MHD_Connection *connection, char *s)
{
	(void)arg;
	(void)connection;
	return strstr(s, "%00") ? strlen(s) : MHD_http_unescape(s);
}

/* Those that not every port has. */
static void port_more(const struct port_options *o, bool tls, struct MHD_OptionItem more[PORT_MAX_OPTIONS])
{
	int n = 0;

	/* A pool of one is refused by libmicrohttpd, which then has its one internal thread. */
	if (o->threads > 1)
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)o->threads, NULL };
	if (o->per_address)
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)o->per_address,
						     NULL };
	if (tls) {
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
							(void *)(intptr_t)tls_callback() };
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(intptr_t)TLS_PRIORITIES };
	}
	more[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
}

int port_open(struct port *p, int fd, const struct port_options *o, struct buf *why)
{
	struct MHD_OptionItem more[PORT_MAX_OPTIONS];
	int rc = endpoint_name(fd, p->address, why);
	bool tls = o->tls && strncmp(p->address, ENDPOINT_UNIX, strlen(ENDPOINT_UNIX)) != 0;

	if (rc)
		return rc;
	port_more(o, tls, more);
	p->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
				     (tls ? MHD_USE_TLS : 0), 0, o->accept, o->arg, o->access, o->arg,
				     MHD_OPTION_EXTERNAL_LOGGER, port_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
				     MHD_OPTION_UNESCAPE_CALLBACK, port_unescape, NULL,
				     MHD_OPTION_NOTIFY_COMPLETED, o->completed, o->arg,
				     MHD_OPTION_NOTIFY_CONNECTION, o->notify, o->notify_arg,
				     MHD_OPTION_CONNECTION_LIMIT,
				     o->connections > o->threads ? o->connections : o->threads,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)PORT_CONNECTION_MEMORY,
				     MHD_OPTION_CONNECTION_TIMEOUT, o->first_seconds, MHD_OPTION_ARRAY, more,
				     MHD_OPTION_END);
	return p->daemon ? 0 : buf_why(why, RC_INTERNAL, "cannot start the HTTP server on %s", p->address);
}

/* What libmicrohttpd knows as its listening socket becomes one that nobody can reach. MHD_stop_daemon() would shut the
 * real one down: for all who have it, the service manager that gave it to us too. MHD_quiesce_daemon() is not for use:
 * its workers' own removal of the socket from their epoll sets races with it, and the loser aborts (0.9.75). */
void port_deafen(struct port *p)
{
	const union MHD_DaemonInfo *i = MHD_get_daemon_info(p->daemon, MHD_DAEMON_INFO_LISTEN_FD);
	int deaf = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (i && deaf >= 0)
		dup3(deaf, i->listen_fd, O_CLOEXEC);
	if (deaf >= 0)
		close(deaf);
}

void port_close(struct port *p)
{
	if (p->daemon)
		MHD_stop_daemon(p->daemon);
	p->daemon = NULL;
}
