/* SPDX-License-Identifier: MIT
 * probe_longgen.c - the long article against scripted servers: which loop, in which phase, and what is none.
 * Threads: one. Locks: none. */
#include "ctl/probe/gzip_size.h"
#include "ctl/probe/probe.h"
#include "engine/base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* What a phase of the answer is made of. */
enum kind { NOTHING, SOUND, SOUND_LONG, SHORT, SENTENCE_LOOP, CHINESE_LOOP, MARKS_LOOP, WORD_SPAM, LINE_LOOP, SLOW_LOOP,
	    FAST_LOOP, LOOPED_ONCE, FEW_LINES };

struct peer {
	enum kind reasoning, content, arguments;
	json_int_t tokens;
	const char *finish, *detail;
	size_t piece;          /* bytes of a delta */
	size_t streamed;       /* bytes until the probe stopped it, or all */
	bool stopped;
};

/* About n bytes that never repeat a line; the words come from a vocabulary, as words do. */
static void prose(struct buf *out, size_t n)
{
	uint64_t x = 88172645463325252u + n;
	size_t from = out->len;

	while (out->len < from + n) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buf_printf(out, "w%llx%s", (unsigned long long)(x % 3000), x % 11 ? " " : ".\n");
	}
}

/* The same few topics in ever other order, with numbers that count: no word, line or passage comes twice in a row. */
static void topics(struct buf *out, size_t n)
{
	static const char *const topic[] = {
		"The batch monitor read one job after the other from its cards, and printed what came of it. ",
		"The time-sharing system gave every terminal a slice of the processor, one after the other. ",
		"The microkernel moved drivers and file systems out of the kernel into servers of their own. ",
	};
	size_t from = out->len;

	for (int i = 0; out->len < from + n; i++)
		buf_printf(out, "%s%s", topic[i % 3],
			   i % 7 ? "" : (i / 7 % 2 ? "So it was.\n\n" : "Then it changed.\n\n"));
}

static void make(enum kind kind, struct buf *out)
{
	if (kind == SENTENCE_LOOP || kind == CHINESE_LOOP || kind == MARKS_LOOP)
		for (int i = 0; i < 40; i++)
			buf_adds(out, kind == SENTENCE_LOOP ?
				 "The system was then moved to another machine by its users. " :
				 kind == CHINESE_LOOP ? "操作系统的历史很长，后来换了机器。" :
				 "( ) [ ] { } - - - ( ) { } [ ] - - ( ( ) ) ; ; ; { ");
	else if (kind != NOTHING && kind != LOOPED_ONCE)
		prose(out, kind == SHORT ? 900 : kind == SOUND_LONG ? 60000 : kind == SLOW_LOOP ? 3000 : 9000);
	for (int i = 0; i < 4000 && kind == WORD_SPAM; i++)
		buf_adds(out, "again ");
	for (int i = 0; i < 4000 && kind == LINE_LOOP; i++)
		buf_printf(out, "\nThe same line.\nw%d\n", i);
	for (int i = 0; i < 8 && kind == FEW_LINES; i++)
		buf_printf(out, "\nThe same line.\nw%d\n", i);
	if (kind == SLOW_LOOP || kind == LOOPED_ONCE)
		topics(out, kind == SLOW_LOOP ? 90000 : 14000);
	if (kind == LOOPED_ONCE)
		prose(out, 30000);
}

static void stream(struct peer *p, bool reasoning, struct buf *text, probe_delta_f *delta, void *arg)
{
	for (size_t i = 0, n; i < text->len && !p->stopped; i += n) {
		n = text->len - i < p->piece ? text->len - i : p->piece;
		p->stopped = delta(arg, reasoning, text->data + i, n);
		p->streamed += n;
	}
}

