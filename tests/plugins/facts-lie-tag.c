/* SPDX-License-Identifier: MIT
 * facts-lie-tag.c - fixture: its facts give an op another numerics tag than its descriptor does. */
#include "tests/plugins/fixture.h"

#undef DSV4_FACT
#define DSV4_FACT(op, phases, weights, numerics, tag, f) \
	",{\"op\":\"" #op "\",\"phases\":\"" #phases "\",\"weights\":\"" #weights "\",\"numerics\":\"" #numerics \
	"\",\"tag\":\"fp64\"}"
FIXTURE("facts-lie-tag")
