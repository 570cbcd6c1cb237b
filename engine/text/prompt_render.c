/* SPDX-License-Identifier: MIT
 * prompt_render.c - turns to prompt text, byte for byte as the official encoder (doc/format.md 4.4).
 * Threads: any. Locks: none. */
#include "engine/base/rc.h"
#include "engine/text/prompt_priv.h"
#include "engine/text/pyjson.h"

#include <string.h>

/* The format's own texts: what the model was trained on, to the byte. */
static const char prompt_effort_max[] =
	"Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
	"You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve "
	"the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and "
	"adversarial scenarios.\n"
	"Explicitly write out your entire deliberation process, documenting every intermediate step, "
	"considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";

static const char prompt_tools_before[] =
	"\n\n## Tools\n\n"
	"You have access to a set of tools to help answer the user's question. You can invoke tools by "
	"writing a \"<｜DSML｜tool_calls>\" block like the following:\n\n"
	"<｜DSML｜tool_calls>\n"
	"<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
	"<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
	"...\n"
	"</｜DSML｜invoke>\n"
	"<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
	"...\n"
	"</｜DSML｜invoke>\n"
	"</｜DSML｜tool_calls>\n\n"
	"String parameters should be specified as is and set `string=\"true\"`. For all other types "
	"(numbers, booleans, arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
	"If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside "
	"<think>...</think> BEFORE any tool calls or final response.\n\n"
	"Otherwise, output directly after </think> with tool calls or final response.\n\n"
	"### Available Tool Schemas\n\n";

static const char prompt_tools_after[] =
	"\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
	"calls.\n";

static const char prompt_response_format[] =
	"\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

/* Rendering, and where it is. */
struct prompt_writer {
	struct prompt *p;
	const struct prompt_turns *t;
	bool thinking, drop;
	struct buf *why;
};

static int prompt_json(struct prompt_writer *w, const json_t *v, int message, const char *field)
{
	struct buf text = { 0 };
	int rc = pyjson_dump(v, &text);

	prompt_add_text(w->p, buf_str(&text), text.len);
	buf_fini(&text);
	if (rc && message < 0)
		return buf_why(w->why, rc, "%s: nested deeper than %d", field, PYJSON_MAX_DEPTH);
	if (rc)
		return buf_why(w->why, rc, "messages[%d].%s: nested deeper than %d", message, field,
			PYJSON_MAX_DEPTH);
	return 0;
}

/* Parts are joined by blank lines. */
static void prompt_content(struct prompt_writer *w, const json_t *content)
{
	size_t i;

	if (json_is_string(content))
		prompt_add_string(w->p, content);
	for (i = 0; i < json_array_size(content); i++) {
		const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
		const char *type = json_string_value(json_object_get(part, "type"));

		if (i)
			prompt_add_format(w->p, "\n\n");
		if (strcmp(type, "text") == 0) {
			if (json_is_string(text))
				prompt_add_string(w->p, text);
		} else {
			prompt_add_format(w->p, "[Unsupported ");
			prompt_add_text(w->p, type, strlen(type));
			prompt_add_format(w->p, "]");
		}
	}
}

static int prompt_tools(struct prompt_writer *w, const struct prompt_turn *turn)
{
	size_t i;
	int rc = 0;

	if (!turn->tools)
		return 0;
	prompt_add_format(w->p, prompt_tools_before);
	for (i = 0; i < json_array_size(turn->tools) && rc == 0; i++) {
		const json_t *tool = json_array_get(turn->tools, i);

		if (i)
			prompt_add_format(w->p, "\n");
		rc = prompt_json(w, json_object_get(tool, "function"), turn->message, "tools");
	}
	prompt_add_format(w->p, prompt_tools_after);
	return rc;
}

static int prompt_instructions(struct prompt_writer *w, const struct prompt_turn *turn)
{
	int rc;

	if (turn->role == PROMPT_DEVELOPER)
		prompt_add_marker(w->p, PROMPT_M_USER);
	prompt_content(w, turn->content);
	rc = prompt_tools(w, turn);
	if (rc == 0 && turn->response_format) {
		prompt_add_format(w->p, prompt_response_format);
		rc = prompt_json(w, turn->response_format, turn->message, "response_format");
	}
	return rc;
}

static void prompt_user(struct prompt_writer *w, const struct prompt_turn *turn)
{
	const struct prompt_block *b = w->t->block + turn->first_block;
	int i;

	prompt_add_marker(w->p, PROMPT_M_USER);
	for (i = 0; i < turn->n_blocks; i++) {
		if (i)
			prompt_add_format(w->p, "\n\n");
		if (b[i].result)
			prompt_add_format(w->p, "<tool_result>");
		prompt_content(w, b[i].content);
		if (b[i].result)
			prompt_add_format(w->p, "</tool_result>");
	}
}

static int prompt_parameter(struct prompt_writer *w, int message, const char *name, const json_t *value)
{
	bool string = pyjson_is_string(value);
	int rc = 0;

	prompt_add_format(w->p, "<｜DSML｜parameter name=\"");
	prompt_add_text(w->p, name, strlen(name));
	prompt_add_format(w->p, string ? "\" string=\"true\">" : "\" string=\"false\">");
	if (string)
		prompt_add_string(w->p, value);
	else
		rc = prompt_json(w, value, message, "tool_calls");
	prompt_add_format(w->p, "</｜DSML｜parameter>");
	return rc;
}

