/* SPDX-License-Identifier: MIT
 * tls.h - the server's certificate and key, replaced while it runs.
 * Threads: control; handshakes ask on libmicrohttpd's. Locks: none. */
#ifndef API_TLS_H
#define API_TLS_H

#include "engine/base/buf.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>

struct tls_pair;

/* Protocol versions and ciphers, as GnuTLS writes them. */
#define TLS_PRIORITIES "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"

/* Reads PEM files: the certificate with its chain, and its key, which only owner and group may read. RC_CONFIG or
 * -errno; why names the file. */
int tls_read(const char *cert, const char *key, struct tls_pair **ret_pair, struct buf *why);
void tls_pair_free(struct tls_pair **pair);

/* One server of the process has TLS at a time: the library's callback has no argument. Handshakes use `pair` from
 * now on; takes it over. */
void tls_use(struct tls_pair **pair);
/* No handshake runs any more: frees all pairs that were in use. */
void tls_end(void);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
gnutls_certificate_retrieve_function2 *tls_callback(void);

/* Writes to the connection beside libmicrohttpd, which must have nothing to write itself: in TLS or not, as it is. As
 * much as the socket takes at once. From the connection's thread. */
void tls_write(struct MHD_Connection *connection, int fd, const char *s, size_t len);

#endif
