/* SPDX-License-Identifier: MIT
 * files.h - the files that the HTTP server's options name, read and found fit for use.
 * Threads: control. Locks: none. */
#ifndef API_FILES_H
#define API_FILES_H

#include "api/http/http.h"
#include "api/http/keys.h"
#include "api/http/tls.h"

/* NULL: the options name none. */
struct files {
	struct keys *keys;
	struct tls_pair *tls;
};

/* Start from {0}; files_fini() also after an error. RC_CONFIG or -errno; why names file and line, or the option. */
int files_read(struct files *f, const struct http_options *o, struct buf *why);
void files_fini(struct files *f);

#endif
