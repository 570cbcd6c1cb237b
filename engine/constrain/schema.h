/* SPDX-License-Identifier: MIT
 * schema.h - JSON schemas as grammars.
 * Threads: any, one at a time per grammar. Locks: none. */
#ifndef ENGINE_SCHEMA_H
#define ENGINE_SCHEMA_H

#include "engine/constrain/grammar.h"
#include "engine/constrain/jrule.h"

#include <jansson.h>
#include <stdbool.h>

/* What of JSON Schema is understood. Whatever comes out is valid by the schema; not all that is valid can come out:
 *
 *  - type (also several), enum, const, $ref (into the same schema, also recursive), $defs, definitions
 *  - anyOf; oneOf is taken as anyOf
 *  - allOf, and what stands beside anyOf or $ref: where the parts say different things of a value, not two things of
 *    the same, but for type, enum and const; no prefixItems beside items of another part
 *  - properties come in their declared order, those that are not required may be left out; required;
 *    additionalProperties: after the others. Where it is not said and there are properties, there are no more
 *    (JSON Schema would let any come). The names of additional ones have no escapes.
 *  - patternProperties with one pattern, or propertyNames, where no property is named; minProperties, maxProperties
 *    there too, elsewhere where they say nothing new. What matches no pattern does not come. Names may come
 *    twice: minProperties above 1 is refused where they are free.
 *  - items, prefixItems (and none after them unless items says so, or minItems needs them), minItems, maxItems
 *  - uniqueItems: constants come once each, in their order, where items have no more than enum, const and type;
 *    beside other conditions they are refused. Of other items, which would have to be remembered, it is no condition
 *  - minLength, maxLength, in characters; pattern as in pattern.h
 *  - minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf of up to JRULE_MAX_UNIT units of its last digit;
 *    numbers with one of them have no exponent, and satisfy them as doubles too
 *  - a branch, or a member that may be left out, that nothing satisfies never comes
 *  - a keyword of one type without `type` means that type
 *  - format, title, description, default, examples and unknown keywords are no conditions
 *
 * White space, numbers and escapes are bounded as in jrule.h, nesting by GRAMMAR_MAX_DEPTH. Other conditions (not, if,
 * contains, ...) are RC_UNSUPPORTED. */

/* How a value is written: as JSON; as JSON, but strings not at all; only strings, as the text itself; only objects, as
 * the parameters of a call. */
enum schema_mode { SCHEMA_VALUE, SCHEMA_NOT_STRING, SCHEMA_TEXT, SCHEMA_PARAMS };

/* Can a function or a parameter of a call have that name? */
bool schema_name_fits(const char *name);

#define SCHEMA_MAX_PARAM_NAME 128
#define SCHEMA_MAX_MERGES 1024
#define SCHEMA_MAX_PATH 256

struct schema_source {
	json_t *schema;        /* borrowed; what $ref points into */
	const char *name;      /* what messages call it */
	/* A condition that is not understood is left away, a part that is invalid may be anything: for schemas that
	 * nobody promised to keep to. */
	bool lenient;
	enum schema_mode mode;
};

/* The rule of all that is valid, and what it needs. RC_INVALID, RC_UNSUPPORTED; why begins with name and the path in
 * the schema, like "schema.properties.a.items: ...". */
int schema_rule(struct grammar *g, struct jrules *j, const struct schema_source *src, uint32_t *ret_rule,
		struct buf *why);

#endif
