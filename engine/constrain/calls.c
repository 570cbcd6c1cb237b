/* SPDX-License-Identifier: MIT
 * calls.c - a block of tool calls, as the model's own encoder writes it, as a grammar.
 * Threads: any, one at a time per grammar. Locks: none. */
#include "engine/constrain/calls.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The byte that a tag's marker is. */
#define DSML "\xff"

static json_t *calls_function(const json_t *tools, size_t i)
{
	return json_object_get(json_array_get(tools, i), "function");
}

bool calls_any_strict(const json_t *tools)
{
	bool any = false;
	size_t i;

	for (i = 0; i < json_array_size(tools); i++)
		any |= json_is_true(json_object_get(calls_function(tools, i), "strict"));
	return any;
}

/* The rule of a tool's parameters. Without a schema it takes none. */
static int calls_params(struct grammar *g, struct jrules *j, json_t *function, size_t i, uint32_t *ret_rule,
			struct buf *why)
{
	struct schema_source src = { .mode = SCHEMA_PARAMS };
	char name[64];
	json_t *none;
	int rc;

	snprintf(name, sizeof name, "tools[%zu].function.parameters", i);
	src.name = name;
	src.lenient = !json_is_true(json_object_get(function, "strict"));
	src.schema = json_object_get(function, "parameters");
	if (src.schema && !json_is_null(src.schema))
		return schema_rule(g, j, &src, ret_rule, why);
	none = json_pack("{s:s, s:{}}", "type", "object", "properties");
	src.schema = none;
	rc = schema_rule(g, j, &src, ret_rule, why);
	json_decref(none);
	return rc;
}

/* The calls that may be made: a word of the grammar for each, and the text that it points into. */
struct calls_words {
	struct grammar_word *word; /* [n] */
	struct buf *text;          /* [n] */
	size_t n;
	uint32_t next;             /* what follows any of them */
};

static void calls_words_init(struct calls_words *w, size_t max, uint32_t next)
{
	w->word = mem_grow(NULL, max + 1, sizeof *w->word);
	w->text = mem_grow(NULL, max + 1, sizeof *w->text);
	w->n = 0;
	w->next = next;
}

static void calls_words_fini(struct calls_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		buf_fini(&w->text[i]);
	free(w->text);
	free(w->word);
}

/* Adds the call of tool i after its opening tag has begun: name, parameters, then w->next. */
static int calls_one(struct grammar *g, struct jrules *j, json_t *function, size_t i,
		     struct calls_words *w, struct buf *why)
{
	const char *name = json_string_value(json_object_get(function, "name"));
	struct buf text = { 0 };
	uint32_t rule = 0;
	int rc;

	if (!name || !schema_name_fits(name))
		return buf_why(why, RC_UNSUPPORTED, "tools[%zu].function.name: no call can be written of that name", i);
	rc = calls_params(g, j, function, i, &rule, why);
	buf_printf(&text, "%s\">\n", name);
	w->word[w->n] = (struct grammar_word){ text.data, text.len, grammar_call(g, rule, w->next) };
	w->text[w->n++] = text;
	return rc;
}

static bool calls_wanted(const struct constraint_options *o, const json_t *function)
{
	const char *name = json_string_value(json_object_get(function, "name"));

	return o->calls != GEN_CALLS_NAMED || (name && o->function && strcmp(name, o->function) == 0);
}

/* What comes after "<DSML-invoke name=": the call of one of the tools, then next. */
static int calls_any(struct grammar *g, struct jrules *j, const struct constraint_options *o, uint32_t next,
		     uint32_t *ret_node, struct buf *why)
{
	size_t n = json_array_size(o->tools), i;
	struct calls_words w;
	int rc = 0;

	calls_words_init(&w, n, grammar_str(g, "\n</" DSML "invoke>\n", next));
	for (i = 0; i < n && rc == 0; i++) {
		json_t *function = calls_function(o->tools, i);

		if (calls_wanted(o, function))
			rc = calls_one(g, j, function, i, &w, why);
	}
	if (rc == 0 && w.n == 0 && o->calls == GEN_CALLS_NAMED)
		rc = buf_why(why, RC_INVALID, "tool_choice: no tool named \"%.80s\" is offered",
			     o->function ? o->function : "");
	else if (rc == 0 && w.n == 0)
		rc = buf_why(why, RC_INVALID, "tool_choice: no tools are offered");
	if (rc == 0)
		*ret_node = grammar_words(g, w.word, w.n);
	calls_words_fini(&w);
	return rc;
}

int calls_rule(struct grammar *g, struct jrules *j, const struct constraint_options *o, uint32_t *ret_rule,
	       struct buf *why)
{
	uint32_t rule = grammar_rule(g), again = grammar_hole(g), more, call = 0;
	uint32_t end = grammar_str(g, "</" DSML "tool_calls>", GRAMMAR_END);
	int rc;

	more = o->one_call ? end : grammar_either(g, again, end);
	rc = calls_any(g, j, o, more, &call, why);
	grammar_fill(g, again, grammar_str(g, "<" DSML "invoke name=\"", call));
	grammar_define(g, rule, grammar_str(g, CALLS_BEGIN "tool_calls>\n", again), false);
	*ret_rule = rule;
	return rc;
}
