/* SPDX-License-Identifier: MIT
 * files.c - the files that the HTTP server's options name, read and found fit for use.
 * Threads: control. Locks: none. */
#include "api/http/files.h"
#include "api/http/cors.h"
#include "engine/base/rc.h"

int files_read(struct files *f, const struct http_options *o, struct buf *why)
{
	int r = o->cors ? cors_check(o->cors, why) : 0;

	if (!r && !o->tls_cert != !o->tls_key)
		r = buf_why(why, RC_CONFIG, "tls_cert and tls_key: one without the other");
	if (!r && o->keys)
		r = keys_read(o->keys, &f->keys, why);
	if (!r && o->tls_cert)
		r = tls_read(o->tls_cert, o->tls_key, &f->tls, why);
	return r;
}

void files_fini(struct files *f)
{
	keys_free(&f->keys);
	tls_pair_free(&f->tls);
}
