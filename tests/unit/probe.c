/* SPDX-License-Identifier: MIT
 * probe.c - the probes against scripted servers: a sound one passes, each fault is caught.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum server { SOUND, FORGETS, SAYS_CHINESE, LOOPS_WORD, LOOPS_LINE, LOOPS_SLOWLY, ANSWERS_WHILE_THINKING, IS_DOWN };

struct peer {
	enum server kind;
	int asked, max_tokens;
	size_t streamed;
};

static const char *last_user(json_t *body)
{
	json_t *m = json_object_get(body, "messages");

	return json_string_value(json_object_get(json_array_get(m, json_array_size(m) - 1), "content"));
}

/* What a sound model says: it finds "The/my X is Y." for the X asked for anywhere in the conversation. */
static void look_back(json_t *body, struct buf *out)
{
	const char *question = last_user(body), *of = strstr(question, "access code for the "), *is;
	json_t *messages = json_object_get(body, "messages"), *m;
	struct buf key = { 0 };
	size_t i;

	if (strstr(question, "to a file")) {
		buf_adds(out, "Save the tic-tac-toe page as a file.");
		return;
	}
	if (of)
		buf_printf(&key, "access code for the %.*s is ", (int)strcspn(strrchr(question, ' ') + 1, "?"),
			   strrchr(question, ' ') + 1);
	else if (!strncmp(question, "What is my ", 11))
		buf_printf(&key, "my %.*s is ", (int)strcspn(question + 11, "?"), question + 11);
	json_array_foreach(messages, i, m) {
		const char *text = json_string_value(json_object_get(m, "content"));

		is = key.len ? strstr(text, buf_str(&key)) : NULL;
		if (is)
			buf_printf(out, "It is %.*s.", (int)strcspn(is + key.len, "."), is + key.len);
	}
	if (!out->len)
		buf_adds(out, "<html><h1>tic-tac-toe</h1></html>");
	buf_fini(&key);
}

/* An article of about n bytes that never repeats a line. */
static void article(struct buf *out, size_t n)
{
	uint64_t x = 88172645463325252u;

	while (out->len < n) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buf_printf(out, "w%llx%s", (unsigned long long)(x % 100000), x % 11 ? " " : ".\n");
	}
}

static void write_article(enum server kind, struct buf *out)
{
	article(out, 9000);
	for (int i = 0; i < 40 && kind == LOOPS_WORD; i++)
		buf_adds(out, "again ");
	for (int i = 0; i < 40 && kind == LOOPS_LINE; i++)
		buf_printf(out, "\nThe same line.\nw%d\n", i);
	for (int i = 0; i < 4000 && kind == LOOPS_SLOWLY; i++)
		buf_printf(out, "The %s moved on to chapter %d%s", i % 2 ? "system" : "monitor", i % 7,
			   i % 5 ? " " : ".\n");
}

static void answer(struct peer *p, json_t *body, struct buf *out)
{
	if (strstr(last_user(body), "Write a long"))
		write_article(p->kind, out);
	else if (p->kind == FORGETS)
		buf_adds(out, "This is the very first message.");
	else if (p->kind == SAYS_CHINESE)
		for (int i = 0; i < 200; i++)
			buf_adds(out, i ? "\u6211" : "x"); /* cut after 80 or 120 bytes */
	else
		look_back(body, out);
}

static int chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why)
{
	struct peer *p = arg;
	struct buf out = { 0 };
	bool thinking = p->kind == ANSWERS_WHILE_THINKING;

	p->asked++;
	p->max_tokens = (int)json_integer_value(json_object_get(body, "max_tokens"));
	if (p->kind == IS_DOWN)
		return buf_why(why, RC_BUSY, "queue full");
	answer(p, body, &out);
	for (size_t i = 0; delta && i < out.len; i += 100) {
		p->streamed = i;
		if (delta(delta_arg, thinking, out.data + i, out.len - i < 100 ? out.len - i : 100))
			break;
	}
	*ret_reply = json_pack("{s:s, s:[{s:s, s:{s:s, s:s, s:s}}], s:{s:i, s:i}}", "id", "chatcmpl-1", "choices",
			       "finish_reason", "stop", "message", "role", "assistant", "content",
			       thinking ? "" : buf_str(&out), "reasoning_content", thinking ? buf_str(&out) : "",
			       "usage", "prompt_tokens", (int)strlen(last_user(body)) / 4, "completion_tokens", 2000);
	buf_fini(&out);
	return 0;
}

/* Metrics have those figures alone that probe.def names. */
static void expect_declared(const char *probe, const struct probe_result *r)
{
	const char *figure;
	json_t *v;
	bool many;

	json_object_foreach(r->figures, figure, v)
		if (!probe_figure_declared(probe, figure, &many))
			fail_msg("probe.def does not tell of figure %s of %s", figure, probe);
}

