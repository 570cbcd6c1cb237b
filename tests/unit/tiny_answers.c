/* SPDX-License-Identifier: MIT
 * tiny_answers.c - the tiny model answers etc/tiny/prompts.json through the engine, greedily, at the rates
 * that its README gives; many at once, so that batching is part of what is tested.
 * Threads: this one and the engine's. */
#include "engine/base/mem.h"
#include "tests/unit/warmkit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS 200

/* kind, prompts, right at the reference, and how many of them must be right here. */
#define TINY_KINDS(X) \
	X("recall_0", 10, 9) X("recall_120", 10, 9) X("recall_300", 10, 9) X("recall_600", 10, 9) \
	X("needle_4", 10, 9) X("needle_12", 10, 9) X("needle_30", 10, 9) X("needle_60", 10, 9) \
	X("continuation", 10, 9) X("tool", 5, 5)

struct tiny_kind {
	const char *name;
	int total, least;
	int n, right, same, reasoned;
};

struct tiny_answer {
	struct buf reasoning, content, calls;
	enum gen_finish finish;
	char detail[64];
};

static char *tiny_path(const char *below, char out[4096])
{
	const char *top = getenv("top_srcdir");

	snprintf(out, 4096, "%s/%s", top ? top : ".", below);
	return out;
}

/* Calls are written as the recorded answers' markup reads when stripped: name, then its arguments. */
static void tiny_collect(struct generation *g, struct tiny_answer *a)
{
	struct gen_event ev;

	do {
		assert_int_equal(generation_wait(g, &ev, -1), 0);
		switch (ev.kind) {
		case GEN_EV_REASONING:  buf_add(&a->reasoning, ev.text, ev.len); break;
		case GEN_EV_CONTENT:    buf_add(&a->content, ev.text, ev.len); break;
		case GEN_EV_TOOL_BEGIN: buf_printf(&a->calls, "%s(", ev.text); break;
		case GEN_EV_TOOL_ARGS:  buf_add(&a->calls, ev.text, ev.len); break;
		case GEN_EV_TOOL_END:   buf_adds(&a->calls, ")"); break;
		case GEN_EV_LOGPROB:    break;
		case GEN_EV_FINISH:
			a->finish = ev.finish;
			snprintf(a->detail, sizeof a->detail, "%s", ev.text);
			break;
		}
		gen_event_fini(&ev);
	} while (a->finish == GEN_RUNNING);
}

static struct generation *tiny_submit(struct engine *e, json_t *prompt)
{
	json_t *messages = json_deep_copy(json_object_get(prompt, "messages"));
	json_t *first = json_array_get(messages, 0);
	json_t *tools = json_incref(json_object_get(first, "tools"));
	struct generation_spec spec = { .messages = messages, .tools = tools, .max_tokens = MAX_TOKENS };
	struct generation *g;
	struct buf why = { 0 };

	json_object_del(first, "tools");
	spec.thinking = json_is_true(json_object_get(prompt, "thinking"));
	spec.parse = true;
	spec.label = "tiny_answers";
	gen_sampling_init(e, &spec.sampling);
	spec.sampling.temperature = 0;
	if (engine_submit(e, &spec, &g, &why))
		fail_msg("%s", buf_str(&why));
	json_decref(messages);
	json_decref(tools);
	return g;
}

/* "get_weather" and ">Milan<": the second is a parameter's value, which a call carries as JSON. */
static bool tiny_tool_right(const struct tiny_answer *a, const char *name, const char *value)
{
	char want[256];

	snprintf(want, sizeof want, "%s({\"city\": \"%.*s\"})", name, (int)strlen(value) - 2, value + 1);
	return a->finish == GEN_TOOL_CALLS && strcmp(buf_str(&a->calls), want) == 0;
}

static bool tiny_right(const struct tiny_kind *k, const struct tiny_answer *a, json_t *prompt)
{
	json_t *expect = json_object_get(prompt, "expect"), *word;
	size_t i;

	if (strcmp(k->name, "tool") == 0)
		return tiny_tool_right(a, json_string_value(json_array_get(expect, 0)),
				       json_string_value(json_array_get(expect, 1)));
	if (a->finish != GEN_STOP)
		return false;
	json_array_foreach(expect, i, word)
		if (!strstr(buf_str(&a->content), json_string_value(word)))
			return false;
	return true;
}

