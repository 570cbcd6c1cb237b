/* SPDX-License-Identifier: MIT
 * fake_spec.h - what a test can check of a spec: the fields that a body ends up in, as JSON.
 * Threads: any. Locks: none. */
#ifndef TESTS_HTTP_FAKE_SPEC_H
#define TESTS_HTTP_FAKE_SPEC_H

#include "engine/engine.h"

/* The caller owns it. A field that is NULL is left out. */
json_t *fake_spec(const struct generation_spec *s);

#endif
