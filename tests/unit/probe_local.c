/* SPDX-License-Identifier: MIT
 * probe_local.c - abort, warmcold, numerics, and where recall, continuation and needle look, against scripted
 * servers: a sound one passes, each fault is caught and named. Threads: one. Locks: none. */
#include "ctl/probe/probe.h"
#include "engine/base/rc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define THOUGHT "The user wants me to create a tic-tac-toe HTML page."

/* A server whose answer to the same prompt is the same, but for its faults. */
struct server {
	/* Faults and habits. */
	bool forgets_once, forgets_for_good; /* the conversation, after a drop: in the next answer, or ever after */
	bool forgets_always, thoughtless, silent_cache, no_cache, refuses_logprobs;
	bool warm_text, warm_logprob; /* another text, another log-probability when the prompt was there before */
	const char *content, *reasoning, *call; /* instead of what a sound one would say */
	/* What replay says. */
	int replays, differing, skips;
	bool nothing_reused, replay_fails, looks_in;
	/* What compare says: the same parameters, then exact ones. */
	double same, exact;
	int64_t bits;
	bool is_exact, nan;
	/* State. */
	json_t *seen;   /* {prompt: true} */
	json_t *broken; /* {nonce: true}: conversations of which an answer was dropped */
	bool dropped;
	int asked, compared;
};

/* The text of a message, counted from the last. */
static const char *message(json_t *body, size_t from_end)
{
	json_t *m = json_object_get(body, "messages");

	return json_string_value(json_object_get(json_array_get(m, json_array_size(m) - 1 - from_end), "content"));
}

/* What a conversation begins with, which is no other's. */
static const char *nonce(json_t *body)
{
	return json_string_value(json_object_get(json_array_get(json_object_get(body, "messages"), 0), "content"));
}

/* Was it asked before? */
static bool warm(struct server *s, json_t *body)
{
	char *key = json_dumps(json_object_get(body, "messages"), JSON_COMPACT);
	bool was = json_object_get(s->seen, key) != NULL;

	json_object_set_new(s->seen, key, json_true());
	free(key);
	return was;
}

static bool forgotten(struct server *s, json_t *body)
{
	bool now = s->forgets_always || (s->forgets_once && s->dropped) ||
		   (s->forgets_for_good && json_object_get(s->broken, nonce(body)));

	s->dropped = false;
	return now;
}

/* Whatever it is asked for, all that it was told: who remembers has it in the answer. */
static const char *say(struct server *s, json_t *body, bool was_warm)
{
	if (s->content)
		return s->content;
	if (strstr(message(body, 0), "to a file"))
		return "<h1>tic-tac-toe</h1>";
	return s->warm_text && was_warm ? "It is gone." : "poppy, mercury, basil, coral, lark, marble";
}

static json_t *logprobs(struct server *s, bool was_warm)
{
	return json_pack("{s:[{s:s, s:f}, {s:s, s:f}]}", "content", "token", "a", "logprob", -0.25, "token", "b",
			 "logprob", s->warm_logprob && was_warm ? -0.5001 : -0.5);
}

static json_t *reply(struct server *s, json_t *body, const char *content, const char *thought, bool was_warm)
{
	json_t *o, *said = json_pack("{s:s, s:s, s:s}", "role", "assistant", "content", content, "reasoning_content",
				     thought);
	json_t *usage =
		json_pack("{s:i, s:i}", "prompt_tokens", (int)strlen(message(body, 0)) / 4, "completion_tokens", 20);
	char id[32];

	snprintf(id, sizeof id, "r%d", s->asked);
	if (s->call)
		json_object_set_new(
			said, "tool_calls",
			json_pack("[{s:{s:s, s:s}}]", "function", "name", "write_file", "arguments", s->call));
	if (!s->silent_cache)
		json_object_set_new(usage, "prompt_tokens_details",
				    json_pack("{s:i}", "cached_tokens", was_warm && !s->no_cache ? 256 : 0));
	o = json_pack("{s:s, s:[{s:s, s:o}], s:o}", "id", id, "choices", "finish_reason",
		      *content ? "stop" : "length", "message", said, "usage", usage);
	if (json_is_true(json_object_get(body, "logprobs")))
		json_object_set_new(json_array_get(json_object_get(o, "choices"), 0), "logprobs",
				    logprobs(s, was_warm));
	return o;
}

