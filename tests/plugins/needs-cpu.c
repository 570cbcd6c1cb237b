/* SPDX-License-Identifier: MIT
 * needs-cpu.c - fixture: needs a feature that no CPU has. */
#define FIXTURE_CPU "fpu no-such-feature"
#include "tests/plugins/fixture.h"

FIXTURE("needs-cpu")
