/* SPDX-License-Identifier: MIT
 * thinking.c - whether the model reasons, how hard and for how long, in every way that clients say it.
 * Threads: any. Locks: none. */
#include "api/request/thinking.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdint.h>
#include <string.h>

static const struct {
	const char *word;
	bool thinking;
	enum gen_effort effort;
} thinking_efforts[] = {
	{ "none", false, GEN_EFFORT_DEFAULT }, { "minimal", true, GEN_EFFORT_HIGH },
	{ "low", true, GEN_EFFORT_HIGH },      { "medium", true, GEN_EFFORT_HIGH },
	{ "high", true, GEN_EFFORT_HIGH },     { "xhigh", true, GEN_EFFORT_MAX },
	{ "max", true, GEN_EFFORT_MAX },
};

/* What thinking.type may be; those that leave it to the model leave it as it is. */
static const struct {
	const char *word;
	bool sets, thinking;
} thinking_types[] = {
	{ "enabled", true, true }, { "disabled", true, false }, { "auto", false, true }, { "adaptive", false, true },
};

/* Where a budget may stand: in an object, or in the body. */
static const struct {
	const char *object, *name;
} thinking_budgets[] = {
	{ NULL, "thinking_budget" },
	{ NULL, "thinking_token_budget" },
	{ NULL, "thinking_budget_tokens" },
	{ "reasoning", "max_tokens" },
	{ "chat_template_kwargs", "thinking_budget" },
	{ "thinking", "budget_tokens" },
};

int thinking_effort(const struct field_at *at, const char *name, struct generation_spec *spec, struct error *err)
{
	const char *word = NULL;
	int rc = field_string(at, name, &word, err);

	if (rc || !word)
		return rc;
	for (size_t i = 0; i < mem_countof(thinking_efforts); i++)
		if (!strcmp(word, thinking_efforts[i].word)) {
			spec->thinking = thinking_efforts[i].thinking;
			spec->effort = thinking_efforts[i].effort;
			return 0;
		}
	return field_refuse(at, name, err, RC_INVALID,
		"\"%.32s\" is none of none, minimal, low, medium, high, xhigh, max", word);
}

int thinking_budget(const struct field_at *at, const char *name, struct generation_spec *spec, struct error *err)
{
	json_int_t n = -2;
	int rc = field_int(at, name, -1, INT32_MAX, &n, err);

	if (rc || n == -2)
		return rc;
	spec->max_reasoning = n > 0 ? (int)n : 0;
	spec->thinking &= n != 0;
	return 0;
}

static int thinking_budgets_parse(const struct field_at *b, struct generation_spec *spec, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < mem_countof(thinking_budgets) && !rc; i++) {
		struct field_at at = *b;

		if (thinking_budgets[i].object)
			rc = field_object(b, thinking_budgets[i].object, &at, err);
		if (!rc && at.object)
			rc = thinking_budget(&at, thinking_budgets[i].name, spec, err);
	}
	return rc;
}

static int thinking_reasoning(const struct field_at *b, struct generation_spec *spec, struct error *err)
{
	struct field_at o;
	bool exclude = false;
	int rc = field_object(b, "reasoning", &o, err);

	if (rc || !o.object)
		return rc;
	if ((rc = thinking_effort(&o, "effort", spec, err)) ||
	    (rc = field_bool(&o, "enabled", &spec->thinking, err)) || (rc = field_bool(&o, "exclude", &exclude, err)))
		return rc;
	return exclude ? field_refuse(&o, "exclude", err, RC_UNSUPPORTED, "reasoning is always told") : 0;
}

static int thinking_kwargs(const struct field_at *b, struct generation_spec *spec, struct error *err)
{
	struct field_at o;
	int rc = field_object(b, "chat_template_kwargs", &o, err);

	if (rc || !o.object || (rc = thinking_effort(&o, "reasoning_effort", spec, err)) ||
	    (rc = field_bool(&o, "enable_thinking", &spec->thinking, err)))
		return rc;
	return field_bool(&o, "thinking", &spec->thinking, err);
}

static int thinking_type(const struct field_at *b, struct generation_spec *spec, struct error *err)
{
	const char *type = NULL;
	struct field_at o;
	int rc = field_object(b, "thinking", &o, err);

	if (rc || !o.object || (rc = field_string(&o, "type", &type, err)) ||
	    (!type && field_any(&o, "budget_tokens")))
		return rc;
	for (size_t i = 0; type && i < mem_countof(thinking_types); i++)
		if (!strcmp(type, thinking_types[i].word)) {
			if (thinking_types[i].sets)
				spec->thinking = thinking_types[i].thinking;
			return 0;
		}
	return field_refuse(&o, "type", err, RC_INVALID,
		"expected \"enabled\", \"disabled\", \"auto\" or \"adaptive\"");
}

int thinking_parse(const struct field_at *b, struct generation_spec *spec, struct error *err)
{
	int rc;

	if ((rc = thinking_effort(b, "reasoning_effort", spec, err)) ||
	    (rc = thinking_reasoning(b, spec, err)) ||
	    (rc = field_bool(b, "enable_thinking", &spec->thinking, err)) ||
	    (rc = thinking_kwargs(b, spec, err)) || (rc = thinking_type(b, spec, err)))
		return rc;
	return thinking_budgets_parse(b, spec, err);
}
