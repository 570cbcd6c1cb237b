/* SPDX-License-Identifier: MIT
 * crash-open.c - fixture: open() crashes. */
#define FIXTURE_OPEN crash_open
#include "tests/plugins/fixture.h"

#include <stdlib.h>

static int crash_open(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	(void)ret_state;
	abort();
}

FIXTURE("crash-open")
