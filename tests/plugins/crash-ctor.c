/* SPDX-License-Identifier: MIT
 * crash-ctor.c - fixture: its constructor crashes: code that runs before anybody called it. */
#include "tests/plugins/fixture.h"

#include <stdlib.h>

__attribute__((constructor)) static void crash_ctor(void)
{
	abort();
}

FIXTURE("crash-ctor")
