/* SPDX-License-Identifier: MIT
 * wrong-major.c - fixture: built for the next major version of the ABI, and says so. */
#include "tests/plugins/fixture.h"

#undef DSV4_ABI_MAJOR
#define DSV4_ABI_MAJOR 2
FIXTURE("wrong-major")
