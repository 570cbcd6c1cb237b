/* SPDX-License-Identifier: MIT
 * leaks-malloc.c - fixture: close() does not free what open() took from malloc, past the host that counts. */
#define FIXTURE_OPEN leaks_malloc_open
#include "tests/plugins/fixture.h"

#include <stdlib.h>

static int leaks_malloc_open(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	*ret_state = malloc(1 << 20);
	return *ret_state ? 0 : -ENOMEM;
}

FIXTURE("leaks-malloc")
