/* SPDX-License-Identifier: MIT
 * probe_continuation.c - a page is made, then "to a file": the second turn must show the first.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_run.h"

#define CONTINUATION_TOKENS 2000
#define CONTINUATION_TOKENS_THINKING 4000

static json_t *continuation_body(struct probe_run *r, json_t *messages)
{
	bool thinking = probe_int(r, "thinking");

	return probe_body(messages, thinking, probe_int(r, "tools"),
			  thinking ? CONTINUATION_TOKENS_THINKING : CONTINUATION_TOKENS);
}

/* As the client would send it back. */
static json_t *continuation_turn(const struct probe_answer *a)
{
	json_t *turn = json_pack("{s:s, s:s}", "role", "assistant", "content", a->content);

	if (*a->reasoning)
		json_object_set_new(turn, "reasoning_content", json_string(a->reasoning));
	return turn;
}

/* The first turn and its answer, then the second; NULL: it could not be asked. */
static json_t *continuation_messages(struct probe_run *r)
{
	json_t *messages = json_array();
	struct probe_answer a;

	probe_say(messages, "user", "Create a tic-tac-toe HTML page.");
	if (!probe_ask(r, continuation_body(r, json_deep_copy(messages)), NULL, NULL, &a)) {
		json_decref(messages);
		return NULL;
	}
	json_array_append_new(messages, continuation_turn(&a));
	probe_say(messages, "user", "to a file");
	probe_figure(r, "first_turn_tokens", a.completion_tokens);
	probe_answer_fini(&a);
	return messages;
}

/* The reasoning alone will do, since an answer can be about the page without naming it; but there must be an answer.
 */
static void continuation_judge(struct probe_run *r, const struct probe_answer *a)
{
	unsigned where = probe_where(a, "tic-tac-toe", "tictactoe");
	struct buf said = { 0 };

	probe_figure(r, "in_content", (where & PROBE_IN_CONTENT) != 0);
	probe_figure(r, "in_calls", (where & PROBE_IN_CALLS) != 0);
	probe_figure(r, "in_reasoning", (where & PROBE_IN_REASONING) != 0);
	probe_print_answer(a, &said);
	if (where & PROBE_IN_CONTENT)
		probe_verdict(r, PROBE_PASS, "the second answer shows the first turn");
	else if (where & PROBE_IN_CALLS)
		probe_verdict(r, PROBE_PASS, "the second answer's tool call shows the first turn");
	else if (where && (*a->content || a->tool_calls))
		probe_verdict(r, PROBE_PASS, "the second turn's reasoning shows the first, its answer does not: %s",
			      buf_str(&said));
	else if (where)
		probe_verdict(r, PROBE_FAIL,
			      "the second turn's reasoning shows the first, but no answer came of it: %s",
			      buf_str(&said));
	else
		probe_verdict(r, PROBE_FAIL, "the first turn is forgotten, %s", buf_str(&said));
	buf_fini(&said);
}

void probe_continuation(struct probe_run *r)
{
	struct probe_answer a;
	json_t *messages;

	r->total = 2;
	messages = continuation_messages(r);
	if (!messages || !probe_ask(r, continuation_body(r, messages), NULL, NULL, &a))
		return;
	continuation_judge(r, &a);
	probe_answer_fini(&a);
}
