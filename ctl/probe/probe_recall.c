/* SPDX-License-Identifier: MIT
 * probe_recall.c - facts told in the first turns, asked for after others.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_run.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#define RECALL_TOKENS 400
#define RECALL_TOKENS_THINKING 2000

static const char *const recall_facts[][2] = {
	{ "codeword", "poppy" },       { "project name", "mercury" }, { "password", "winter" },
	{ "favorite color", "coral" }, { "cat's name", "basil" },     { "room", "tundra" },
};

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
	probe_small_talk(messages, turns);
	buf_printf(&text, "What is my %s?", recall_facts[ask][0]);
	probe_say(messages, "user", buf_str(&text));
	buf_fini(&text);
	return messages;
}

/* What came of all questions. */
struct recall {
	struct probe_run *run;
	int asked, recalled, content, calls, reasoning;
};

/* The answer is judged by what the one who asked is given: content, or a call where tools were sent. What was only
 * thought was never said. */
static void recall_judge(struct recall *c, int fact, const struct probe_answer *a)
{
	const char *name = recall_facts[fact][0], *value = recall_facts[fact][1];
	unsigned where = probe_where(a, value, NULL);
	struct buf said = { 0 };

	c->asked++;
	c->content += (where & PROBE_IN_CONTENT) != 0;
	c->calls += (where & PROBE_IN_CALLS) != 0;
	c->reasoning += (where & PROBE_IN_REASONING) != 0;
	c->recalled += (where & (PROBE_IN_CONTENT | PROBE_IN_CALLS)) != 0;
	probe_print_answer(a, &said);
	if (where == PROBE_IN_REASONING)
		probe_verdict(c->run, PROBE_FAIL,
			      "asked for the %s (%s), the reasoning has it and the answer has not: %s", name, value,
			      buf_str(&said));
	else if (!where)
		probe_verdict(c->run, PROBE_FAIL, "asked for the %s (%s), %s", name, value, buf_str(&said));
	buf_fini(&said);
}

static void recall_report(const struct recall *c, int turns)
{
	struct probe_run *r = c->run;

	probe_figure(r, "asked", c->asked);
	probe_figure(r, "recalled", c->recalled);
	probe_figure(r, "recalled_content", c->content);
	probe_figure(r, "recalled_calls", c->calls);
	probe_figure(r, "recalled_reasoning", c->reasoning);
	if (r->result->verdict == PROBE_PASS && c->content < c->recalled)
		probe_verdict(r, PROBE_PASS, "%d of %d facts recalled after %d turns, %d of them only in a tool call",
			      c->recalled, c->asked, turns, c->recalled - c->content);
	else if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d facts recalled after %d turns", c->recalled, c->asked, turns);
}

void probe_recall(struct probe_run *r)
{
	int facts = (int)probe_int(r, "facts"), turns = (int)probe_int(r, "turns");
	bool thinking = probe_int(r, "thinking"), tools = probe_int(r, "tools");
	struct recall c = { .run = r };
	struct probe_answer a;

	must(facts >= 1 && facts <= (int)mem_countof(recall_facts)); /* the bounds of probe.def */
	r->total = facts;
	for (int i = 0; i < facts; i++) {
		if (!probe_ask(r,
			       probe_body(recall_messages(facts, turns, i), thinking, tools,
					  thinking ? RECALL_TOKENS_THINKING : RECALL_TOKENS),
			       NULL, NULL, &a))
			continue;
		recall_judge(&c, i, &a);
		probe_answer_fini(&a);
	}
	recall_report(&c, turns);
}
