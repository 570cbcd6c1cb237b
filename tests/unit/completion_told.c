/* SPDX-License-Identifier: MIT
 * completion_told.c - tests of what each token of an answer is of, and where its text stands.
 * Threads: main. */
#include "engine/text/completion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DSML "*｜DSML｜"
#define MAX_TOKENS 40

/* Tokens as text; '*' begins an added one, '!' a special one. `told`: R, C or - for each; of C with its character. */
static const struct told_case {
	enum completion_mode mode;
	const char *token[MAX_TOKENS], *stop, *content, *reasoning, *told;
} cases[] = {
	{ COMPLETION_CHAT, { "Hi", " you" }, NULL, "Hi you", "", "C0 C2 " },
	{ COMPLETION_THINKING, { "why", "*</think>", "so", "." }, NULL, "so.", "why", "R - C0 C2 " },
	{ COMPLETION_THINKING, { "why", "*</think>", "a", "*<think>", "b", "*</think>", "c" }, NULL, "ac", "whyb",
	  "R - C0 - R - C1 " },
	/* All of a block of calls is markup, with the lines before it, which are held until then. */
	{ COMPLETION_CHAT, { "ok", "\n\n", "<", DSML, "tool", "_calls", ">\n", "<", DSML, "invoke", " name=\"f\">\n",
		"<", DSML,
		"parameter name=\"a\" string=\"true\">", "text", "</", DSML, "parameter>\n</", DSML, "invoke>\n</",
		DSML, "tool_calls>" }, NULL, "ok", "", "C0 - - - - - - - - - - - - - - - - - - - - - " },
	{ COMPLETION_CHAT, { "ok\n", "\n<", DSML, "tool_calls>\n", "</", DSML, "tool_calls>", "\n", "more" }, NULL,
	  "okmore", "", "C0 - - - - - - - C2 " },
	/* Lines and a bracket that turn out to be text. */
	{ COMPLETION_CHAT, { "a", "\n\n", "<", "b>" }, NULL, "a\n\n<b>", "", "C0 C1 C3 C4 " },
	/* A damaged tag is dropped, text around it kept. */
	{ COMPLETION_CHAT, { "a", "<", DSML, "nonsense>", "b" }, NULL, "ab", "", "C0 - - - C1 " },
	/* Control tokens are no text. */
	{ COMPLETION_CHAT, { "a", "*<｜User｜>", "b", "!<x>", "c" }, NULL, "abc", "", "C0 - C1 - C2 " },
	/* A character over tokens, and half of one before a marker. */
	{ COMPLETION_CHAT, { "\xe6", "\x97\xa5", "b" }, NULL, "日b", "", "C0 C0 C1 " },
	{ COMPLETION_THINKING, { "a\xe6", "*</think>", "\xe6\x97", "\xa5!" }, NULL, "日!", "a\xef\xbf\xbd",
	  "R - C0 C0 " },
	{ COMPLETION_CHAT, { "x", "\xe6\x97" }, NULL, "x\xef\xbf\xbd", "", "C0 C1 " },
	/* Of a stop string nothing is told, but of a token that has text before it. */
	{ COMPLETION_CHAT, { "日", "ab", "cd", "e" }, "bcde", "日a", "", "C0 C1 - - " },
	{ COMPLETION_CHAT, { "a", "b", "c", "x" }, "bcde", "abcx", "", "C0 C1 C2 C3 " },
	{ COMPLETION_CHAT, { "a", "b", "c" }, "bcde", "abc", "", "C0 C1 C2 " },
	/* Unparsed: what is no special token is text, also what looks like a marker. */
	{ COMPLETION_RAW, { "a", "!<｜Assistant｜>", "*</think>", "日", "\xe6\x97", "\xa5", "z" }, NULL, "a</think>日日z",
	  "", "C0 - C1 C9 C10 C10 C11 " },
	{ COMPLETION_RAW, { "a", "\xd2", "\xf5", "\xe6\x97", "b", "c" }, NULL, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
	  "bc", "", "C0 C1 C2 C3 C4 C5 " },
	{ COMPLETION_CHAT, { "a", "\xd2", "\xf5", "\xe6\x97", "b", "c" }, NULL, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
	  "bc", "", "C0 C1 C2 C3 C4 C5 " },
	{ COMPLETION_RAW, { "!<｜Assistant｜>", "ab", "c" }, "bc", "a", "", "- C0 - " },
};

struct seen {
	struct buf content, reasoning, told;
	size_t n;
};

static void see(void *arg, const struct completion_event *ev)
{
	struct seen *s = arg;

	if (ev->kind == COMPLETION_CONTENT)
		buf_add(&s->content, ev->text, ev->len);
	if (ev->kind == COMPLETION_REASONING)
		buf_add(&s->reasoning, ev->text, ev->len);
	if (ev->kind != COMPLETION_TOKEN)
		return;
	s->n++;
	if (ev->told == COMPLETION_TOLD_CONTENT)
		buf_printf(&s->told, "C%zu ", ev->character);
	else
		buf_adds(&s->told, ev->told == COMPLETION_TOLD_REASONING ? "R " : "- ");
}

static void play_case(const struct told_case *t, struct seen *s)
{
	struct completion_options o = { .mode = t->mode, .stop = &t->stop, .n_stop = t->stop != NULL, .tell = true,
					.emit = see, .arg = s };
	struct completion_verdict v;
	struct completion *c = NULL;
	size_t put = 0, text;

	assert_int_equal(completion_new(&o, &c, NULL), 0);
	for (bool enough = false; t->token[put] && !enough; put++) {
		const char *bytes = t->token[put];
		bool added = *bytes == '*' || *bytes == '!';

		text = s->content.len + s->reasoning.len;
		enough = completion_put(c, &(struct completion_token){ .bytes = bytes + added,
								       .len = strlen(bytes + added),
								       .added = added, .special = *bytes == '!' });
		/* Whatever text has come, the token that begins it is told. */
		assert_true(s->n > 0 || s->content.len + s->reasoning.len == text);
	}
	completion_end(c, COMPLETION_EOS, &v);
	assert_int_equal(s->n, put);
	completion_free(&c);
}

/* Markup reached clients as log-probabilities, and an answer's text was not where its tokens were said to be. */
static void each_token_is_told_once_as_what_its_text_became(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct seen s = { 0 };

		play_case(&cases[i], &s);
		if (strcmp(buf_str(&s.told), cases[i].told) != 0)
			fail_msg("case %zu: %s", i, buf_str(&s.told));
		assert_string_equal(buf_str(&s.content), cases[i].content);
		assert_string_equal(buf_str(&s.reasoning), cases[i].reasoning);
		buf_fini(&s.content);
		buf_fini(&s.reasoning);
		buf_fini(&s.told);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_token_is_told_once_as_what_its_text_became) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
