/* SPDX-License-Identifier: MIT
 * endpoint.c - listening TCP sockets from "ADDR:PORT".
 * Threads: any. Locks: none. */
#include "api/http/endpoint.h"
#include "engine/base/rc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ENDPOINT_BACKLOG 128

static int endpoint_parse(const char *address, struct addrinfo **ret_ai, struct buf *why)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(address, ':');
	size_t n = colon ? (size_t)(colon - address) : 0;
	char host[ENDPOINT_MAX];
	int r;

	if (n == 0 || n >= sizeof host || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strlen(colon + 1) > 5 || atoi(colon + 1) > 65535)
		return buf_why(why, RC_INVALID, "listen address \"%s\": expected ADDR:PORT or [ADDR6]:PORT",
			       address);
	if (address[0] == '[' && address[n - 1] == ']' && n > 2)
		snprintf(host, sizeof host, "%.*s", (int)n - 2, address + 1);
	else
		snprintf(host, sizeof host, "%.*s", (int)n, address);
	r = getaddrinfo(strcmp(host, "localhost") ? host : "127.0.0.1", colon + 1, &hints, ret_ai);
	if (r)
		return buf_why(why, RC_INVALID, "listen address \"%s\": %s", address, gai_strerror(r));
	return 0;
}

int endpoint_open(const char *address, int *ret_fd, struct buf *why)
{
	struct addrinfo *ai;
	int rc = endpoint_parse(address, &ai, why), fd, one = 1;

	if (rc)
		return rc;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		rc = buf_why(why, -errno, "socket for %s: %s", address, strerror(errno));
	else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
		 bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, ENDPOINT_BACKLOG))
		rc = buf_why(why, -errno, "cannot listen on %s: %s", address, strerror(errno));
	freeaddrinfo(ai);
	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

/* Of a listening socket. */
union endpoint_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

int endpoint_name(int fd, char out[ENDPOINT_MAX], struct buf *why)
{
	union endpoint_address a = { 0 };
	socklen_t len = sizeof a;
	char text[INET6_ADDRSTRLEN];

	if (getsockname(fd, &a.sa, &len))
		return buf_why(why, -errno, "listening socket: %s", strerror(errno));
	if (a.sa.sa_family == AF_INET && inet_ntop(AF_INET, &a.in.sin_addr, text, sizeof text))
		snprintf(out, ENDPOINT_MAX, "%s:%u", text, (unsigned)ntohs(a.in.sin_port));
	else if (a.sa.sa_family == AF_INET6 && inet_ntop(AF_INET6, &a.in6.sin6_addr, text, sizeof text))
		snprintf(out, ENDPOINT_MAX, "[%s]:%u", text, (unsigned)ntohs(a.in6.sin6_port));
	else if (a.sa.sa_family == AF_UNIX)
		snprintf(out, ENDPOINT_MAX, ENDPOINT_UNIX "%.*s", (int)sizeof a.un.sun_path, a.un.sun_path);
	else
		return buf_why(why, RC_INVALID, "the listening socket is neither IPv4, IPv6 nor Unix");
	return 0;
}

static bool endpoint_address_is_local(const union endpoint_address *a)
{
	const struct in6_addr *six = &a->in6.sin6_addr;

	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (a->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
	return a->sa.sa_family == AF_UNIX;
}

bool endpoint_is_local(int fd)
{
	union endpoint_address a = { 0 };
	socklen_t len = sizeof a;

	return getsockname(fd, &a.sa, &len) == 0 && endpoint_address_is_local(&a);
}

bool endpoint_is_unix(int fd)
{
	union endpoint_address a = { 0 };
	socklen_t len = sizeof a;

	return getsockname(fd, &a.sa, &len) == 0 && a.sa.sa_family == AF_UNIX;
}

int endpoint_check(const char *address, bool *ret_local, struct buf *why)
{
	union endpoint_address a = { 0 };
	struct addrinfo *ai;
	int rc = endpoint_parse(address, &ai, why);

	if (rc)
		return rc;
	memcpy(&a, ai->ai_addr, ai->ai_addrlen);
	*ret_local = endpoint_address_is_local(&a);
	freeaddrinfo(ai);
	return 0;
}
