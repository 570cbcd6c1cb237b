/* SPDX-License-Identifier: MIT
 * constraint_grammar.c - from what a request asks for to the grammar of its answer.
 * Threads: any. Locks: none. */
#include "engine/constrain/constraint_grammar.h"
#include "engine/base/rc.h"
#include "engine/constrain/jrule.h"

bool constraint_grammar_wanted(const struct constraint_options *o)
{
	return o->format != GEN_FORMAT_TEXT || o->calls == GEN_CALLS_REQUIRED || o->calls == GEN_CALLS_NAMED;
}

int constraint_grammar(const struct constraint_vocab *v, const struct constraint_options *o, struct grammar *g,
		       struct buf *why)
{
	struct jrules j = { 0 };

	(void)v;
	if (o->format != GEN_FORMAT_JSON_OBJECT || o->calls == GEN_CALLS_REQUIRED || o->calls == GEN_CALLS_NAMED)
		return buf_why(why, RC_UNSUPPORTED, "%s: not supported by this engine", o->calls > GEN_CALLS_NONE ? "tool_choice" : "response_format");
	return grammar_finish(g, jrule_get(g, &j, JRULE_OBJECT), why);
}
