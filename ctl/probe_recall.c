/* SPDX-License-Identifier: MIT
 * probe_recall.c - does the model remember the conversation: recall and continuation.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe_run.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define RECALL_TOKENS 400
#define RECALL_TOKENS_THINKING 2000

static const char *const recall_facts[][2] = {
	{ "codeword", "poppy" },     { "project name", "mercury" }, { "password", "winter" },
	{ "favorite color", "coral" }, { "cat's name", "basil" },     { "room", "tundra" },
};

/* Filler: short turns whose answers any model could have given. */
static const char *const recall_filler[][2] = {
	{ "Hello", "Hello! How can I help you?" },
	{ "What is 7 + 1?", "7 + 1 = 8." },
	{ "What is the capital of Greece?", "The capital of Greece is Athens." },
	{ "Repeat the word heron.", "Heron." },
	{ "What is 2 + 5?", "2 + 5 = 7." },
	{ "What is the capital of Egypt?", "The capital of Egypt is Cairo." },
};

static bool recall_shows(const struct probe_answer *a, const char *word)
{
	return strcasestr(a->content, word) || strcasestr(a->reasoning, word);
}

/* The conversation up to the question about fact `ask`. */
static json_t *recall_messages(int facts, int turns, int ask)
{
	json_t *messages = json_array();
	struct buf text = { 0 };

	for (int i = 0; i < facts; i++) {
		buf_printf(&text, "Remember this: my %s is %s.", recall_facts[i][0], recall_facts[i][1]);
		probe_say(messages, "user", buf_str(&text));
		buf_clear(&text);
		buf_printf(&text, "Noted. The %s is %s.", recall_facts[i][0], recall_facts[i][1]);
		probe_say(messages, "assistant", buf_str(&text));
		buf_clear(&text);
	}
	for (int i = 0; i < turns; i++) {
		const char *const *f = recall_filler[(size_t)i % mem_countof(recall_filler)];

		probe_say(messages, "user", f[0]);
		probe_say(messages, "assistant", f[1]);
	}
	buf_printf(&text, "What is my %s?", recall_facts[ask][0]);
	probe_say(messages, "user", buf_str(&text));
	buf_fini(&text);
	return messages;
}

void probe_recall(struct probe_run *r)
{
	int facts = (int)probe_int(r, "facts"), turns = (int)probe_int(r, "turns"), found = 0, asked = 0;
	bool thinking = probe_int(r, "thinking"), tools = probe_int(r, "tools");
	struct probe_answer a;

	if (facts < 1 || facts > (int)mem_countof(recall_facts) || turns > 1000) {
		probe_verdict(r, PROBE_INCONCLUSIVE, "facts must be 1 to %d and turns at most 1000",
			      (int)mem_countof(recall_facts));
		return;
	}
	r->total = facts;
	for (int i = 0; i < facts; i++) {
		if (!probe_ask(r, probe_body(recall_messages(facts, turns, i), thinking, tools,
					     thinking ? RECALL_TOKENS_THINKING : RECALL_TOKENS), NULL, NULL, &a))
			continue;
		asked++;
		if (strcasestr(a.content, recall_facts[i][1]))
			found++;
		else
			probe_verdict(r, PROBE_FAIL, "asked for the %s (%s), the answer was \"%.120s\"", recall_facts[i][0],
				      recall_facts[i][1], a.content);
		probe_answer_fini(&a);
	}
	probe_figure(r, "asked", asked);
	probe_figure(r, "recalled", found);
	if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d facts recalled after %d turns", found, asked, turns);
}

void probe_continuation(struct probe_run *r)
{
	static const char first[] = "Create a tic-tac-toe HTML page.";
	bool thinking = probe_int(r, "thinking"), tools = probe_int(r, "tools");
	int limit = thinking ? 4000 : 2000;
	json_t *messages = json_array(), *turn;
	struct probe_answer a;

	r->total = 2;
	probe_say(messages, "user", first);
	if (!probe_ask(r, probe_body(json_deep_copy(messages), thinking, tools, limit), NULL, NULL, &a)) {
		json_decref(messages);
		return;
	}
	turn = json_pack("{s:s, s:s}", "role", "assistant", "content", a.content);
	if (*a.reasoning)
		json_object_set_new(turn, "reasoning_content", json_string(a.reasoning));
	json_array_append_new(messages, turn);
	probe_say(messages, "user", "to a file");
	probe_figure(r, "first_turn_tokens", a.completion_tokens);
	probe_answer_fini(&a);
	if (!probe_ask(r, probe_body(messages, thinking, tools, limit), NULL, NULL, &a))
		return;
	probe_figure(r, "in_content", strcasestr(a.content, "tic-tac-toe") != NULL);
	probe_figure(r, "in_reasoning", strcasestr(a.reasoning, "tic-tac-toe") != NULL);
	if (recall_shows(&a, "tic-tac-toe") || recall_shows(&a, "tictactoe"))
		probe_verdict(r, PROBE_PASS, "the second turn shows the first");
	else if (a.tool_calls) {
		char *calls = json_dumps(a.tool_calls, JSON_COMPACT);
		bool shown = calls && (strcasestr(calls, "tic-tac-toe") || strcasestr(calls, "tictactoe"));

		probe_verdict(r, shown ? PROBE_PASS : PROBE_FAIL, "the tool call %s the first turn", shown ? "shows" : "forgot");
		free(calls);
	} else
		probe_verdict(r, PROBE_FAIL, "the first turn is forgotten, the answer was \"%.120s\"", a.content);
	probe_answer_fini(&a);
}