/* False: whoever listens has dropped it. */
static bool think(struct server *s, json_t *body, const char *thought, probe_delta_f *delta, void *arg)
{
	size_t len = strlen(thought), piece = 4;

	for (size_t i = 0; delta && i < len; i += piece) {
		if (!delta(arg, true, thought + i, len - i < piece ? len - i : piece))
			continue;
		s->dropped = true;
		json_object_set_new(s->broken, nonce(body), json_true());
		return false;
	}
	return true;
}

static int chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why)
{
	struct server *s = arg;
	bool thinking =
		!strcmp(json_string_value(json_object_get(json_object_get(body, "thinking"), "type")), "enabled");
	const char *thought = s->reasoning ? s->reasoning : thinking && !s->thoughtless ? THOUGHT : "";
	bool was_warm, forgets = strstr(message(body, 0), "to a file") && forgotten(s, body);

	s->asked++;
	if (s->refuses_logprobs && json_object_get(body, "logprobs"))
		return buf_why(why, RC_INVALID, "logprobs: not here");
	was_warm = warm(s, body);
	if (forgets)
		*ret_reply = reply(s, body, "Hello!", "The user begins.", was_warm);
	else
		*ret_reply = reply(s, body, think(s, body, thought, delta, delta_arg) ? say(s, body, was_warm) : "",
				   thought, was_warm);
	return 0;
}

/* ---- looks into itself ---- */

/* Requests are "r1", "r2", ... in order of their asking. */
static int replay(void *arg, struct probe_replay *r, struct buf *why)
{
	struct server *s = arg;
	int n = r->want ? atoi(r->want + 1) : s->asked - r->nth;

	if (s->replay_fails)
		return buf_why(why, RC_KERNEL, "moe_experts: failed");
	if (n < 1)
		return buf_why(why, RC_NOT_FOUND, "none");
	s->replays++;
	snprintf(r->id, sizeof r->id, "r%d", n);
	r->first = -1;
	if (s->skips-- > 0) {
		buf_adds(&r->skipped, "too long");
		return 0;
	}
	snprintf(r->again, sizeof r->again, "again%d", n);
	r->prompt_tokens = 300;
	r->output_tokens = 20;
	r->reused = s->nothing_reused ? 0 : 256;
	r->differing = s->differing;
	r->first = s->differing ? 307 : -1;
	return 0;
}

static json_t *compared(double relative, int64_t bits, bool exact, bool nan)
{
	return json_pack("{s:{s:o, s:f, s:f, s:f, s:I, s:i}, s:o, s:i, s:b, s:[{s:f, s:I}, {s:f, s:I}]}", "logits",
			 "relative", nan ? json_null() : json_real(relative), "cosine", 1 - relative, "kl", relative,
			 "same_best", 1.0, "differing", (json_int_t)bits, "nonfinite", nan ? 3 : 0,
			 "first_difference", relative > 0.2 ? json_pack("{s:i}", "token", 5) : json_null(),
			 "failures", 0, "exact", exact, "layers", "relative", relative / 2, "differing",
			 (json_int_t)0, "relative", relative, "differing", (json_int_t)0);
}

static int compare(void *arg, const struct probe_compare *c, json_t **ret_reply, struct buf *why)
{
	struct server *s = arg;

	(void)why;
	assert_true(strlen(c->prompt) > (size_t)c->prompt_tokens);
	s->compared++;
	*ret_reply = c->same_numerics ? compared(s->same, s->bits, s->is_exact, s->nan)
				      : compared(s->exact, 1000, s->is_exact, false);
	return 0;
}

/* ---- expectations ---- */

