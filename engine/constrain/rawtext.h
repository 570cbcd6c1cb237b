/* SPDX-License-Identifier: MIT
 * rawtext.h - string values as calls have them: the text itself, without quotes or escapes.
 * Threads: who builds the grammar. Locks: none. */
#ifndef ENGINE_RAWTEXT_H
#define ENGINE_RAWTEXT_H

#include "engine/constrain/grammar.h"

/* A rule: min to max characters (JRULE_NO_MAX: any number); of the control characters only tab, line feed and
 * carriage return. The value's closing tag, whose marker no text has, comes after. */
uint32_t rawtext_rule(struct grammar *g, uint32_t min, uint32_t max);

#endif