static int chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why)
{
	struct peer *p = arg;
	struct buf reasoning = { 0 }, content = { 0 }, arguments = { 0 };
	json_t *message, *calls = json_array();

	(void)why;
	assert_int_equal(json_integer_value(json_object_get(body, "max_tokens")), 8000);
	assert_true(json_number_value(json_object_get(body, "temperature")) == 0.6);
	make(p->reasoning, &reasoning);
	make(p->content, &content);
	make(p->arguments, &arguments);
	stream(p, true, &reasoning, delta, delta_arg);
	stream(p, false, &content, delta, delta_arg);
	if (arguments.len)
		json_array_append_new(calls, json_pack("{s:{s:s, s:s}}", "function", "name", "f", "arguments",
						       buf_str(&arguments)));
	message = json_pack("{s:s, s:s, s:s, s:o}", "role", "assistant", "content", buf_str(&content),
			    "reasoning_content", buf_str(&reasoning), "tool_calls", calls);
	*ret_reply = json_pack("{s:s, s:[{s:s, s:s, s:o}], s:{s:i, s:I}}", "id", "chatcmpl-1", "choices",
			       "finish_reason",
			       p->finish ? p->finish : "stop", "finish_detail", p->detail ? p->detail : "eos",
			       "message", message, "usage", "prompt_tokens", 20, "completion_tokens", p->tokens);
	buf_fini(&reasoning);
	buf_fini(&content);
	buf_fini(&arguments);
	return 0;
}

static void ask(struct peer *p, struct probe_result *ret_r)
{
	struct probe_peer peer = { .chat = chat, .arg = p, .context = 16384 };
	struct buf why = { 0 };

	p->tokens = p->tokens ? p->tokens : 8000;
	p->piece = p->piece ? p->piece : 7;
	assert_int_equal(probe_run("longgen", NULL, &peer, ret_r, &why), 0);
	buf_fini(&why);
}

/* Asks, and compares verdict and reason: `why` is how it begins. */
static void expect(struct peer p, enum probe_verdict verdict, const char *why)
{
	struct probe_result r;

	ask(&p, &r);
	if (r.verdict != verdict || strncmp(buf_str(&r.why), why, strlen(why)))
		fail_msg("%s (%s) instead of %s (%s)", probe_verdict_name(r.verdict), buf_str(&r.why),
			 probe_verdict_name(verdict), why);
	probe_result_fini(&r);
}

static void sound_text_passes(void **state)
{
	(void)state;
	expect((struct peer){ .content = SOUND }, PROBE_PASS, "8000 tokens without repetition");
	expect((struct peer){ .reasoning = SOUND, .content = SOUND_LONG }, PROBE_PASS, "8000 tokens");
	expect((struct peer){ .reasoning = SOUND_LONG, .content = SOUND }, PROBE_PASS, "8000 tokens");
}

static void a_short_text_is_inconclusive(void **state)
{
	(void)state;
	expect((struct peer){ .content = SOUND, .tokens = 1499 }, PROBE_INCONCLUSIVE, "only 1499 tokens");
	expect((struct peer){ .content = SOUND, .tokens = 1500 }, PROBE_PASS, "1500 tokens");
	expect((struct peer){ .reasoning = SOUND, .content = SHORT }, PROBE_INCONCLUSIVE, "9");
	/* It said so many "tokens without repetition" of them. */
	/* A loop is one, however short the text is. */
	expect((struct peer){ .content = WORD_SPAM, .tokens = 300 }, PROBE_FAIL, "content repeats itself: maxrun 12,");
}

static void each_loop_fails_in_the_phase_that_it_is_in(void **state)
{
	static const enum kind loop[] = { WORD_SPAM, LINE_LOOP, SLOW_LOOP };

	(void)state;
	for (size_t i = 0; i < mem_countof(loop); i++) {
		expect((struct peer){ .reasoning = SOUND, .content = loop[i] }, PROBE_FAIL, "content repeats itself");
		expect((struct peer){ .reasoning = loop[i], .content = SOUND }, PROBE_FAIL, "reasoning repeats itself");
		expect((struct peer){ .content = SOUND, .arguments = loop[i] }, PROBE_FAIL, "arguments repeats itself");
	}
}

/* A sentence without a newline has neither words nor lines in a row; the ratio was not looked at under 6,000 bytes. */
static void a_sentence_again_and_again_fails_in_a_short_run(void **state)
{
	static const enum kind loop[] = { SENTENCE_LOOP, CHINESE_LOOP, MARKS_LOOP };

	(void)state;
	for (size_t i = 0; i < mem_countof(loop); i++) {
		expect((struct peer){ .content = loop[i], .tokens = 600 }, PROBE_FAIL, "content repeats itself");
		expect((struct peer){ .reasoning = loop[i], .content = SOUND }, PROBE_FAIL, "reasoning repeats itself");
	}
}

