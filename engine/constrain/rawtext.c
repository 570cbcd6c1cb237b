/* SPDX-License-Identifier: MIT
 * rawtext.c - string values as calls have them: the text itself, without quotes or escapes.
 * Threads: who builds the grammar. Locks: none. */
#include "engine/constrain/rawtext.h"
#include "engine/constrain/jrule.h"

static uint32_t rawtext_char(struct grammar *g, uint32_t next)
{
	struct grammar_edge e[3 + GRAMMAR_UTF8_EDGES] = { { '\t', '\n', next }, { '\r', '\r', next },
							  { ' ', 0x7f, next } };

	grammar_utf8(g, next, e + 3);
	return grammar_bytes(g, e, 3 + GRAMMAR_UTF8_EDGES);
}

uint32_t rawtext_rule(struct grammar *g, uint32_t min, uint32_t max)
{
	uint32_t rule = grammar_rule(g), again = grammar_hole(g), most = max == JRULE_NO_MAX ? min : max;
	uint32_t one = rawtext_char(g, most ? grammar_count(g, most, again) : again);

	grammar_plain(g, one, max);
	if (max != JRULE_NO_MAX)
		one = grammar_below(g, max, one);
	grammar_fill(g, again, grammar_either(g, one, min ? grammar_from(g, min, GRAMMAR_END) : GRAMMAR_END));
	grammar_define(g, rule, again, false);
	return rule;
}
