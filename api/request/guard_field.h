/* SPDX-License-Identifier: MIT
 * guard_field.h - what a body says of the repetition guard, in every protocol.
 * Threads: any. Locks: none. */
#ifndef API_GUARD_FIELD_H
#define API_GUARD_FIELD_H

#include "api/request/field.h"
#include "engine/engine.h"

#define GUARD_FIELD_MAX 1000000

/* Reads "repetition_guard": true, false, or an object of limits that also switches it on. */
int guard_field(const struct field_at *b, struct gen_guard *io, struct error *err);
/* What the server's configuration says to a request that says nothing. One that wants a length keeps it. */
void guard_default(struct gen_guard *io, bool on, const struct gen_sampling *s);

#endif
