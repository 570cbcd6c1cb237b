/* SPDX-License-Identifier: MIT
 * older-minor.c - fixture: right, and built for a minor version of the ABI before the daemon's. */
#include "tests/plugins/fixture.h"

#undef DSV4_ABI_MINOR
#define DSV4_ABI_MINOR 2
FIXTURE("older-minor")
