/* SPDX-License-Identifier: MIT
 * leaves-library.c - fixture: open() loads a library and nobody closes it. One that nothing else here uses. */
#include <dlfcn.h>

#define FIXTURE_OPEN leaves_library
#include "tests/plugins/fixture.h"

static int leaves_library(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	*ret_state = dlopen("libanl.so.1", RTLD_NOW);
	return *ret_state ? 0 : -ENOENT;
}

FIXTURE("leaves-library")
