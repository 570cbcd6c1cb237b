/* SPDX-License-Identifier: MIT
 * prompt_turns.c - checks messages and groups them into turns, tool results in the order of their calls.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/text/prompt_priv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct prompt_role_name {
	const char *name;
	enum prompt_role role;
	bool result;
} prompt_roles[] = {
	{ "system", PROMPT_SYSTEM, false },
	{ "developer", PROMPT_DEVELOPER, false },
	{ "user", PROMPT_USER, false },
	{ "assistant", PROMPT_ASSISTANT, false },
	{ "tool", PROMPT_USER, true },
	{ "latest_reminder", PROMPT_REMINDER, false },
};

/* What one call of prompt_turns_read works with. */
struct prompt_reader {
	struct prompt_turns *t;
	int message;    /* index of the one being read */
	json_t *orders; /* call id to its place, of the last assistant message that had calls */
	struct buf *why;
};

/* What is wrong with the message at hand: the text goes on from "messages[3]". */
__attribute__((format(printf, 2, 3)))
static int prompt_bad(struct prompt_reader *r, const char *fmt, ...)
{
	va_list ap;

	buf_why(r->why, 0, "messages[%d]", r->message);
	va_start(ap, fmt);
	if (r->why)
		buf_vprintf(r->why, fmt, ap);
	va_end(ap);
	return RC_INVALID;
}

/* NULL for null too. */
static const json_t *prompt_get(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

/* As Python sees it: empty things are false. */
static bool prompt_truthy(const json_t *v)
{
	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_OBJECT:
		return json_object_size(v) > 0;
	case JSON_ARRAY:
		return json_array_size(v) > 0;
	case JSON_STRING:
		return json_string_length(v) > 0;
	case JSON_INTEGER:
		return json_integer_value(v) != 0;
	case JSON_REAL:
		return json_real_value(v) < 0 || json_real_value(v) > 0;
	case JSON_TRUE:
		return true;
	case JSON_FALSE:
	case JSON_NULL:
	default:
		return false;
	}
}

static int prompt_check_part(struct prompt_reader *r, const json_t *part, bool result, size_t i)
{
	const json_t *type = prompt_get(part, "type"), *text = prompt_get(part, "text");

	if (!json_is_object(part) || !json_is_string(type))
		return prompt_bad(r, ".content[%zu].type: must be a string", i);
	if (strcmp(json_string_value(type), "text") != 0) {
		if (result)
			return 0; /* a tool's picture is mentioned, not shown */
		return prompt_bad(r, ".content[%zu].type: only \"text\" is supported, not \"%.40s\"", i,
			json_string_value(type));
	}
	if (text && !json_is_string(text))
		return prompt_bad(r, ".content[%zu].text: must be a string", i);
	return 0;
}

static int prompt_check_content(struct prompt_reader *r, const json_t *v, bool result)
{
	size_t i;
	int rc = 0;

	if (!v || json_is_string(v))
		return 0;
	if (!json_is_array(v))
		return prompt_bad(r, ".content: must be a string or an array of parts");
	if (json_array_size(v) > PROMPT_MAX_PARTS)
		return prompt_bad(r, ".content: %zu parts, at most %d are allowed", json_array_size(v),
			PROMPT_MAX_PARTS);
	for (i = 0; i < json_array_size(v) && rc == 0; i++)
		rc = prompt_check_part(r, json_array_get(v, i), result, i);
	return rc;
}

static bool prompt_is_name(const json_t *v)
{
	return json_is_string(v) && json_string_length(v) > 0;
}

static bool prompt_is_function(const json_t *type)
{
	return !type || (json_is_string(type) && strcmp(json_string_value(type), "function") == 0);
}

static int prompt_check_tools(const json_t *tools, const char *path, struct buf *why)
{
	size_t i;

	if (!json_is_array(tools))
		return buf_why(why, RC_INVALID, "%s: must be an array", path);
	if (json_array_size(tools) > PROMPT_MAX_TOOLS)
		return buf_why(why, RC_INVALID, "%s: %zu tools, at most %d are allowed", path,
			json_array_size(tools), PROMPT_MAX_TOOLS);
	for (i = 0; i < json_array_size(tools); i++) {
		const json_t *tool = json_array_get(tools, i), *function = prompt_get(tool, "function");

		if (!prompt_is_function(prompt_get(tool, "type")))
			return buf_why(why, RC_INVALID, "%s[%zu].type: must be \"function\"", path, i);
		if (!json_is_object(function))
			return buf_why(why, RC_INVALID, "%s[%zu].function: must be an object", path, i);
		if (!prompt_is_name(prompt_get(function, "name")))
			return buf_why(why, RC_INVALID, "%s[%zu].function.name: must be a non-empty string",
				path, i);
	}
	return 0;
}

