/* SPDX-License-Identifier: MIT
 * engine_speculate.c - answers with drafts are the answers without, whatever is asked of them: the same tokens, the
 * same bits of their logits, the same events and ends; and so is what they leave in the cache.
 * Threads: this one and the engine's. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/serve/speculate.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROMPTS 96
#define MAX_TOKENS 90

/* What is asked of an answer. */
struct way {
	const char *name;
	float temperature, top_p, min_p, repetition, presence, frequency;
	int top_k, n_bias, n_stop, logprobs, max_tokens, max_reasoning;
	enum gen_format format;
	enum gen_calls calls;
	bool thinking, ignore_eos, guard;
};

static const struct way ways[] = {
	{ .name = "greedy" },
	{ .name = "greedy, thinking", .thinking = true, .logprobs = 3 },
	{ .name = "sampled", .temperature = 1 },
	{ .name = "filtered", .temperature = 1.3f, .top_k = 40, .top_p = 0.9f, .min_p = 0.02f, .thinking = true },
	{ .name = "penalties", .temperature = 0.9f, .repetition = 1.2f, .presence = 0.5f, .frequency = 0.3f },
	{ .name = "greedy penalties", .repetition = 1.3f, .frequency = 0.7f, .ignore_eos = true },
	{ .name = "bias", .temperature = 0.7f, .n_bias = 3, .logprobs = 20 },
	{ .name = "stops", .n_stop = 2 },
	{ .name = "short", .max_tokens = 3 },
	{ .name = "one", .max_tokens = 1 },
	{ .name = "on and on", .ignore_eos = true, .guard = true, .max_tokens = 60 },
	{ .name = "little reasoning", .thinking = true, .max_reasoning = 4 },
	{ .name = "json", .format = GEN_FORMAT_JSON_OBJECT, .temperature = 0.8f },
	{ .name = "calls", .calls = GEN_CALLS_REQUIRED, .temperature = 0.5f },
};

struct answer {
	struct buf text[GEN_EV_FINISH + 1]; /* by kind of event; of finish the detail, of
					     * log-probabilities all of them */
	int n, rc;
	int32_t *token;
	uint64_t *digest;
	enum gen_finish finish;
	struct record_view view;
};

static json_t *prompts(void)
{
	const char *top = getenv("top_srcdir");
	char path[4096];
	json_t *all;

	snprintf(path, sizeof path, "%s/etc/tiny/prompts.json", top ? top : ".");
	all = json_load_file(path, 0, NULL);
	assert_non_null(all);
	return all;
}

static struct generation *submit(struct engine *e, json_t *prompt, const struct way *w, uint64_t seed, bool cache)
{
	static const char *const stop[] = { "code", "is " };
	static const struct gen_logit_bias bias[] = { { 300, 4 }, { 271, -3 }, { 1, -2 } };
	json_t *messages = json_deep_copy(json_object_get(prompt, "messages")), *first = json_array_get(messages, 0);
	json_t *tools = json_incref(json_object_get(first, "tools"));
	struct generation_spec s = { .messages = messages, .tools = tools, .parse = true, .cache_off = !cache };
	struct generation *g;
	struct buf why = { 0 };

	json_object_del(first, "tools");
	if (tools || w->calls == GEN_CALLS_AUTO)
		s.calls = w->calls;
	s.thinking = w->thinking;
	s.max_reasoning = w->max_reasoning;
	s.max_tokens = w->max_tokens ? w->max_tokens : MAX_TOKENS;
	s.format = w->format;
	s.guard = (struct gen_guard){ .say = w->guard ? GEN_GUARD_ON : GEN_GUARD_UNSAID, .maxrun = 8, .maxline = 4,
				      .period = 16 };
	s.sampling = (struct gen_sampling){ .temperature = w->temperature, .top_p = w->top_p > 0 ? w->top_p : 1,
		.min_p = w->min_p,
		.top_k = w->top_k, .repetition_penalty = w->repetition > 0 ? w->repetition : 1,
		.presence_penalty = w->presence,
		.frequency_penalty = w->frequency, .has_seed = true, .seed = seed, .bias = bias, .n_bias = w->n_bias,
		.stop = stop, .n_stop = w->n_stop, .logprobs = w->logprobs > 0, .top_logprobs = w->logprobs,
		.ignore_eos = w->ignore_eos };
	if (engine_submit(e, &s, &g, &why))
		fail_msg("%s: %s", w->name, buf_str(&why));
	json_decref(messages);
	json_decref(tools);
	return g;
}

