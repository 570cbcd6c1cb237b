/* SPDX-License-Identifier: MIT
 * mend.h - text of JSON that this server says or hears, but its parser does not take, as the nearest that it does.
 * Threads: any. Locks: none. */
#ifndef API_MEND_H
#define API_MEND_H

#include "engine/base/buf.h"

#include <stdbool.h>

/* Escapes of NUL and of lone surrogates, in any string, become that of U+FFFD; integers beyond 64 bits become reals. So
 * no string of a parsed body holds a NUL: what reads one as a C string sees all of it, and a name, a role or an id with
 * a NUL is another one, never its beginning. false: there was nothing to mend, and `out` is as it was. */
bool mend_json(const char *s, size_t len, struct buf *out);

#endif
