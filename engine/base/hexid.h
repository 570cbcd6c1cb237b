/* SPDX-License-Identifier: MIT
 * hexid.h - random ids that nobody can guess: "call_3f0c...".
 * Threads: any. Locks: none. */
#ifndef BASE_HEXID_H
#define BASE_HEXID_H

#include <stddef.h>

#define HEXID_DIGITS 24 /* 96 bits */

/* Writes prefix, HEXID_DIGITS random hex digits and a NUL, for which `size` must have room. */
void hexid_make(char *ret_id, size_t size, const char *prefix);

#endif
