/* SPDX-License-Identifier: MIT
 * probe_api_tools.c - does the server make native tool calls of what the model writes, whole and streamed.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_api.h"
#include "engine/base/must.h"

#include <stdio.h>
#include <string.h>

#define TOOLS_FUNCTION "get_weather" /* of probe_body()'s tools */

static void tools_judge(struct api *a, json_t *answer, json_t *call)
{
	json_t *function = json_object_get(call, "function"), *arguments;
	const char *text = probe_api_text(function, "arguments");

	if (!*probe_api_text(call, "id") || strcmp(probe_api_text(call, "type"), "function"))
		probe_api_found(a, PROBE_FAIL, "the call has no id or is of no type function");
	if (strcmp(probe_api_text(function, "name"), TOOLS_FUNCTION))
		probe_api_found(a, PROBE_FAIL, "\"%.40s\" is called, which was not offered",
				probe_api_text(function, "name"));
	if (strcmp(probe_api_finish(answer), "tool_calls"))
		probe_api_found(a, PROBE_FAIL, "finish_reason is \"%.40s\", not tool_calls", probe_api_finish(answer));
	if (!json_is_string(json_object_get(function, "arguments"))) {
		probe_api_found(a, PROBE_FAIL, "the arguments are no string");
		return;
	}
	arguments = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(arguments))
		probe_api_found(a, PROBE_FAIL, "the arguments are no JSON object: \"%.60s\"", text);
	else if (!json_is_string(json_object_get(arguments, "city")))
		probe_api_found(a, PROBE_FAIL, "the arguments lack the required city: \"%.60s\"", text);
	json_decref(arguments);
}

static json_t *tools_body(struct api *a, const char *choice)
{
	json_t *body = probe_api_body(a, "What is the weather in Berlin? Use the tool.", false, true);

	must_zero(json_object_set_new(body, "tool_choice", json_string(choice)));
	return body;
}

/* The first call of an answer, judged; false when there is none. */
static bool tools_look(struct api *a, json_t *answer)
{
	json_t *message = probe_api_message(answer);
	json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
	const char *mark = probe_api_markup(probe_api_text(message, "content"));

	if (call)
		tools_judge(a, answer, call);
	if (mark)
		probe_api_found(a, PROBE_FAIL, "markup of a call stands inside the content: \"%s\"", mark);
	return call != NULL;
}

/* What made it call before must make it call again. */
static void tools_streamed(struct api *a, const char *choice)
{
	struct probe_stream s;

	if (probe_api_stream(a, tools_body(a, choice), &s)) {
		json_t *answer = probe_stream_reply(&s);

		if (!tools_look(a, answer) && a->ok)
			probe_api_found(a, PROBE_FAIL, "the call is lost in the stream");
		json_decref(answer);
	}
	probe_stream_fini(&s);
}

void probe_api_tools(struct api *a)
{
	/* A model may answer by itself; then it must call because it is told to. */
	static const char *const choices[] = { "auto", "required" };
	bool called = false;

	for (int i = 0; i < 2 && !called && a->ok; i++) {
		json_t *answer = probe_api_whole(a, tools_body(a, choices[i]));

		called = answer && tools_look(a, answer);
		probe_figure(a->run, "called_by_itself", called && i == 0);
		if (called && a->ok)
			tools_streamed(a, choices[i]);
		else if (answer && a->ok && i == 1)
			probe_api_found(a, PROBE_FAIL, "none came, though tool_choice is \"%s\"", choices[i]);
		json_decref(answer);
	}
}