/* Metrics have those figures alone that probe.def names. */
static void expect_declared(const char *probe, const struct probe_result *r)
{
	const char *figure;
	json_t *v;
	bool many;

	json_object_foreach(r->figures, figure, v) if (!probe_figure_declared(probe, figure, &many))
		fail_msg("probe.def does not tell of figure %s of %s", figure, probe);
}

/* Runs a probe against a server as given; its verdict, and `text` in its sentence. The result, to be looked at. */
static struct probe_result expect(const char *probe, json_t *options, struct server *s, enum probe_verdict verdict,
				  const char *text)
{
	struct probe_peer peer = { .chat = chat, .arg = s, .context = 8192 };
	struct probe_result r;
	struct buf why = { 0 };

	if (s->looks_in) {
		peer.replay = replay;
		peer.compare = compare;
	}
	s->seen = json_object();
	s->broken = json_object();
	assert_int_equal(probe_run(probe, options, &peer, &r, &why), 0);
	if (r.verdict != verdict || !strstr(buf_str(&r.why), text))
		fail_msg("%s: %s instead of %s, \"%s\" instead of \"%s\"", probe, probe_verdict_name(r.verdict),
			 probe_verdict_name(verdict), buf_str(&r.why), text);
	expect_declared(probe, &r);
	buf_fini(&why);
	json_decref(s->seen);
	json_decref(s->broken);
	json_decref(options);
	return r;
}

static void judge(const char *probe, struct server s, enum probe_verdict verdict, const char *text)
{
	struct probe_result r = expect(probe, NULL, &s, verdict, text);

	probe_result_fini(&r);
}

static double figure(const struct probe_result *r, const char *name)
{
	json_t *v = json_object_get(r->figures, name);

	if (!v)
		fail_msg("no figure %s", name);
	return json_number_value(v);
}

static bool made(const struct probe_result *r, const char *id)
{
	json_t *v;
	size_t i;

	json_array_foreach(r->requests, i, v) if (!strcmp(json_string_value(v), id)) return true;
	return false;
}

/* ---- where a fact stands ---- */

static void what_is_only_thought_was_never_said(void **state)
{
	struct server s = { .content = "I do not know.", .reasoning = "It is poppy, mercury or basil." };
	struct probe_result r = expect("recall", NULL, &s, PROBE_FAIL, "the reasoning has it and the answer has not");

	(void)state;
	assert_true(figure(&r, "recalled") == 0 && figure(&r, "recalled_reasoning") == 2 && figure(&r, "asked") == 2);
	probe_result_fini(&r);
	s.reasoning = "basil coral lark marble";
	r = expect("needle", json_pack("{s:[i]}", "sizes", 400), &s, PROBE_FAIL,
		   "the reasoning has the code and the answer");
	assert_true(figure(&r, "found") == 0 && figure(&r, "found_reasoning") == 3);
	probe_result_fini(&r);
}

static void a_fact_in_a_call_is_recalled(void **state)
{
	struct server s = { .content = "", .call = "{\"note\": \"poppy mercury\"}" };
	struct probe_result r = expect("recall", NULL, &s, PROBE_PASS, "2 of them only in a tool call");

	(void)state;
	assert_true(figure(&r, "recalled_calls") == 2 && figure(&r, "recalled_content") == 0);
	probe_result_fini(&r);
	s.call = "{\"city\": \"Berlin\"}";
	r = expect("recall", NULL, &s, PROBE_FAIL,
		   "the answer was the call write_file({\"city\": \"Berlin\"}) (length) (r3)");
	probe_result_fini(&r);
}

static void continuation_says_what_shows_the_first_turn(void **state)
{
	(void)state;
	judge("continuation", (struct server){ .content = "Tic-tac-toe, saved." }, PROBE_PASS,
	      "the second answer shows");
	judge("continuation", (struct server){ .content = "", .call = "{\"path\": \"tictactoe.html\"}" }, PROBE_PASS,
	      "the second answer's tool call shows");
	judge("continuation", (struct server){ .content = "Saved.", .reasoning = THOUGHT }, PROBE_PASS,
	      "reasoning shows the first, its answer does not");
	judge("continuation", (struct server){ .content = "", .reasoning = THOUGHT }, PROBE_FAIL,
	      "no answer came of it");
	judge("continuation", (struct server){ .content = "Which file?" }, PROBE_FAIL,
	      "forgotten, the answer was \"Which file?\" (r2)");
}

