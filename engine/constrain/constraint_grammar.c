/* SPDX-License-Identifier: MIT
 * constraint_grammar.c - from what a request asks for to the grammar of its answer.
 * Threads: any. Locks: none. */
#include "engine/constrain/constraint_grammar.h"
#include "engine/base/rc.h"
#include "engine/constrain/calls.h"
#include "engine/constrain/schema.h"

static bool constraint_only_calls(const struct constraint_options *o)
{
	return o->calls == GEN_CALLS_REQUIRED || o->calls == GEN_CALLS_NAMED;
}

bool constraint_grammar_watches(const struct constraint_options *o)
{
	return o->calls == GEN_CALLS_AUTO && o->format == GEN_FORMAT_TEXT && calls_any_strict(o->tools);
}

bool constraint_grammar_wanted(const struct constraint_options *o)
{
	return o->format != GEN_FORMAT_TEXT || constraint_only_calls(o) || constraint_grammar_watches(o);
}

static int constraint_format_rule(struct grammar *g, struct jrules *j, const struct constraint_options *o,
				  const char *name, uint32_t *ret_rule, struct buf *why)
{
	struct schema_source src = { .schema = o->schema, .name = name, .mode = SCHEMA_VALUE };

	if (o->format == GEN_FORMAT_JSON_SCHEMA && o->schema)
		return schema_rule(g, j, &src, ret_rule, why);
	if (o->format == GEN_FORMAT_JSON_SCHEMA)
		return buf_why(why, RC_INVALID, "%s: missing", name);
	*ret_rule = jrule_get(g, j, JRULE_OBJECT);
	return 0;
}

/* The calls, where there may or must be some; *ret_any says whether. */
static int constraint_calls_rule(const struct constraint_vocab *v, struct grammar *g, struct jrules *j,
				 const struct constraint_options *o, bool *ret_any, uint32_t *ret_rule, struct buf *why)
{
	bool offered = json_array_size(o->tools) > 0;

	*ret_any = constraint_only_calls(o) || (o->calls == GEN_CALLS_AUTO && offered);
	if (!*ret_any)
		return 0;
	if (v->dsml < 0)
		return buf_why(why, RC_UNSUPPORTED, "tool_choice: the tokenizer has no %s", TOKENTRIE_DSML_TEXT);
	return calls_rule(g, j, o, ret_rule, why);
}

static int constraint_finish(struct grammar *g, uint32_t root, const char *name, struct buf *why)
{
	struct buf text = { 0 };
	int rc = grammar_finish(g, root, &text);

	if (rc)
		buf_why(why, rc, "%s: %s", name, buf_str(&text));
	buf_fini(&text);
	return rc;
}

int constraint_grammar(const struct constraint_vocab *v, const struct constraint_options *o, struct grammar *g,
		       struct buf *why)
{
	const char *name = o->schema_name ? o->schema_name : "schema";
	bool calls = false, format = o->format != GEN_FORMAT_TEXT && !constraint_only_calls(o);
	uint32_t call = 0, form = 0, root;
	struct jrules j = { 0 };
	int rc = constraint_calls_rule(v, g, &j, o, &calls, &call, why);

	if (rc == 0 && format)
		rc = constraint_format_rule(g, &j, o, name, &form, why);
	if (rc)
		return rc;
	root = format ? form : call;
	if (calls && format) {
		root = grammar_rule(g);
		grammar_define(g, root, grammar_either(g, grammar_call(g, form, GRAMMAR_END),
						       grammar_call(g, call, GRAMMAR_END)), false);
	}
	return constraint_finish(g, root, format ? name : "tools", why);
}
