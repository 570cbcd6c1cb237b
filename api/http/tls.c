/* SPDX-License-Identifier: MIT
 * tls.c - the server's certificate and key, replaced while it runs.
 * Threads: control; handshakes ask on libmicrohttpd's. Locks: none, one atomic pointer. */
#include "api/http/tls.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TLS_MAX_BYTES (1u << 20)
#define TLS_MAX_CHAIN 16

struct tls_pair {
	struct tls_pair *older;
	gnutls_pcert_st cert[TLS_MAX_CHAIN];
	unsigned n_cert;
	gnutls_privkey_t key;
};

/* A handshake may still be with an older pair, so they are kept to the end: some kilobytes for each renewal. */
static _Atomic(struct tls_pair *) tls_current;

/* ---- the files ---- */

static int tls_failed(struct buf *why, const char *path, int r)
{
	return buf_why(why, RC_CONFIG, "%s: %s", path, gnutls_strerror(r));
}

static int tls_mode(const char *path, struct buf *why)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_mode & S_IRWXO)
		return buf_why(why, RC_CONFIG, "%s: mode %04o lets others read the private key; chmod 600 or 640", path,
			       (unsigned)(st.st_mode & 07777));
	return 0;
}

static int tls_read_cert(const char *path, struct tls_pair *p, struct buf *why)
{
	struct buf text = { 0 };
	gnutls_datum_t d;
	int r = mapfile_slurp(path, TLS_MAX_BYTES, &text, why);

	if (r)
		return r;
	d = (gnutls_datum_t){ (unsigned char *)text.data, (unsigned)text.len };
	p->n_cert = TLS_MAX_CHAIN;
	r = gnutls_pcert_list_import_x509_raw(p->cert, &p->n_cert, &d, GNUTLS_X509_FMT_PEM, 0);
	if (r < 0)
		p->n_cert = 0;
	buf_fini(&text);
	return r < 0 ? tls_failed(why, path, r) : 0;
}

static int tls_read_key(const char *path, struct tls_pair *p, struct buf *why)
{
	struct buf text = { 0 };
	gnutls_datum_t d;
	int r = tls_mode(path, why);

	r = r ? r : mapfile_slurp(path, TLS_MAX_BYTES, &text, why);
	if (r)
		return r;
	d = (gnutls_datum_t){ (unsigned char *)text.data, (unsigned)text.len };
	must_zero(gnutls_privkey_init(&p->key));
	r = gnutls_privkey_import_x509_raw(p->key, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_fini(&text);
	return r < 0 ? tls_failed(why, path, r) : 0;
}

/* Do the two belong together? */
static int tls_match(const struct tls_pair *p, const char *cert, const char *key, struct buf *why)
{
	unsigned char id[2][64];
	size_t n[2] = { sizeof id[0], sizeof id[1] };
	gnutls_pubkey_t public;
	bool same;

	must_zero(gnutls_pubkey_init(&public));
	same = gnutls_pubkey_import_privkey(public, p->key, 0, 0) == 0 &&
	       gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, id[0], &n[0]) == 0 &&
	       gnutls_pubkey_get_key_id(p->cert[0].pubkey, GNUTLS_KEYID_USE_SHA256, id[1], &n[1]) == 0 &&
	       n[0] == n[1] && !memcmp(id[0], id[1], n[0]);
	gnutls_pubkey_deinit(public);
	return same ? 0 : buf_why(why, RC_CONFIG, "%s: is not the key of the certificate in %s", key, cert);
}

int tls_read(const char *cert, const char *key, struct tls_pair **ret_pair, struct buf *why)
{
	struct tls_pair *p = mem_new(sizeof *p);
	int r = tls_read_cert(cert, p, why);

	r = r ? r : tls_read_key(key, p, why);
	r = r ? r : tls_match(p, cert, key, why);
	if (r)
		tls_pair_free(&p);
	else
		*ret_pair = p;
	return r;
}

void tls_pair_free(struct tls_pair **pp)
{
	struct tls_pair *p = *pp;

	*pp = NULL;
	if (!p)
		return;
	for (unsigned i = 0; i < p->n_cert; i++)
		gnutls_pcert_deinit(&p->cert[i]);
	if (p->key)
		gnutls_privkey_deinit(p->key);
	free(p);
}

/* ---- in use ---- */

void tls_use(struct tls_pair **pair)
{
	(*pair)->older = atomic_load(&tls_current);
	atomic_store(&tls_current, *pair);
	*pair = NULL;
}

void tls_end(void)
{
	struct tls_pair *p = atomic_exchange(&tls_current, NULL), *older;

	for (; p; p = older) {
		older = p->older;
		tls_pair_free(&p);
	}
}

static int tls_retrieve(gnutls_session_t session, const gnutls_datum_t *names, int n_names,
			const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret_cert,
			unsigned *ret_n, gnutls_privkey_t *ret_key)
{
	struct tls_pair *p = atomic_load(&tls_current);

	(void)session;
	(void)names;
	(void)n_names;
	(void)algorithms;
	(void)n_algorithms;
	if (!p)
		return -1;
	*ret_cert = p->cert;
	*ret_n = p->n_cert;
	*ret_key = p->key;
	return 0;
}

gnutls_certificate_retrieve_function2 *tls_callback(void)
{
	return tls_retrieve;
}

void tls_write(struct MHD_Connection *connection, int fd, const char *s, size_t len)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = i ? (gnutls_session_t)i->tls_session : NULL;

	if (session) {
		(void)gnutls_record_send(session, s, len);
		(void)gnutls_bye(session, GNUTLS_SHUT_WR);
	} else {
		(void)!send(fd, s, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}
