/* SPDX-License-Identifier: MIT
 * rc.h - the one error table: names, HTTP statuses, Varlink errors, texts.
 * Threads: any. Locks: none. */
#ifndef BASE_RC_H
#define BASE_RC_H

/* A function that can fail returns 0, one of these, or -errno. */
enum rc {
#define RC(name, code, http, type, varlink, text) name = code,
#include "engine/base/rc.def"
#undef RC
};

/* Symbolic name ("RC_BUSY"), or "errno" for -errno values, or "RC_OK". */
const char *rc_name(int rc);
/* HTTP status for the error; 500 for -errno values (507 for -ENOMEM). */
int rc_http(int rc);
/* The `type` of an OpenAI error body. */
const char *rc_type(int rc);
/* Fully qualified Varlink error name. */
const char *rc_varlink(int rc);
/* One short English phrase; strerror for -errno values. */
const char *rc_text(int rc);

#endif
