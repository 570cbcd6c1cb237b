/* SPDX-License-Identifier: MIT
 * fails-open.c - fixture: open() returns an error. */
#define FIXTURE_OPEN fails_open
#include "tests/plugins/fixture.h"

static int fails_open(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	(void)ret_state;
	return -ENODEV;
}

FIXTURE("fails-open")