/* The call's arguments as an object. Text that is no JSON is wrapped in one, as officially, and so is what is no object
 * or too deep: a model said it once, and the conversation has to go on. */
static json_t *prompt_arguments(const json_t *given)
{
	const char *text = json_string_value(given);
	size_t len = json_string_length(given);
	json_t *args = NULL;

	if (json_is_object(given))
		return json_incref((json_t *)(uintptr_t)given);
	if (pyjson_load(text, len, &args, NULL))
		args = NULL;
	if (!json_is_object(args)) {
		json_decref(args);
		args = json_object();
		json_object_set_new(args, "arguments", json_stringn(text, len));
	}
	return args;
}

static int prompt_call(struct prompt_writer *w, int message, const json_t *call)
{
	const json_t *function = json_object_get(call, "function");
	json_t *args = prompt_arguments(json_object_get(function, "arguments")), *value;
	const char *key, *sep = "";
	int rc = 0;

	prompt_add_format(w->p, "<｜DSML｜invoke name=\"");
	prompt_add_string(w->p, json_object_get(function, "name"));
	prompt_add_format(w->p, "\">\n");
	json_object_foreach(args, key, value) {
		prompt_add_format(w->p, sep);
		rc = prompt_parameter(w, message, key, value);
		if (rc)
			break;
		sep = "\n";
	}
	prompt_add_format(w->p, "\n</｜DSML｜invoke>\n");
	json_decref(args);
	return rc;
}

static int prompt_assistant(struct prompt_writer *w, const struct prompt_turn *turn)
{
	int index = (int)(turn - w->t->turn), rc = 0;
	bool after_task = index > 0 && turn[-1].has_task;
	size_t i;

	if (w->thinking && !after_task && (!w->drop || index > w->t->last_user)) {
		if (turn->reasoning)
			prompt_add_string(w->p, turn->reasoning);
		prompt_add_marker(w->p, PROMPT_M_UNTHINK);
	}
	prompt_content(w, turn->content);
	if (turn->tool_calls)
		prompt_add_format(w->p, "\n\n<｜DSML｜tool_calls>\n");
	for (i = 0; i < json_array_size(turn->tool_calls) && rc == 0; i++)
		rc = prompt_call(w, turn->message, json_array_get(turn->tool_calls, i));
	if (turn->tool_calls)
		prompt_add_format(w->p, "</｜DSML｜tool_calls>");
	if (!turn->no_end)
		prompt_add_marker(w->p, PROMPT_M_END);
	return rc;
}

/* Between a turn and the assistant's next: whose turn it is, and whether it thinks. */
static void prompt_transition(struct prompt_writer *w, const struct prompt_turn *turn)
{
	int index = (int)(turn - w->t->turn);
	bool asks = turn->role == PROMPT_USER || turn->role == PROMPT_DEVELOPER;
	bool thinks = w->thinking && (turn->has_task || !w->drop || index >= w->t->last_user);

	if (index + 1 < w->t->n && turn[1].role != PROMPT_ASSISTANT && turn[1].role != PROMPT_REMINDER)
		return;
	if (turn->has_task ? turn->task == PROMPT_M_ACTION : asks) {
		prompt_add_marker(w->p, PROMPT_M_ASSISTANT);
		prompt_add_marker(w->p, thinks ? PROMPT_M_THINK : PROMPT_M_UNTHINK);
	}
	if (turn->has_task)
		prompt_add_marker(w->p, turn->task);
}

static int prompt_turn(struct prompt_writer *w, const struct prompt_turn *turn)
{
	int rc = 0;

	switch (turn->role) {
	case PROMPT_SYSTEM:
	case PROMPT_DEVELOPER:
		rc = prompt_instructions(w, turn);
		break;
	case PROMPT_USER:
		prompt_user(w, turn);
		break;
	case PROMPT_REMINDER:
		prompt_add_marker(w->p, PROMPT_M_REMINDER);
		prompt_content(w, turn->content);
		break;
	case PROMPT_ASSISTANT:
	default:
		rc = prompt_assistant(w, turn);
		break;
	}
	prompt_transition(w, turn);
	return rc;
}

int prompt_render_turns(struct prompt *p, struct prompt_turns *t, const struct prompt_options *o,
	struct buf *why)
{
	struct prompt_writer w = { .p = p, .t = t, .thinking = o->thinking, .why = why };
	int i, rc = 0;

	w.drop = o->drop_thinking == PROMPT_DROP_ALWAYS;
	if (o->drop_thinking == PROMPT_DROP_AUTO)
		w.drop = !t->any_tools;
	if (w.thinking && w.drop)
		prompt_turns_drop(t);
	prompt_add_marker(p, PROMPT_M_BEGIN);
	if (w.thinking && o->effort == GEN_EFFORT_MAX)
		prompt_add_format(p, prompt_effort_max);
	for (i = 0; i < t->n && rc == 0; i++) {
		rc = prompt_turn(&w, &t->turn[i]);
		if (rc == 0 && prompt_size(p) > PROMPT_MAX_BYTES)
			rc = buf_why(why, RC_TOO_LARGE, "messages: rendered, more than %zu bytes",
				PROMPT_MAX_BYTES);
	}
	return rc;
}
