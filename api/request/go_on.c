/* SPDX-License-Identifier: MIT
 * go_on.c - a conversation whose last message is the assistant's: the answer goes on with it.
 * Threads: any, one at a time per request. Locks: none. */
#include "api/request/go_on.h"
#include "api/request/field.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <string.h>

/* The last message when it is the assistant's; NULL. */
static json_t *go_on_last(const json_t *messages)
{
	json_t *m = json_array_get(messages, json_array_size(messages) - 1);
	const char *role = json_string_value(json_object_get(m, "role"));

	return role && !strcmp(role, "assistant") ? m : NULL;
}

static bool go_on_has(const json_t *m, const char *key)
{
	json_t *v = json_object_get(m, key);

	return json_string_length(v) > 0 || json_array_size(v) > 0;
}

static bool go_on_reasoned(const json_t *m)
{
	return go_on_has(m, "reasoning_content") || go_on_has(m, "reasoning");
}

static int go_on_refuse(const json_t *messages, const char *key, struct error *err, const char *text)
{
	struct field_at at = { NULL, "" };

	snprintf(at.path, sizeof at.path, "messages[%zu].", json_array_size(messages) - 1);
	return field_refuse(&at, key, err, RC_INVALID, "%s", text);
}

/* The model's encoder begins an answer after what a user, a tool or a developer says, and a reminder after that; after
 * a system's words it does not, and the model would go on with those. */
static int go_on_asked(const json_t *messages, struct error *err)
{
	size_t n = json_array_size(messages);
	const char *role = "";

	while (n > 0 && (role = json_string_value(json_object_get(json_array_get(messages, n - 1), "role"))) &&
	       !strcmp(role, "latest_reminder"))
		n--;
	if (!role || (n && strcmp(role, "system") && strcmp(role, "assistant")))
		return 0;
	return go_on_refuse(messages, "role", err,
		"nothing is asked: the last message, but for reminders, must be a user's, a tool's or a developer's, "
		"or the "
		"assistant's to be gone on with; put a system's in front");
}

int go_on_prepare(json_t *messages, const struct generation_spec *spec, struct error *err)
{
	bool forced = spec->format != GEN_FORMAT_TEXT || spec->calls == GEN_CALLS_REQUIRED ||
		spec->calls == GEN_CALLS_NAMED;
	json_t *m, *own;

	while (json_array_size(messages) > 1 && (m = go_on_last(messages)) && !go_on_has(m, "content") &&
		!go_on_reasoned(m) && !go_on_has(m, "tool_calls"))
		must_zero(json_array_remove(messages, json_array_size(messages) - 1));
	m = go_on_last(messages);
	if (!m)
		return go_on_asked(messages, err);
	if (go_on_has(m, "tool_calls"))
		return go_on_refuse(messages, "tool_calls", err, "the last calls have no results");
	if (!go_on_has(m, "content") && !go_on_reasoned(m))
		return go_on_refuse(messages, "content", err,
				    "empty, and nothing stands before it: there is nothing to answer");
	if (forced && go_on_has(m, "content"))
		return go_on_refuse(messages, "content", err,
			"the answer would go on with this text, which a format or a forced call does not allow");
	own = json_copy(m); /* the body's stays as it is */
	must(own);
	must_zero(json_object_set_new(own, "wo_eos", json_true()));
	must_zero(json_array_set_new(messages, json_array_size(messages) - 1, own));
	return 0;
}
