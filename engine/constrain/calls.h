/* SPDX-License-Identifier: MIT
 * calls.h - a block of tool calls, as the model's own encoder writes it, as a grammar.
 * Threads: any, one at a time per grammar. Locks: none. */
#ifndef ENGINE_CALLS_H
#define ENGINE_CALLS_H

#include "engine/constrain/constraint.h"
#include "engine/constrain/jrule.h"

/* A rule: the block with one call or, without one_call, more of the tools offered; of NAMED only of that one.
 * Parameters come in the order of the schema's properties, each as text or as JSON by its schema. What schema.h refuses
 * of a tool's parameters is refused for a tool that is `strict`; for others that condition is left away. RC_INVALID
 * when no such tool is offered; why begins with "tool_choice", or with "tools[i].function." and perhaps the path in a
 * schema. */
int calls_rule(struct grammar *g, struct jrules *j, const struct constraint_options *o, uint32_t *ret_rule,
	       struct buf *why);

/* Is a tool `strict`? */
bool calls_any_strict(const json_t *tools);

/* What a block begins with, up to its first marker. */
#define CALLS_BEGIN "\n\n<\xff"

#endif