static int prompt_check_call(struct prompt_reader *r, const json_t *call, size_t i)
{
	const json_t *function = prompt_get(call, "function"), *id = prompt_get(call, "id"), *args;

	if (!json_is_object(call))
		return prompt_bad(r, ".tool_calls[%zu]: must be an object", i);
	if (!prompt_is_function(prompt_get(call, "type")))
		return prompt_bad(r, ".tool_calls[%zu].type: must be \"function\"", i);
	if (id && !json_is_string(id))
		return prompt_bad(r, ".tool_calls[%zu].id: must be a string", i);
	if (!prompt_is_name(prompt_get(function, "name")))
		return prompt_bad(r, ".tool_calls[%zu].function.name: must be a non-empty string", i);
	args = prompt_get(function, "arguments");
	if (!json_is_string(args) && !json_is_object(args))
		return prompt_bad(r, ".tool_calls[%zu].function.arguments: must be a string of JSON", i);
	return 0;
}

/* Also notes the order of the calls, by which their results will be sorted. */
static int prompt_read_calls(struct prompt_reader *r, struct prompt_turn *turn, const json_t *calls)
{
	size_t i;
	int rc;

	if (!json_is_array(calls))
		return prompt_bad(r, ".tool_calls: must be an array");
	if (json_array_size(calls) > PROMPT_MAX_CALLS)
		return prompt_bad(r, ".tool_calls: %zu calls, at most %d are allowed", json_array_size(calls),
			PROMPT_MAX_CALLS);
	turn->tool_calls = json_array_size(calls) ? calls : NULL;
	if (turn->tool_calls)
		json_object_clear(r->orders);
	for (i = 0; i < json_array_size(calls); i++) {
		const json_t *call = json_array_get(calls, i), *id = prompt_get(call, "id");

		rc = prompt_check_call(r, call, i);
		if (rc)
			return rc;
		if (prompt_truthy(id))
			json_object_set_new(r->orders, json_string_value(id), json_integer((json_int_t)i));
	}
	return 0;
}

static int prompt_read_task(struct prompt_reader *r, const json_t *msg, struct prompt_turn *turn)
{
	const json_t *task = prompt_get(msg, "task");

	turn->has_task = task != NULL;
	turn->task = json_is_string(task) ? prompt_task(json_string_value(task)) : PROMPT_NO_MARKER;
	if (task && turn->task == PROMPT_NO_MARKER)
		return prompt_bad(r,
			".task: must be one of action, query, authority, domain, title, read_url");
	return 0;
}

/* What the roles other than user and tool have. */
static int prompt_read_extras(struct prompt_reader *r, const json_t *msg, struct prompt_turn *turn)
{
	const json_t *tools = prompt_get(msg, "tools"), *calls = prompt_get(msg, "tool_calls"), *format;
	const json_t *reasoning = prompt_get(msg, "reasoning_content");
	char path[48];
	int rc = 0;

	if (!reasoning)
		reasoning = prompt_get(msg, "reasoning");
	if (reasoning && !json_is_string(reasoning))
		return prompt_bad(r, ".reasoning_content: must be a string");
	turn->reasoning = reasoning;
	turn->content = prompt_get(msg, "content");
	turn->no_end = prompt_truthy(prompt_get(msg, "wo_eos"));
	format = prompt_get(msg, "response_format");
	turn->response_format = prompt_truthy(format) ? format : NULL;
	if (turn->role == PROMPT_DEVELOPER && !prompt_truthy(turn->content))
		return prompt_bad(r, ".content: must not be empty");
	if (turn->role == PROMPT_REMINDER && !turn->content)
		return prompt_bad(r, ".content: must be a string");
	if (tools) {
		snprintf(path, sizeof path, "messages[%d].tools", turn->message);
		rc = prompt_check_tools(tools, path, r->why);
		turn->tools = prompt_truthy(tools) ? tools : NULL;
	}
	if (rc == 0 && calls && turn->role == PROMPT_ASSISTANT)
		rc = prompt_read_calls(r, turn, calls);
	return rc;
}

static int prompt_read_block(struct prompt_reader *r, const json_t *msg, bool result)
{
	struct prompt_block b = { .result = result, .content = prompt_get(msg, "content") };
	const json_t *id = prompt_get(msg, "tool_call_id");

	if (id && !json_is_string(id))
		return prompt_bad(r, ".tool_call_id: must be a string");
	if (!result && !b.content)
		return prompt_bad(r, ".content: must be a string or an array of parts");
	if (id)
		b.order = (int)json_integer_value(json_object_get(r->orders, json_string_value(id)));
	b.index = r->t->n_blocks;
	r->t->block[r->t->n_blocks++] = b;
	return 0;
}

static const struct prompt_role_name *prompt_role(const char *name)
{
	size_t i;

	for (i = 0; name && i < mem_countof(prompt_roles); i++)
		if (strcmp(prompt_roles[i].name, name) == 0)
			return &prompt_roles[i];
	return NULL;
}

/* Users' and tools' messages in a row are one turn, but a user's text after a task begins anew. What is
 * joined loses its own task, as officially. */
