/* SPDX-License-Identifier: MIT
 * pinned-nodelete.c - fixture: linked with -z nodelete: dlclose leaves it mapped for good. */
#include "tests/plugins/fixture.h"

FIXTURE("pinned-nodelete")
