/* SPDX-License-Identifier: MIT
 * undefined.c - fixture: needs a function that no library has, so it cannot be mapped. */
#define FIXTURE_OPEN undefined_open
#include "tests/plugins/fixture.h"

int fixture_that_nobody_defines(const struct dsv4_host *host);

static int undefined_open(const struct dsv4_host *host, void **ret_state)
{
	(void)ret_state;
	return fixture_that_nobody_defines(host);
}

FIXTURE("undefined")
