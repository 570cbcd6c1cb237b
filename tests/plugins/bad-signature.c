/* SPDX-License-Identifier: MIT
 * bad-signature.c - fixture: built for another data model. */
#include "tests/plugins/fixture.h"

#undef DSV4_BUILD_SIGNATURE
#define DSV4_BUILD_SIGNATURE "dsv4-abi-1 ilp32 be"
FIXTURE("bad-signature")
