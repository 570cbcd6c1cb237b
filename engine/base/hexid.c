/* SPDX-License-Identifier: MIT
 * hexid.c - random ids that nobody can guess: "call_3f0c...".
 * Threads: any. Locks: none. */
#include "engine/base/hexid.h"
#include "engine/base/must.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void hexid_make(char *ret_id, size_t size, const char *prefix)
{
	unsigned char r[HEXID_DIGITS / 2];
	size_t at = strlen(prefix);

	must(at + HEXID_DIGITS < size);
	must(getrandom(r, sizeof r, 0) == (ssize_t)sizeof r);
	memcpy(ret_id, prefix, at);
	for (size_t i = 0; i < sizeof r; i++, at += 2)
		snprintf(ret_id + at, size - at, "%02x", r[i]);
}