/* ---- abort ---- */

static void a_drop_changes_nothing_on_a_sound_server(void **state)
{
	struct server s = { .looks_in = true };
	struct probe_result r =
		expect("abort", NULL, &s, PROBE_PASS, "4 of 4 answers after a drop are what they are without");

	(void)state;
	assert_true(figure(&r, "dropped") == 4 && figure(&r, "equal") == 4 && figure(&r, "shown") == 4);
	assert_true(figure(&r, "logprobs") == 8 && figure(&r, "replayed") == 4 && s.replays == 4);
	probe_result_fini(&r);
	s = (struct server){ 0 };
	r = expect("abort", json_pack("{s:i}", "drops", 7), &s, PROBE_PASS, "7 of 7");
	probe_result_fini(&r);
	s = (struct server){ .refuses_logprobs = true };
	r = expect("abort", NULL, &s, PROBE_PASS, "4 of 4");
	assert_true(figure(&r, "logprobs") == 0);
	probe_result_fini(&r);
}

static void what_a_drop_changes_fails_abort(void **state)
{
	(void)state;
	judge("abort", (struct server){ .forgets_once = true }, PROBE_FAIL,
	      "the next turn is another than without: the reasoning");
	/* Both answers come from what the drop left, and are the same. */
	judge("abort", (struct server){ .forgets_for_good = true }, PROBE_FAIL, "has forgotten the one before");
	judge("abort", (struct server){ .warm_logprob = true }, PROBE_FAIL,
	      "the log-probability of token 1 of the content is not");
	judge("abort", (struct server){ .looks_in = true, .differing = 3 }, PROBE_FAIL,
	      "has other logits than without the cache from token 307 on (256 of its tokens were cached)");
}

static void an_abort_that_could_not_be_had_is_inconclusive(void **state)
{
	(void)state;
	judge("abort", (struct server){ .thoughtless = true }, PROBE_INCONCLUSIVE, "streamed no reasoning");
	judge("abort", (struct server){ .forgets_always = true }, PROBE_INCONCLUSIVE,
	      "does not show the first turn even without");
	judge("abort", (struct server){ .looks_in = true, .replay_fails = true }, PROBE_INCONCLUSIVE,
	      "moe_experts: failed");
}

/* ---- warmcold ---- */

static void requests_that_have_the_same_bits_cold_pass(void **state)
{
	struct server s = { .looks_in = true, .asked = 9, .skips = 2 };
	struct probe_result r = expect("warmcold", json_pack("{s:i}", "count", 5), &s, PROBE_PASS, "bit for bit");

	(void)state;
	/* Two of the conversation are skipped; five others are replayed. */
	assert_true(figure(&r, "replayed") == 6 && figure(&r, "skipped") == 2 && figure(&r, "positions") == 120);
	assert_true(figure(&r, "reused") == 6 && figure(&r, "most_reused") == 256 && figure(&r, "differing") == 0);
	assert_true(made(&r, "r10") && made(&r, "again12") && made(&r, "again9") && !made(&r, "again4"));
	probe_result_fini(&r);
	s = (struct server){ .looks_in = true };
	r = expect("warmcold", NULL, &s, PROBE_PASS,
		   "3 requests, 3 of them with up to 256 tokens"); /* an empty ring */
	probe_result_fini(&r);
}

static void other_bits_cold_fail_warmcold(void **state)
{
	(void)state;
	judge("warmcold", (struct server){ .looks_in = true, .differing = 12 }, PROBE_FAIL,
	      "request r1, with 256 of 300 prompt tokens from the cache, has other logits than without it: first at "
	      "token 307, "
	      "in all 12 of 20");
	judge("warmcold", (struct server){ .looks_in = true, .nothing_reused = true }, PROBE_INCONCLUSIVE,
	      "none of 3 requests had anything from the cache");
	judge("warmcold", (struct server){ .looks_in = true, .replay_fails = true }, PROBE_INCONCLUSIVE,
	      "moe_experts: failed");
}

