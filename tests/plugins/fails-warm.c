/* SPDX-License-Identifier: MIT
 * fails-warm.c - fixture: warm() returns an error; close() releases what open() took. */
#define FIXTURE_OPEN fails_warm_open
#define FIXTURE_WARM fails_warm
#define FIXTURE_CLOSE fails_warm_close
#include "tests/plugins/fixture.h"

static int fails_warm_open(const struct dsv4_host *host, void **ret_state)
{
	*ret_state = host->alloc(host, 4096);
	return *ret_state ? 0 : -ENOMEM;
}

static int fails_warm(const struct dsv4_host *host)
{
	(void)host;
	return -EIO;
}

static void fails_warm_close(const struct dsv4_host *host)
{
	host->release(host, host->state);
}

FIXTURE("fails-warm")
