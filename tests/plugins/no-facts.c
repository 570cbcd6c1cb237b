/* SPDX-License-Identifier: MIT
 * no-facts.c - fixture: its descriptor is fine, but there is nothing to read without running it. */
#include "tests/plugins/fixture.h"

#undef DSV4_FACTS_BEGIN
#define DSV4_FACTS_BEGIN "<facts-of-another-daemon>"
#undef DSV4_FACTS_END
#define DSV4_FACTS_END "</facts-of-another-daemon>"
FIXTURE("no-facts")