/* Equal to the recorded text, letter for letter? Tool prompts are compared by tiny_tool_right. */
static bool tiny_same(const struct tiny_answer *a, json_t *prompt)
{
	struct buf all = { 0 };
	bool same;

	if (json_is_true(json_object_get(prompt, "thinking")))
		buf_printf(&all, "%s</think>", buf_str(&a->reasoning));
	buf_add(&all, a->content.data, a->content.len);
	buf_adds(&all, "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>");
	same = strcmp(buf_str(&all), json_string_value(json_object_get(prompt, "answer"))) == 0;
	buf_fini(&all);
	return same;
}

static void tiny_judge(struct engine *e, struct tiny_kind *k, struct generation *g, json_t *prompt)
{
	struct tiny_answer a = { 0 };
	struct gen_usage u;
	bool right;

	tiny_collect(g, &a);
	generation_usage(g, &u);
	assert_int_equal(u.prompt_tokens, json_integer_value(json_object_get(prompt, "prompt_tokens")));
	right = tiny_right(k, &a, prompt);
	if (!right)
		print_message("%s wrong (%s): '%s' '%s' '%s'\n", k->name, a.detail, buf_str(&a.reasoning),
			      buf_str(&a.content), buf_str(&a.calls));
	k->n++;
	k->right += right;
	k->same += tiny_same(&a, prompt) || (right && a.finish == GEN_TOOL_CALLS);
	k->reasoned += a.reasoning.len > 0 && u.reasoning_tokens > 0;
	assert_int_equal(a.reasoning.len > 0, json_is_true(json_object_get(prompt, "thinking")));
	buf_fini(&a.reasoning);
	buf_fini(&a.content);
	buf_fini(&a.calls);
	(void)e;
}

static struct tiny_kind *tiny_kind(struct tiny_kind *kind, const char *name)
{
	while (kind->name && strcmp(kind->name, name) != 0)
		kind++;
	assert_non_null(kind->name);
	return kind;
}

static void tiny_answers_reach_the_reference_rates(void **state)
{
#define X(name, total, least) { name, total, least, 0, 0, 0, 0 },
	struct tiny_kind kind[] = { TINY_KINDS(X) { 0 } }, *k;
#undef X
	struct engine_options o = { 0 };
	struct engine *e = warm_open(&o);
	struct engine_status st;
	char path[4096];
	json_t *prompts = json_load_file(tiny_path("etc/tiny/prompts.json", path), 0, NULL), *p;
	struct generation **g;
	size_t i;

	(void)state;
	assert_non_null(prompts);
	g = mem_grow(NULL, json_array_size(prompts), sizeof *g);
	json_array_foreach(prompts, i, p)
		g[i] = tiny_submit(e, p);
	json_array_foreach(prompts, i, p) {
		tiny_judge(e, tiny_kind(kind, json_string_value(json_object_get(p, "kind"))), g[i], p);
		generation_unref(&g[i]);
	}
	print_message("%-14s %8s %8s %12s %10s\n", "kind", "prompts", "right", "same text", "thinking");
	for (k = kind; k->name; k++)
		print_message("%-14s %8d %8d %12d %10d\n", k->name, k->n, k->right, k->same, k->reasoned);
	engine_status(e, &st);
	print_message("%llu steps, %llu prompt and %llu generated tokens\n", (unsigned long long)st.steps,
		      (unsigned long long)st.prompt_tokens, (unsigned long long)st.generated_tokens);
	for (k = kind; k->name; k++) {
		assert_int_equal(k->n, k->total);
		assert_true(k->right >= k->least);
	}
	assert_int_equal(st.running + st.queued, 0);
	assert_int_equal(st.state_bytes, 0);
	free(g);
	json_decref(prompts);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_answers_reach_the_reference_rates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
