/* SPDX-License-Identifier: MIT
 * pinned.c - fixture: holds a unique symbol, as g++ emits for a static of an inline function:
 * dlclose leaves it mapped for good. */
#define FIXTURE_OPEN pinned_open
#include "tests/plugins/fixture.h"

extern int pinned_unique __attribute__((visibility("default")));
__asm__(".pushsection .data.pinned_unique,\"aw\"\n"
	".globl pinned_unique\n"
	".type pinned_unique, @gnu_unique_object\n"
	".size pinned_unique, 4\n"
	"pinned_unique: .long 0\n"
	".popsection");

/* The dynamic linker pins the library when it resolves a reference to the symbol; there is one from here. */
static int pinned_open(const struct dsv4_host *host, void **ret_state)
{
	(void)host;
	*ret_state = &pinned_unique;
	return 0;
}

FIXTURE("pinned")
