/* SPDX-License-Identifier: MIT
 * leaks.c - fixture: close() does not release what open() took from the host. */
#define FIXTURE_OPEN leaks_open
#include "tests/plugins/fixture.h"

static int leaks_open(const struct dsv4_host *host, void **ret_state)
{
	*ret_state = host->alloc(host, 4096);
	return *ret_state ? 0 : -ENOMEM;
}

FIXTURE("leaks")
