/* SPDX-License-Identifier: MIT
 * slow-close.c - fixture: close() takes three seconds. */
#define FIXTURE_CLOSE slow_close
#include "tests/plugins/fixture.h"

#include <time.h>

static void slow_close(const struct dsv4_host *host)
{
	struct timespec left = { .tv_sec = 3 };

	(void)host;
	while (nanosleep(&left, &left))
		;
}

FIXTURE("slow-close")
