/* SPDX-License-Identifier: MIT
 * needs-gpu.c - fixture: computes on a GPU that nobody has. */
#define FIXTURE_GPU "sm_999"
#include "tests/plugins/fixture.h"

FIXTURE("needs-gpu")
