/* SPDX-License-Identifier: MIT
 * newer-minor.c - fixture: built for a newer minor version of the ABI than any daemon has. */
#include "tests/plugins/fixture.h"

#undef DSV4_ABI_MINOR
#define DSV4_ABI_MINOR 999
FIXTURE("newer-minor")