static void put_event(struct answer *a, const struct gen_event *ev)
{
	struct buf *to = &a->text[ev->kind];

	if (ev->kind == GEN_EV_LOGPROB) {
		buf_printf(to, "%d %a %d %zu:", ev->lp.token, (double)ev->lp.logprob, (int)ev->lp_place.text,
			   ev->lp_place.character);
		for (int i = 0; i < ev->n_top; i++)
			buf_printf(to, " %d %a", ev->top[i].token, (double)ev->top[i].logprob);
	}
	buf_add(to, ev->text ? ev->text : "", ev->len);
	if (ev->kind == GEN_EV_FINISH) {
		buf_printf(to, " %d %d %d", ev->stop, ev->loop.kind, ev->loop.token);
		a->finish = ev->finish;
		a->rc = ev->rc;
	}
}

static void take(struct engine *e, struct generation **g, struct answer *ret_a)
{
	struct record *rec = engine_record(e, generation_id(*g));
	struct answer a = { 0 };
	int n_prompt;

	while (a.finish == GEN_RUNNING) {
		struct gen_event ev;

		assert_int_equal(generation_wait(*g, &ev, -1), 0);
		put_event(&a, &ev);
		gen_event_fini(&ev);
	}
	generation_unref(g);
	record_view(rec, &a.view);
	a.n = record_tokens(rec, &a.token, &n_prompt) - n_prompt;
	memmove(a.token, a.token + n_prompt, (size_t)a.n * sizeof *a.token);
	assert_int_equal(record_digests(rec, &a.digest), a.n);
	record_unref(&rec);
	*ret_a = a;
}

static void drop(struct answer *a)
{
	for (int i = 0; i <= GEN_EV_FINISH; i++)
		buf_fini(&a->text[i]);
	free(a->token);
	free(a->digest);
}

static void same(const struct answer *a, const struct answer *b, const char *name)
{
	if (a->finish != b->finish || a->n != b->n || memcmp(a->token, b->token, (size_t)a->n * sizeof *a->token) != 0)
		fail_msg("%s: %d tokens, %d", name, a->n, b->n);
	assert_memory_equal(a->digest, b->digest, (size_t)a->n * sizeof *a->digest);
	for (int i = 0; i <= GEN_EV_FINISH; i++)
		assert_string_equal(buf_str(&a->text[i]), buf_str(&b->text[i]));
	assert_int_equal(a->rc, b->rc);
	assert_int_equal(a->view.usage.completion_tokens, b->view.usage.completion_tokens);
	assert_int_equal(a->view.usage.reasoning_tokens, b->view.usage.reasoning_tokens);
	assert_string_equal(a->view.detail, b->view.detail);
}

/* Every step-th prompt at once, so that each runs among others. Returns how many. */
static int ask_all(struct engine *e, json_t *all, const struct way *w, int speculate, bool cache, size_t step,
		   struct answer *a)
{
	struct generation *g[MAX_PROMPTS];
	int n = 0;

	assert_int_equal(engine_speculate(e, speculate, NULL), 0);
	for (size_t i = 0; i < json_array_size(all); i += step)
		g[n++] = submit(e, json_array_get(all, i), w, 1000 + i, cache);
	for (int i = 0; i < n; i++)
		take(e, &g[i], &a[i]);
	return n;
}

static void answers_are_those_without_drafts(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = 200, .n_threads = 2 };
	struct engine *e = warm_open(&o);
	struct answer plain[MAX_PROMPTS], draft[MAX_PROMPTS];
	json_t *all = prompts();

	(void)state;
	for (size_t i = 0; i < mem_countof(ways); i++) {
		int n = ask_all(e, all, &ways[i], 0, false, 7 * WARM_STEP, plain), drafted = 0, accepted = 0, tokens = 0;

		/* Cold, or going on from what the ways before have left. */
		for (int s = 1; s <= SPECULATE_MAX; s += SPECULATE_MAX - 1 - (int)i % 2) {
			assert_int_equal(ask_all(e, all, &ways[i], s, i % 2, 7 * WARM_STEP, draft), n);
			for (int k = 0; k < n; k++) {
				const struct gen_usage *u = &draft[k].view.usage;

				same(&plain[k], &draft[k], ways[i].name);
				assert_true(u->accepted_tokens <= u->drafted_tokens);
				assert_true(u->accepted_tokens < u->completion_tokens);
				drafted += u->drafted_tokens;
				accepted += u->accepted_tokens;
				tokens += u->completion_tokens;
				drop(&draft[k]);
			}
		}
		for (int k = 0; k < n; k++) {
			assert_int_equal(plain[k].view.usage.drafted_tokens, 0);
			drop(&plain[k]);
		}
		print_message("%s: %d tokens, %d drafted, %d accepted\n", ways[i].name, tokens, drafted, accepted);
		if (ways[i].max_tokens != 1)
			assert_true(drafted > 0);
	}
	json_decref(all);
	warm_idle(e);
	engine_close(&e);
}

