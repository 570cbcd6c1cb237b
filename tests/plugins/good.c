/* SPDX-License-Identifier: MIT
 * good.c - fixture: a plugin without a fault; others are made of its file by owner, mode and swaps on disk. */
#include "tests/plugins/fixture.h"

FIXTURE("good")
