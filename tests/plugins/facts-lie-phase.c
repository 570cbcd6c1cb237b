/* SPDX-License-Identifier: MIT
 * facts-lie-phase.c - fixture: its facts offer both phases of an op, its descriptor only decode. */
#include "tests/plugins/fixture.h"

#undef DSV4_PHASES_BOTH
#define DSV4_PHASES_BOTH DSV4_PHASES_DECODE
FIXTURE("facts-lie-phase")