/* Runs a probe against a kind of server; checks the verdict. */
static void expect(const char *probe, enum server kind, enum probe_verdict verdict)
{
	struct peer p = { .kind = kind };
	struct probe_peer peer = { .chat = chat, .arg = &p, .context = 4096 };
	struct probe_result r;
	struct buf why = { 0 };

	assert_int_equal(probe_run(probe, NULL, &peer, &r, &why), 0);
	if (r.verdict != verdict)
		fail_msg("%s: %s instead of %s: %s", probe, probe_verdict_name(r.verdict), probe_verdict_name(verdict),
			 buf_str(&r.why));
	expect_declared(probe, &r);
	if (kind != IS_DOWN)
		assert_int_equal((int)json_array_size(r.requests), p.asked);
	probe_result_fini(&r);
	buf_fini(&why);
}

static void a_sound_server_passes(void **state)
{
	(void)state;
	expect("recall", SOUND, PROBE_PASS);
	expect("continuation", SOUND, PROBE_PASS);
	expect("needle", SOUND, PROBE_PASS);
	expect("longgen", SOUND, PROBE_PASS);
}

static void forgetting_is_a_failure(void **state)
{
	(void)state;
	expect("recall", FORGETS, PROBE_FAIL);
	expect("continuation", FORGETS, PROBE_FAIL);
	expect("needle", FORGETS, PROBE_FAIL);
	expect("longgen", FORGETS, PROBE_PASS); /* repetition is another question */
}

static void repetition_is_a_failure(void **state)
{
	(void)state;
	expect("longgen", LOOPS_WORD, PROBE_FAIL);
	expect("longgen", LOOPS_LINE, PROBE_FAIL);
	expect("longgen", LOOPS_SLOWLY, PROBE_FAIL);
	expect("recall", LOOPS_WORD, PROBE_PASS);
}

/* behaviours 136: an answer that stays in the reasoning is no answer. */
static void an_answer_left_in_the_reasoning_fails_recall(void **state)
{
	(void)state;
	expect("recall", ANSWERS_WHILE_THINKING, PROBE_FAIL);
}

/* What was quoted of the answer ended within a character, and the reply had no results. */
static void a_verdict_that_quotes_half_a_character_is_still_told(void **state)
{
	static const char *const probes[] = { "recall", "continuation", "needle" };

	(void)state;
	for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
		struct peer p = { .kind = SAYS_CHINESE };
		struct probe_peer peer = { .chat = chat, .arg = &p, .context = 4096 };
		struct probe_result r;
		json_t *told;

		assert_int_equal(probe_run(probes[i], NULL, &peer, &r, NULL), 0);
		assert_int_equal(r.verdict, PROBE_FAIL);
		told = probe_result_json(probes[i], &r, 1);
		assert_non_null(told);
		json_decref(told);
		probe_result_fini(&r);
	}
}

static void a_server_that_is_down_is_inconclusive(void **state)
{
	(void)state;
	expect("recall", IS_DOWN, PROBE_INCONCLUSIVE);
	expect("continuation", IS_DOWN, PROBE_INCONCLUSIVE);
	expect("needle", IS_DOWN, PROBE_INCONCLUSIVE);
	expect("longgen", IS_DOWN, PROBE_INCONCLUSIVE);
}

