/* SPDX-License-Identifier: MIT
 * facts-lie-count.c - fixture: its descriptor offers an op of which its facts are silent. */
#include "tests/plugins/fixture.h"

#undef DSV4_FACT
#define DSV4_FACT(op, phases, weights, numerics, tag, f) FACT_##op
#define FACT_rms_norm \
	",{\"op\":\"rms_norm\",\"phases\":\"BOTH\",\"weights\":\"ANY\",\"numerics\":\"EXACT\",\"tag\":\"fp32\"}"
#define FACT_hc_post
FIXTURE("facts-lie-count")
