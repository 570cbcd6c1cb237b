/* SPDX-License-Identifier: MIT
 * warmkit.c - the tiny model with a prefix cache, asked for answers that are compared bit for bit with cold ones.
 * Threads: the test's and the engine's. Locks: none. */
#include "tests/unit/warmkit.h"

#include "tests/unit/plugkit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mapped at the first engine and never let go: no set outlives the program. */
static struct plugkit warm_plugin;

static void warm_map(void)
{
	if (!warm_plugin.handle && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		plugkit_init(&warm_plugin, "avx2");
}

struct kset *warm_kset(const struct kset_overlay *ov, int n)
{
	struct kset_overlay all[KSET_MAX_OVERLAYS];
	struct buf why = { 0 };
	struct kset *ks;
	int m = 0;

	for (; warm_plugin.handle && m < DSV4_N_FAMILY; m++)
		all[m] = (struct kset_overlay){ (enum dsv4_family)m, -1, &warm_plugin.provider, 0 };
	for (int i = 0; i < n; i++)
		all[m++] = ov[i];
	if (kset_build(all, m, &ks, &why))
		fail_msg("%s", buf_str(&why));
	return ks;
}

void warm_use(struct engine *e, enum dsv4_family family, struct provider *p)
{
	const struct kset_overlay ov = { .family = family, .phase = -1, .provider = p };
	struct kset *ks = warm_kset(&ov, 1);
	struct buf why = { 0 };

	if (engine_activate(e, &ks, NULL, false, &why))
		fail_msg("%s", buf_str(&why));
}

struct engine *warm_open(const struct engine_options *with)
{
	const char *top = getenv("top_srcdir");
	struct engine_options o = *with;
	struct engine *e = NULL;
	struct buf why = { 0 };
	struct kset *ks;
	char dir[4096];

	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	if (engine_open(&o, &e, &why))
		fail_msg("%s", buf_str(&why));
	warm_map();
	ks = warm_kset(NULL, 0);
	if (engine_activate(e, &ks, NULL, false, &why))
		fail_msg("%s", buf_str(&why));
	return e;
}

void warm_grow(struct warm_prompt *p, uint32_t seed, int n)
{
	uint32_t x = seed * 2654435761u + 1;

	assert_true(p->n + n <= WARM_MAX_PROMPT);
	while (n-- > 0) {
		x = x * 1664525u + 1013904223u;
		p->token[p->n++] = 260 + (int32_t)((x >> 8) % 1700u);
	}
}

void warm_grow_answer(struct warm_prompt *p, const struct warm_answer *a)
{
	assert_true(p->n + a->n <= WARM_MAX_PROMPT);
	memcpy(p->token + p->n, a->token, (size_t)a->n * sizeof *a->token);
	p->n += a->n;
}

struct generation_spec warm_spec(const struct warm_prompt *p, int max_tokens)
{
	struct generation_spec s = { .tokens = p->token, .n_tokens = p->n, .max_tokens = max_tokens };

	s.sampling.top_p = 1;
	s.sampling.repetition_penalty = 1;
	s.sampling.ignore_eos = true;
	s.sampling.logprobs = true;
	return s;
}

struct generation *warm_submit(struct engine *e, const struct generation_spec *s)
{
	struct generation *g = NULL;
	struct buf why = { 0 };

	if (engine_submit(e, s, &g, &why))
		fail_msg("%s", buf_str(&why));
	return g;
}

static void warm_record(struct engine *e, const char *id, struct warm_answer *a)
{
	struct record *r = engine_record(e, id);
	int32_t *ids;
	int n_prompt;

	assert_non_null(r);
	record_view(r, &a->view);
	a->n = record_tokens(r, &ids, &n_prompt) - n_prompt;
	assert_true(a->n <= WARM_MAX_OUT);
	memcpy(a->token, ids + n_prompt, (size_t)a->n * sizeof *ids);
	free(ids);
	record_unref(&r);
}

void warm_gate_rest(void *arg)
{
	struct warm_gate *gate = arg;

	atomic_store(&gate->reached, true);
	while (!atomic_load(&gate->open))
		sched_yield();
}

void warm_gate_reached(struct warm_gate *gate)
{
	while (!atomic_load(&gate->reached))
		sched_yield();
}

void warm_gate_open(struct warm_gate *gate)
{
	atomic_store(&gate->open, true);
}

struct generation *warm_hold(struct engine *e, struct generation_spec s, struct warm_gate *gate)
{
	struct generation *g;

	s.notify = warm_gate_rest;
	s.arg = gate;
	g = warm_submit(e, &s);
	warm_gate_reached(gate);
	return g;
}

struct warm_answer warm_read(struct engine *e, struct generation **g)
{
	struct warm_answer a = { 0 };
	struct gen_event ev;
	bool end = false;

	while (!end) {
		assert_int_equal(generation_wait(*g, &ev, -1), 0);
		if (ev.kind == GEN_EV_LOGPROB) {
			assert_true(a.n_logprob < WARM_MAX_OUT);
			a.logprob[a.n_logprob++] = ev.lp.logprob;
		}
		end = ev.kind == GEN_EV_FINISH;
		a.finish = ev.finish;
		a.rc = ev.rc;
		gen_event_fini(&ev);
	}
	generation_usage(*g, &a.usage);
	warm_record(e, generation_id(*g), &a);
	generation_unref(g);
	return a;
}

struct warm_answer warm_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct generation_spec s = warm_spec(p, max_tokens);
	struct generation *g = warm_submit(e, &s);
	struct warm_answer a = warm_read(e, &g);

	assert_int_equal(a.finish, GEN_LENGTH);
	assert_int_equal(a.n, max_tokens);
	assert_int_equal(a.view.reused_tokens, a.usage.cached_tokens);
	return a;
}

#define WARM_ASKED 16

static struct warm_asked {
	struct warm_prompt prompt;
	int max_tokens;
	struct warm_answer answer;
} warm_asked[WARM_ASKED];

struct warm_answer warm_ask_cold(struct engine *cold, const struct warm_prompt *p, int max_tokens)
{
	static int next;
	struct warm_asked *a;

	for (int i = 0; i < WARM_ASKED; i++) {
		a = &warm_asked[i];
		if (a->max_tokens == max_tokens && a->prompt.n == p->n &&
		    memcmp(a->prompt.token, p->token, (size_t)p->n * sizeof *p->token) == 0)
			return a->answer;
	}
	a = &warm_asked[next++ % WARM_ASKED];
	*a = (struct warm_asked){ *p, max_tokens, warm_ask(cold, p, max_tokens) };
	return a->answer;
}

void warm_same(const struct warm_answer *a, const struct warm_answer *b)
{
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->n_logprob, a->n);
	assert_int_equal(b->n_logprob, b->n);
	assert_memory_equal(a->token, b->token, (size_t)a->n * sizeof *a->token);
	assert_memory_equal(a->logprob, b->logprob, (size_t)a->n * sizeof *a->logprob);
}

int warm_most(int n)
{
	return (n - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;
}

void warm_idle(struct engine *e)
{
	struct engine_status st;
	struct cache_stats c;

	engine_status(e, &st);
	cache_stats(engine_cache(e), &c);
	assert_int_equal(st.running + st.queued, 0);
	assert_int_equal(st.state_bytes, 0);
	assert_int_equal(c.pinned, 0);
	assert_true(c.bytes <= c.budget);
}