/* 16 bytes with a usage of 2,000 tokens passed. */
static void a_usage_that_the_text_does_not_bear_out_is_inconclusive(void **state)
{
	(void)state;
	expect((struct peer){ .content = SHORT, .tokens = 2000 }, PROBE_INCONCLUSIVE,
	       "usage counts 2000 tokens, and 9");
	expect((struct peer){ .content = SOUND, .tokens = 2000000000 }, PROBE_INCONCLUSIVE,
	       "usage counts 2000000000 tokens");
	expect((struct peer){ .content = SOUND, .tokens = 99999999999 }, PROBE_INCONCLUSIVE,
	       "usage counts 99999999999 tokens");
	expect((struct peer){ .content = SOUND, .tokens = -5 }, PROBE_INCONCLUSIVE, "usage counts -5 tokens");
}

static void a_few_lines_are_a_warning(void **state)
{
	(void)state;
	expect((struct peer){ .content = FEW_LINES }, PROBE_WARN, "content repeats itself: maxrun 1, maxline 8,");
}

/* The loop of 7,999 of 8,000 tokens is not made good by a content that has none. */
static void reasoning_that_leaves_no_content_is_told(void **state)
{
	(void)state;
	expect((struct peer){ .reasoning = WORD_SPAM, .content = SHORT }, PROBE_FAIL, "reasoning repeats itself");
	expect((struct peer){ .reasoning = WORD_SPAM, .finish = "length" }, PROBE_FAIL, "reasoning repeats itself");
	expect((struct peer){ .reasoning = SOUND_LONG, .finish = "length" }, PROBE_INCONCLUSIVE,
	       "all 8000 tokens went to reasoning that does not repeat itself: there is no content to judge (length)");
}

/* The number of bytes at which the probe stopped the generation; 0: not at all. */
static size_t stopped_at(enum kind kind, size_t piece)
{
	struct peer p = { .content = kind, .piece = piece };
	struct probe_result r;

	ask(&p, &r);
	probe_result_fini(&r);
	return p.stopped ? p.streamed : 0;
}

static void it_stops_early_only_where_nothing_can_mend_it(void **state)
{
	size_t spam = stopped_at(WORD_SPAM, 1);
	struct buf once = { 0 };

	(void)state;
	/* The twelfth word is whole with the space after it. */
	assert_true(spam >= 9000 + 12 * 6 && spam < 9100 + 12 * 6);
	assert_true(stopped_at(LINE_LOOP, 1) < 9000 + 12 * 25 + 100);
	assert_true(stopped_at(SLOW_LOOP, 1) >= 16000 && stopped_at(SLOW_LOOP, 1) < 30000);
	assert_int_equal(stopped_at(FEW_LINES, 1), 0);
	assert_int_equal(stopped_at(SOUND_LONG, 1), 0);
	/* A loop of which the text got free again, though it is under the limit when that is first looked at. */
	make(LOOPED_ONCE, &once);
	assert_true((double)gzip_size(once.data, 16000) < 0.10 * 16000);
	buf_fini(&once);
	assert_int_equal(stopped_at(LOOPED_ONCE, 1), 0);
	expect((struct peer){ .content = LOOPED_ONCE }, PROBE_PASS, "8000 tokens");
}

static void however_the_stream_is_cut_the_figures_are_those_of_one_place(void **state)
{
	(void)state;
	/* Within the piece that has the place in it. */
	assert_true(stopped_at(SLOW_LOOP, 4096) / 4096 == (stopped_at(SLOW_LOOP, 1) + 4095) / 4096);
	assert_true(stopped_at(WORD_SPAM, 1000) / 1000 == (stopped_at(WORD_SPAM, 1) + 999) / 1000);
}

static void a_server_s_own_guard_is_a_failure(void **state)
{
	(void)state;
	expect((struct peer){ .content = SHORT, .tokens = 400, .finish = "length", .detail = "repetition" }, PROBE_FAIL,
	       "the server's repetition guard ended it after 400 tokens");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound_text_passes),
		cmocka_unit_test(a_short_text_is_inconclusive),
		cmocka_unit_test(each_loop_fails_in_the_phase_that_it_is_in),
		cmocka_unit_test(a_sentence_again_and_again_fails_in_a_short_run),
		cmocka_unit_test(a_usage_that_the_text_does_not_bear_out_is_inconclusive),
		cmocka_unit_test(a_few_lines_are_a_warning),
		cmocka_unit_test(reasoning_that_leaves_no_content_is_told),
		cmocka_unit_test(it_stops_early_only_where_nothing_can_mend_it),
		cmocka_unit_test(however_the_stream_is_cut_the_figures_are_those_of_one_place),
		cmocka_unit_test(a_server_s_own_guard_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
