/* SPDX-License-Identifier: MIT
 * two-facts.c - fixture: two sets of facts: which of them is true? */
#include "tests/plugins/fixture.h"

__attribute__((used)) static const char second_facts[] = DSV4_FACTS_BEGIN
	"[{\"abi\":\"1.0\",\"signature\":\"" DSV4_BUILD_SIGNATURE "\",\"name\":\"two-facts\",\"version\":\"1.0\","
	"\"cpu\":\"\",\"gpu\":\"\"}]" DSV4_FACTS_END;

FIXTURE("two-facts")