/* ---- kernels that take no more than a token ---- */

static int test_one_token(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	return a->n_tok > a->n_seq ? -1 : ref_attn(x, host, a);
}

ODDPLUG(oneatatime, ODDPLUG_OP(attn, EXACT, "fp32", test_one_token));

static void drafts_are_nobodys_fault(void **state)
{
	const struct kset_overlay ov = { .family = DSV4_ATTENTION, .phase = DSV4_DECODE, .provider = &oneatatime };
	struct engine_options o = { .prefill_chunk = 200, .n_threads = 2 };
	struct engine *e = warm_open(&o);
	struct answer plain[MAX_PROMPTS], draft[MAX_PROMPTS];
	struct engine_status st;
	struct kset *ks;
	struct buf why = { 0 };
	json_t *all = prompts();
	int n;

	(void)state;
	provider_init(&oneatatime, oneatatime.plugin, NULL);
	ks = warm_kset(&ov, 1);
	if (engine_activate(e, &ks, NULL, false, &why))
		fail_msg("%s", buf_str(&why));
	n = ask_all(e, all, &ways[2], 0, false, 9, plain);
	engine_status(e, &st);
	assert_int_equal(st.kernel_failures, 0);
	assert_int_equal(ask_all(e, all, &ways[2], 2, false, 9, draft), n);
	engine_status(e, &st);
	assert_true(st.kernel_failures > 0);
	assert_int_equal(st.failed, 0);
	for (int i = 0; i < n; i++) {
		same(&plain[i], &draft[i], "one at a time");
		assert_int_equal(draft[i].view.usage.drafted_tokens, 0); /* none came so far as to be verified */
		drop(&plain[i]);
		drop(&draft[i]);
	}
	json_decref(all);
	warm_idle(e);
	engine_close(&e);
}

/* Whoever leaves with drafts on the way leaves nothing, and the others go on. */
static void answers_can_be_left(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .n_threads = 2 };
	struct engine *e = warm_open(&o);
	const struct way on_and_on = { .name = "left", .ignore_eos = true, .max_tokens = 1000 };
	struct answer a[MAX_PROMPTS];
	json_t *all = prompts();

	(void)state;
	assert_int_equal(engine_speculate(e, 2, NULL), 0);
	for (int i = 0; i < 20; i++) {
		struct generation *g = submit(e, json_array_get(all, (size_t)i), &on_and_on, 1, true);
		struct gen_event ev;

		for (int k = 0; k < i % 4; k++) {
			assert_int_equal(generation_wait(g, &ev, -1), 0);
			gen_event_fini(&ev);
		}
		generation_unref(&g);
	}
	assert_int_equal(ask_all(e, all, &ways[0], 1, true, 50, a), 2); /* by its end the others have been seen to go */
	drop(&a[0]);
	drop(&a[1]);
	json_decref(all);
	warm_idle(e);
	engine_close(&e);
}

static void bounds(void **state)
{
	struct engine *e = warm_open(&(struct engine_options){ 0 });
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(engine_speculate(e, SPECULATE_MAX + 1, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "speculate: 5 is outside 0 to 4");
	assert_int_equal(engine_can_speculate(e, -1, NULL), RC_INVALID);
	assert_int_equal(engine_speculate(e, SPECULATE_MAX, NULL), 0);
	buf_fini(&why);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts_are_nobodys_fault),
		cmocka_unit_test(answers_can_be_left),
		cmocka_unit_test(bounds),
		cmocka_unit_test(answers_are_those_without_drafts),
	};

	warm_say();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
