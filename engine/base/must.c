/* SPDX-License-Identifier: MIT
 * must.c - the end of the road for a failed assertion.
 * Threads: any. Locks: none. */
#include "engine/base/must.h"

#include <stdio.h>
#include <stdlib.h>

void must_fail(const char *cond, const char *file, int line, const char *func)
{
	fprintf(stderr, "<0>assert cond=\"%s\" file=%s line=%d func=%s\n", cond, file, line, func);
	abort();
}
