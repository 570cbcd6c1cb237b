/* SPDX-License-Identifier: MIT
 * schemakit.h - JSON schemas for tests: a validator of its own, and random schemas.
 * Threads: main. Locks: none. */
#ifndef TESTS_SCHEMAKIT_H
#define TESTS_SCHEMAKIT_H

#include <jansson.h>
#include <stdbool.h>

/* Is the value valid by the schema, as JSON Schema has it, for the keywords that random schemas use? Whatever else a
 * schema has is no condition. `root` is where references point. */
bool schemakit_valid(json_t *root, json_t *schema, json_t *value);

/* A schema that something satisfies. The same seed gives the same one. With `object` its top is an object. */
json_t *schemakit_random(unsigned *seed, bool object);

#endif