static void prompt_add_turn(struct prompt_turns *t, struct prompt_turn *turn, bool result)
{
	struct prompt_turn *last = t->n ? &t->turn[t->n - 1] : NULL;

	if (turn->role == PROMPT_USER) {
		if (last && last->role == PROMPT_USER && (result || !last->has_task)) {
			last->n_blocks++;
			return;
		}
		turn->has_task = turn->has_task && !result;
	}
	t->any_tools |= turn->tools != NULL;
	t->turn[t->n++] = *turn;
}

static int prompt_read_message(struct prompt_reader *r, const json_t *msg)
{
	const struct prompt_role_name *role = prompt_role(json_string_value(prompt_get(msg, "role")));
	struct prompt_turn turn = { .message = r->message, .first_block = r->t->n_blocks, .n_blocks = 1 };
	int rc;

	if (!json_is_object(msg))
		return prompt_bad(r, ": must be an object");
	if (!role)
		return prompt_bad(r,
			".role: must be system, developer, user, assistant, tool or latest_reminder");
	turn.role = role->role;
	rc = prompt_check_content(r, prompt_get(msg, "content"), role->result);
	if (rc == 0)
		rc = prompt_read_task(r, msg, &turn);
	if (rc == 0 && role->role == PROMPT_USER)
		rc = prompt_read_block(r, msg, role->result);
	else if (rc == 0)
		rc = prompt_read_extras(r, msg, &turn);
	if (rc == 0)
		prompt_add_turn(r->t, &turn, role->result);
	return rc;
}

/* The request's tools belong to the system message in front. */
static int prompt_place_tools(struct prompt_turns *t, const json_t *tools, struct buf *why)
{
	int rc = prompt_check_tools(tools, "tools", why);

	if (rc || json_array_size(tools) == 0)
		return rc;
	if (t->turn[0].role != PROMPT_SYSTEM) {
		memmove(t->turn + 1, t->turn, (size_t)t->n * sizeof *t->turn);
		t->turn[0] = (struct prompt_turn){ .role = PROMPT_SYSTEM, .message = -1 };
		t->n++;
	}
	if (t->turn[0].tools)
		return buf_why(why, RC_INVALID, "messages[0].tools: must not be given together with tools");
	t->turn[0].tools = tools;
	t->any_tools = true;
	return 0;
}

static int prompt_block_compare(const void *a, const void *b)
{
	const struct prompt_block *x = a, *y = b;

	return x->order != y->order ? (x->order > y->order) - (x->order < y->order) :
		(x->index > y->index) - (x->index < y->index);
}

/* Sorts the results by their calls; the users' texts between them stay where they are. */
static void prompt_sort_results(struct prompt_turns *t, const struct prompt_turn *turn)
{
	struct prompt_block *b = t->block + turn->first_block;
	struct prompt_block *sorted = mem_grow(NULL, (size_t)turn->n_blocks, sizeof *sorted);
	int n = 0, i, k = 0;

	for (i = 0; i < turn->n_blocks; i++)
		if (b[i].result)
			sorted[n++] = b[i];
	qsort(sorted, (size_t)n, sizeof *sorted, prompt_block_compare);
	for (i = 0; i < turn->n_blocks; i++)
		if (b[i].result)
			b[i] = sorted[k++];
	free(sorted);
}

int prompt_turns_read(json_t *messages, json_t *tools, struct prompt_turns *ret_t, struct buf *why)
{
	struct prompt_reader r = { .t = ret_t, .why = why };
	size_t n = json_array_size(messages);
	int i, rc = 0;

	if (!json_is_array(messages) || n == 0)
		return buf_why(why, RC_INVALID, "messages: must be a non-empty array");
	if (n > PROMPT_MAX_MESSAGES)
		return buf_why(why, RC_INVALID, "messages: %zu messages, at most %d are allowed", n,
			PROMPT_MAX_MESSAGES);
	ret_t->turn = mem_grow(NULL, n + 1, sizeof *ret_t->turn);
	ret_t->block = mem_grow(NULL, n, sizeof *ret_t->block);
	r.orders = json_object();
	for (; r.message < (int)n && rc == 0; r.message++)
		rc = prompt_read_message(&r, json_array_get(messages, (size_t)r.message));
	json_decref(r.orders);
	if (rc == 0 && tools && !json_is_null(tools))
		rc = prompt_place_tools(ret_t, tools, why);
	if (rc)
		return rc;
	ret_t->last_user = -1;
	for (i = 0; i < ret_t->n; i++) {
		enum prompt_role role = ret_t->turn[i].role;

		if (role == PROMPT_USER)
			prompt_sort_results(ret_t, &ret_t->turn[i]);
		if (role == PROMPT_USER || role == PROMPT_DEVELOPER)
			ret_t->last_user = i;
	}
	return 0;
}

void prompt_turns_drop(struct prompt_turns *t)
{
	int i, n = 0, last = t->last_user;

	for (i = 0; i < t->n; i++) {
		if (t->turn[i].role == PROMPT_DEVELOPER && i < last) {
			t->last_user--;
			continue;
		}
		t->turn[n++] = t->turn[i];
	}
	t->n = n;
}

void prompt_turns_fini(struct prompt_turns *t)
{
	free(t->turn);
	free(t->block);
	*t = (struct prompt_turns){ 0 };
}
