/* SPDX-License-Identifier: MIT
 * crash-close.c - fixture: close() crashes. */
#define FIXTURE_CLOSE crash_close
#include "tests/plugins/fixture.h"

#include <stdlib.h>

static void crash_close(const struct dsv4_host *host)
{
	(void)host;
	abort();
}

FIXTURE("crash-close")