static void another_server_is_asked_twice(void **state)
{
	struct server s = { 0 };
	struct probe_result r =
		expect("warmcold", NULL, &s, PROBE_PASS, "3 answers are the same with up to 256 tokens");

	(void)state;
	assert_true(figure(&r, "compared") == 3 && figure(&r, "logprobs") == 6 && s.asked == 9);
	probe_result_fini(&r);
	judge("warmcold", (struct server){ .warm_text = true }, PROBE_FAIL,
	      "256 of them from the cache: the content differs");
	judge("warmcold", (struct server){ .warm_logprob = true }, PROBE_FAIL, "-0.5 and -0.5001");
	s = (struct server){ .warm_logprob = true };
	r = expect("warmcold", json_pack("{s:f}", "tolerance", 0.001), &s, PROBE_PASS, "the same");
	assert_true(fabs(figure(&r, "logprob_apart") - 0.0001) < 1e-9);
	probe_result_fini(&r);
	judge("warmcold", (struct server){ .silent_cache = true }, PROBE_INCONCLUSIVE,
	      "does not say whether it reused anything");
	judge("warmcold", (struct server){ .no_cache = true }, PROBE_INCONCLUSIVE, "says that it reused nothing");
	judge("warmcold", (struct server){ .silent_cache = true, .warm_text = true }, PROBE_FAIL,
	      "the content differs");
	judge("warmcold", (struct server){ .refuses_logprobs = true }, PROBE_PASS, "the same with up to 256 tokens");
}

/* ---- numerics ---- */

static void numbers_are_judged_by_what_the_set_claims(void **state)
{
	static const struct {
		struct server s;
		enum probe_verdict verdict;
		const char *text;
	} row[] = {
		{ { .is_exact = true, .exact = 0.03 }, PROBE_PASS, "the reference's own bits, and 0.03 from" },
		{ { .is_exact = true, .bits = 1, .same = 1e-9 },
		  PROBE_FAIL,
		  "counts as exact, but 1 values have other bits" },
		{ { .bits = 900, .same = 0.05 }, PROBE_PASS, "close to the reference" },
		{ { .bits = 900, .same = 0.15 }, PROBE_WARN, "0.15 from the reference's" },
		{ { .bits = 900, .same = 0.4 },
		  PROBE_FAIL,
		  "0.4 from the reference's, and the answers part at token 5" },
		{ { .is_exact = true, .exact = 0.6 }, PROBE_WARN, "the rounding in force puts logits 0.6 from" },
		{ { .nan = true }, PROBE_FAIL, "3 logits are no numbers" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct server s = row[i].s;
		struct probe_result r;

		s.looks_in = true;
		r = expect("numerics", NULL, &s, row[i].verdict, row[i].text);
		assert_int_equal(s.compared, 2);
		assert_true(figure(&r, "same_layer_1") == s.same && figure(&r, "exact_layer_0") == s.exact / 2);
		probe_result_fini(&r);
	}
	judge("numerics", (struct server){ 0 }, PROBE_INCONCLUSIVE, "only a daemon of this kind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_only_thought_was_never_said),
		cmocka_unit_test(a_fact_in_a_call_is_recalled),
		cmocka_unit_test(continuation_says_what_shows_the_first_turn),
		cmocka_unit_test(a_drop_changes_nothing_on_a_sound_server),
		cmocka_unit_test(what_a_drop_changes_fails_abort),
		cmocka_unit_test(an_abort_that_could_not_be_had_is_inconclusive),
		cmocka_unit_test(requests_that_have_the_same_bits_cold_pass),
		cmocka_unit_test(other_bits_cold_fail_warmcold),
		cmocka_unit_test(another_server_is_asked_twice),
		cmocka_unit_test(numbers_are_judged_by_what_the_set_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
