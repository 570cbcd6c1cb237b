/* SPDX-License-Identifier: MIT
 * plugkit.h - this tree's own plugins, mapped, for tests that run them in the model.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_PLUGKIT_H
#define TESTS_PLUGKIT_H

#include "engine/kernels/provider.h"
#include "tests/unit/tinykit.h"

struct plugkit {
	void *handle;
	struct provider provider;
};

/* Maps plugins/NAME.so of the build tree and opens it. */
void plugkit_init(struct plugkit *p, const char *name);
/* No set may use it any more. */
void plugkit_fini(struct plugkit *p);
/* A set with p for these families, a list such as "mhc,attention.decode". */
struct kset *plugkit_set(struct plugkit *p, const char *families);

#endif
