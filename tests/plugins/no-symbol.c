/* SPDX-License-Identifier: MIT
 * no-symbol.c - fixture: its facts are fine, but it exports no descriptor. */
#include "tests/plugins/fixture.h"

#define dsv4_plugin_descriptor fixture_descriptor
FIXTURE("no-symbol")