static void options_are_checked_by_name_and_type(void **state)
{
	json_t *o = json_object();
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(probe_option_set("nothing", "x", "1", o, &why), RC_NOT_FOUND);
	assert_int_equal(probe_option_set("recall", "depth", "1", o, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "probe recall has no option \"depth\"");
	assert_int_equal(probe_option_set("recall", "turns", "six", o, &why), RC_INVALID);
	assert_int_equal(probe_option_set("recall", "turns", "-1", o, &why), RC_INVALID);
	assert_int_equal(probe_option_set("recall", "tools", "2", o, &why), RC_INVALID);
	assert_int_equal(probe_option_set("needle", "sizes", "1,,x", o, &why), RC_INVALID);
	assert_int_equal(probe_option_set("needle", "sizes", "", o, &why), RC_INVALID);
	assert_int_equal(probe_option_set("needle", "sizes", "999999999", o, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "option sizes of probe needle: \"999999999\" is not 1 to 16 whole numbers "
					   "from 64 to 100000000 with commas between");
	assert_int_equal(probe_option_set("needle", "sizes", "100,200", o, &why), 0);
	assert_int_equal((int)json_array_size(json_object_get(o, "sizes")), 2);
	json_decref(o);
	buf_fini(&why);
}

/* They were verdicts, passing ones among them. */
static void a_value_that_no_probe_can_use_is_refused_with_its_bounds(void **state)
{
	static const char *const bad[][4] = {
		{ "needle", "sizes", "0", "from 64 to" },           { "needle", "depths", "10,101", "from 0 to 100 " },
		{ "longgen", "maxrun_fail", "0", "from 1 to" },     { "longgen", "gzip_fail", "2", "from 0 to 1" },
		{ "recall", "facts", "7", "from 1 to 6" },          { "recall", "facts", "0", "from 1 to 6" },
		{ "recall", "turns", "1001", "from 0 to 1000" },    { "abort", "drops", "65", "from 1 to 64" },
		{ "api", "patience", "0", "from 1 to 86400" },      { "longgen", "temperature", "nan", "from 0 to 2" },
	};
	json_t *o = json_object();

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf why = { 0 };

		assert_int_equal(probe_option_set(bad[i][0], bad[i][1], bad[i][2], o, &why), RC_INVALID);
		if (!strstr(buf_str(&why), bad[i][3]) || !strstr(buf_str(&why), bad[i][1]))
			fail_msg("%s %s: %s", bad[i][0], bad[i][1], buf_str(&why));
		buf_fini(&why);
	}
	assert_int_equal((int)json_object_size(o), 0);
	json_decref(o);
}

/* Tokens that longgen asks for with these options: one text per option, "name=value". */
static int asked_for(const char *const *given)
{
	struct peer p = { .kind = SOUND };
	struct probe_peer peer = { .chat = chat, .arg = &p, .context = 4096 };
	struct probe_result r;
	json_t *options = json_object();

	for (; *given; given++) {
		char *name = strdup(*given), *value = strchr(name, '=');

		*value++ = '\0';
		assert_int_equal(probe_option_set("longgen", name, value, options, NULL), 0);
		free(name);
	}
	assert_int_equal(probe_run("longgen", options, &peer, &r, NULL), 0);
	probe_result_fini(&r);
	json_decref(options);
	return p.max_tokens;
}
#define ASKED_FOR(...) asked_for((const char *const[]){ __VA_ARGS__, NULL })

/* As probe list tells it. */
static int told(const char *column)
{
	json_t *list = probe_list(), *p, *o;
	size_t i, k;
	int n = -1;

	json_array_foreach(list, i, p)
		json_array_foreach(json_object_get(p, "options"), k, o)
			if (!strcmp(json_string_value(json_object_get(p, "name")), "longgen") &&
			    !strcmp(json_string_value(json_object_get(o, "name")), "max_tokens"))
				n = atoi(json_string_value(json_object_get(o, column)));
	json_decref(list);
	return n;
}

static void quick_takes_the_place_of_defaults_and_of_nothing_else(void **state)
{
	int usual = told("default"), quick = told("quick");

	(void)state;
	assert_true(0 < quick && quick < usual);
	assert_int_equal(ASKED_FOR("seed=1"), usual);
	assert_int_equal(ASKED_FOR("quick=0"), usual);
	assert_int_equal(ASKED_FOR("quick=1"), quick);
	assert_int_equal(ASKED_FOR("quick=1", "max_tokens=77"), 77);
	assert_int_equal(ASKED_FOR("max_tokens=77", "quick=1"), 77);
	assert_int_equal(probe_option_set("longgen", "quick", "2", NULL, NULL), RC_INVALID);
}

/* The names that a list means, in one text. */
static void expect_names(json_t *said, const char *names)
{
	struct buf got = { 0 };
	json_t *list, *v;
	size_t i;

	assert_int_equal(probe_names(said, &list, NULL), 0);
	json_array_foreach(list, i, v)
		buf_printf(&got, "%s%s", i ? " " : "", json_string_value(v));
	assert_string_equal(buf_str(&got), names);
	buf_fini(&got);
	json_decref(list);
	json_decref(said);
}

static void all_is_every_probe_and_each_runs_once(void **state)
{
	json_t *unknown = json_pack("[s, s]", "recall", "no"), *list = probe_list(), *p, *none;
	struct buf every = { 0 }, why = { 0 };
	size_t i;

	(void)state;
	json_array_foreach(list, i, p)
		buf_printf(&every, "%s%s", i ? " " : "", json_string_value(json_object_get(p, "name")));
	expect_names(json_pack("[s]", "all"), buf_str(&every));
	expect_names(json_pack("[s, s]", "recall", "all"), buf_str(&every)); /* recall is the first row */
	expect_names(json_pack("[s, s, s]", "needle", "recall", "needle"), "needle recall");
	assert_int_equal(probe_names(unknown, &none, &why), RC_NOT_FOUND);
	assert_string_equal(buf_str(&why), "no probe named 'no'");
	assert_false(probe_exists(PROBE_ALL));
	json_decref(unknown);
	json_decref(list);
	buf_fini(&every);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_server_passes),
		cmocka_unit_test(forgetting_is_a_failure),
		cmocka_unit_test(repetition_is_a_failure),
		cmocka_unit_test(an_answer_left_in_the_reasoning_fails_recall),
		cmocka_unit_test(a_verdict_that_quotes_half_a_character_is_still_told),
		cmocka_unit_test(a_server_that_is_down_is_inconclusive),
		cmocka_unit_test(options_are_checked_by_name_and_type),
		cmocka_unit_test(a_value_that_no_probe_can_use_is_refused_with_its_bounds),
		cmocka_unit_test(quick_takes_the_place_of_defaults_and_of_nothing_else),
		cmocka_unit_test(all_is_every_probe_and_each_runs_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
