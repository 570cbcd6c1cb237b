/* SPDX-License-Identifier: MIT
 * hang-open.c - fixture: open() never returns. */
#define FIXTURE_OPEN hang_open
#include "tests/plugins/fixture.h"

#include <unistd.h>

static int hang_open(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	(void)ret_state;
	while (pause())
		;
	return 0;
}

FIXTURE("hang-open")
