/* SPDX-License-Identifier: MIT
 * facts-lie-name.c - fixture: its facts give it another name than its descriptor does. */
#include "tests/plugins/fixture.h"

__attribute__((used)) static const char false_facts[] = DSV4_FACTS_BEGIN
	"[{\"abi\":\"" DSV4_TEXT(DSV4_ABI_MAJOR) "." DSV4_TEXT(DSV4_ABI_MINOR) "\",\"signature\":\""
	DSV4_BUILD_SIGNATURE "\",\"name\":\"facts-lie-name\",\"version\":\"1.0\",\"cpu\":\"\",\"gpu\":\"\"}"
	FIXTURE_OPS(DSV4_FACT) "]" DSV4_FACTS_END;

#undef DSV4_FACTS_BEGIN
#define DSV4_FACTS_BEGIN ""
#undef DSV4_FACTS_END
#define DSV4_FACTS_END ""
FIXTURE("truth")
