/* SPDX-License-Identifier: MIT
 * shadow.c - tests of beside.c, shadow.c and the engine's shadow on the tiny model: kernels that are wrong by a known
 * amount have exactly that in the figures, and the answer's bits are never touched.
 * Threads: this one and, in one test, the engine's. */
#include "engine/base/rc.h"
#include "engine/device/ranks.h"
#include "engine/engine.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/tinykit.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK 40
#define ODD_TOKEN 77    /* what odd_route does something about */

/* cmocka's would compare as floats. */
#define test_near(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

/* ---- kernels that are wrong by a known amount ---- */

/* y is too large by 2^-8; post and comb are right. */
static int off_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	int rc = ref_hc_pre(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->dim; i++)
		a->y[i] *= 1 + 0x1p-8f;
	return rc;
}

/* In place: what the shadow reads must be what the set in force read, not what it wrote. */
static int off_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	int rc = ref_hc_post(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->hc * a->dim; i++)
		a->streams[i] *= 1 - 0x1p-6f;
	return rc;
}

static bool odd_has(const int32_t *id, int n, int32_t x)
{
	for (int i = 0; i < n; i++)
		if (id[i] == x)
			return true;
	return false;
}

/* One expert of ODD_TOKEN's is another: the first one that was not chosen. */
static int odd_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	int rc = ref_moe_route(x, host, a);

	for (int t = 0; t < a->n_tok; t++) {
		int32_t *id = a->ids + t * a->k, other = 0;

		while (odd_has(id, a->k, other))
			other++;
		if (a->token[t] == ODD_TOKEN)
			id[0] = other;
	}
	return rc;
}

static int failing_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	(void)x, (void)host, (void)a;
	return -5;
}

static pthread_t test_main; /* rank 0's */

static int failing_elsewhere(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	return pthread_equal(pthread_self(), test_main) ? ref_attn(x, host, a) : -5;
}

static atomic_int hc_pre_calls;

static int counted_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	atomic_fetch_add(&hc_pre_calls, 1);
	return ref_hc_pre(x, host, a);
}

ODDPLUG(off, ODDPLUG_OP(hc_pre, LOSSY, "off", off_hc_pre), ODDPLUG_OP(hc_post, LOSSY, "off", off_hc_post));
ODDPLUG(odd, ODDPLUG_OP(moe_route, LOSSY, "off", odd_route));
ODDPLUG(failing, ODDPLUG_OP(attn, LOSSY, "off", failing_attn));
ODDPLUG(elsewhere, ODDPLUG_OP(attn, LOSSY, "off", failing_elsewhere));
ODDPLUG(counted, ODDPLUG_OP(hc_pre, LOSSY, "off", counted_hc_pre));
ODDPLUG(honest, ODDPLUG_OP(hc_pre, EXACT, "fp32", counted_hc_pre));
ODDPLUG(liar, ODDPLUG_OP(hc_pre, EXACT, "fp32", off_hc_pre));
ODDPLUG(late_liar, ODDPLUG_OP(hc_post, EXACT, "fp32", off_hc_post));
static struct provider *test_plugins[] = { &off, &odd, &failing, &elsewhere, &counted, &honest, &liar, &late_liar,
					   NULL };

static int test_init(void **state)
{
	(void)state;
	test_main = pthread_self();
	oddplug_init(test_plugins);
	return 0;
}

static struct shadow *test_shadow(struct tinykit *k, const char *spec, double share)
{
	struct kset *ks = oddplug_set(test_plugins, spec);
	struct shadow *s;

	assert_int_equal(shadow_new(&ks, k->ref, share, k->model->config->n_layers, &s, &k->why), 0);
	assert_null(ks);
	return s;
}

/* ---- passes ---- */

/* Two sequences of N_TOK tokens in one prefill, then one token each; logits of all tokens, malloc'd. */
static float *test_pass(struct tinykit *k, const struct kset *ks, struct shadow *s, int32_t token[2][N_TOK + 1])
{
	static const char *const name[] = { "first", "second" };
	struct sequence *seq[2] = { tinykit_sequence(k), tinykit_sequence(k) };
	size_t vocab = (size_t)k->vocab;
	float *logits = malloc(2 * (N_TOK + 1) * vocab * sizeof *logits);
	struct forward_item item[2];
	struct forward_batch b = { .kset = ks, .numerics = &k->native, .item = item, .n_item = 2, .name = name };

	for (int ph = 0; ph < 2; ph++) {
		for (int i = 0; i < 2; i++)
			item[i] = (struct forward_item){ seq[i], token[i] + (ph ? N_TOK : 0), ph ? 1 : N_TOK,
							 ph ? 1 : N_TOK };
		b.phase = ph ? DSV4_DECODE : DSV4_PREFILL;
		b.logits = logits + (ph ? 2 * N_TOK * vocab : 0);
		if (s)
			shadow_step(s);
		b.watch = s ? shadow_watch(s, ks) : NULL;
		if (forward_run(k->forward, &b, &k->why))
			fail_msg("%s", buf_str(&k->why));
	}
	sequence_free(&seq[0]);
	sequence_free(&seq[1]);
	return logits;
}

static void test_tokens(struct tinykit *k, int32_t token[2][N_TOK + 1])
{
	for (int i = 0; i < 2; i++) {
		tinykit_tokens(k, (uint32_t)(3 + i), token[i], N_TOK + 1);
		for (int t = 0; t <= N_TOK; t++)
			token[i][t] += token[i][t] == ODD_TOKEN;
	}
}

/* The row of an output in a layer; NULL when it was not met. */
static const struct beside_row *test_row(const struct shadow_report *r, enum dsv4_op op, enum dsv4_phase ph,
	const char *output, int layer)
{
	for (int i = 0; i < r->n_row; i++)
		if (r->row[i].op == op && r->row[i].phase == ph && r->row[i].layer == layer
		    && strcmp(r->row[i].output, output) == 0)
			return &r->row[i];
	return NULL;
}

static void known_errors_are_found_as_they_are(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	struct shadow_report r;
	struct shadow *s;

	(void)state;
	tinykit_init(&k, 2);
	test_tokens(&k, token);
	s = test_shadow(&k, "mhc=off", 1);
	free(test_pass(&k, k.ref, s, token));
	shadow_report(s, &r);
	assert_string_equal(r.set, "mhc=off");
	assert_string_equal(r.against, "ref");
	assert_int_equal(r.batches, 2);
	for (int layer = 0; layer < k.model->config->n_layers; layer++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
			const struct beside_row *y = test_row(&r, DSV4_OP_hc_pre, (enum dsv4_phase)ph, "y", layer);
			const struct beside_row *comb = test_row(&r, DSV4_OP_hc_pre, (enum dsv4_phase)ph, "comb",
								 layer);
			const struct beside_row *post = test_row(&r, DSV4_OP_hc_post, (enum dsv4_phase)ph, "streams",
								 layer);
			uint64_t n = ph == DSV4_PREFILL ? 2 * N_TOK : 2;

			assert_non_null(y);
			assert_non_null(comb);
			assert_non_null(post);
			assert_int_equal(y->calls, 2); /* before attention, before the experts */
			assert_int_equal(y->diff.n, 2 * n * (uint64_t)k.model->config->hidden_size);
			test_near(op_diff_relative(&y->diff), 0x1p-8, 1e-6);
			test_near(op_diff_cosine(&y->diff), 1, 1e-9);
			assert_true(y->diff.max_abs > 0 && y->worst_pos >= 0);
			assert_int_equal(comb->diff.n_bits, 0);
			assert_int_equal(comb->worst_pos, -1);
			test_near(op_diff_relative(&post->diff), 0x1p-6, 1e-6);
		}
	shadow_report_fini(&r);
	shadow_unref(&s);
	tinykit_fini(&k);
}

static void test_shadowed(struct tinykit *k, const char *spec, int32_t token[2][N_TOK + 1])
{
	struct shadow *s = test_shadow(k, spec, 1);

	free(test_pass(k, k->ref, s, token));
	shadow_unref(&s);
}

/* A kernel that said it has ref's bits was held against ref, differed, and went on sharing ref's cache. */
static void what_is_marked_exact_and_differs_is_disproved(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	int before = disproved_count();

	(void)state;
	tinykit_init(&k, 2);
	test_tokens(&k, token);
	test_shadowed(&k, "mhc=off", token);    /* says that it differs */
	test_shadowed(&k, "mhc=honest", token); /* has ref's bits */
	assert_int_equal(disproved_count(), before);
	assert_true(provider_exact(&honest) && provider_exact(&liar));
	test_shadowed(&k, "mhc=liar", token);
	assert_int_equal(disproved_count(), before + 1);
	assert_true(provider_exact(&honest) && !provider_exact(&liar) && provider_exact(&provider_ref));
	assert_non_null(strstr(provider_disproved(&liar)->why, "hc_pre of liar differs in y from ref"));
	tinykit_fini(&k);
}

static void what_both_sets_share_is_not_run_and_called_the_same(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	struct shadow_report r;
	struct shadow *s;
	int n_same = 0, calls;

	(void)state;
	tinykit_init(&k, 1);
	test_tokens(&k, token);
	s = test_shadow(&k, "mhc.decode=counted", 1);
	calls = atomic_load(&hc_pre_calls);
	free(test_pass(&k, k.ref, s, token));
	/* Once per site of the one decode step. */
	assert_int_equal(atomic_load(&hc_pre_calls) - calls, 2 * k.model->config->n_layers);
	shadow_report(s, &r);
	for (int i = 0; i < r.n_row; i++) {
		const struct beside_row *w = &r.row[i];
		bool runs = w->op == DSV4_OP_hc_pre && w->phase == DSV4_DECODE;

		assert_int_equal(w->calls > 0, runs);
		assert_int_equal(w->same > 0, !runs);
		assert_int_equal(w->diff.n_bits, 0);
		n_same += !runs;
	}
	assert_true(n_same >= 2 * 5 * 7); /* ops that every layer runs, in both phases, and more */
	assert_non_null(test_row(&r, DSV4_OP_hc_head, DSV4_DECODE, "", -1)); /* the head is no layer */
	shadow_report_fini(&r);
	shadow_unref(&s);
	tinykit_fini(&k);
}

static void the_worst_request_and_token_are_named(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	const struct beside_row *ids;
	struct shadow_report r;
	struct shadow *s;
	double jaccard;

	(void)state;
	tinykit_init(&k, 1);
	test_tokens(&k, token);
	token[1][23] = ODD_TOKEN;
	s = test_shadow(&k, "moe=odd", 1);
	free(test_pass(&k, k.ref, s, token));
	shadow_report(s, &r);
	ids = test_row(&r, DSV4_OP_moe_route, DSV4_PREFILL, "ids", 4);
	assert_non_null(ids);
	assert_int_equal(ids->diff.n_set, 2 * N_TOK);
	assert_int_equal(ids->diff.n_set_differ, 1);
	jaccard = (double)(k.model->config->experts_per_tok - 1) / (k.model->config->experts_per_tok + 1);
	test_near(op_diff_jaccard(&ids->diff), (2 * N_TOK - 1 + jaccard) / (2 * N_TOK), 1e-9);
	assert_string_equal(ids->worst_name, "second");
	assert_int_equal(ids->worst_pos, 23);
	ids = test_row(&r, DSV4_OP_moe_route, DSV4_DECODE, "ids", 4);
	assert_int_equal(ids->diff.n_set_differ, 0);
	shadow_report_fini(&r);
	shadow_unref(&s);
	tinykit_fini(&k);
}

static void the_answers_bits_are_untouched(void **state)
{
	static const char *const sets[] = { "mhc=off", "moe=odd", "attention=failing" };
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	float *plain, *beside;

	(void)state;
	tinykit_init(&k, 2);
	test_tokens(&k, token);
	token[0][7] = ODD_TOKEN;
	plain = test_pass(&k, k.ref, NULL, token);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		struct shadow *s = test_shadow(&k, sets[i], 1);

		beside = test_pass(&k, k.ref, s, token);
		assert_memory_equal(plain, beside, 2 * (N_TOK + 1) * (size_t)k.vocab * sizeof *plain);
		free(beside);
		shadow_unref(&s);
	}
	free(plain);
	tinykit_fini(&k);
}

static void a_device_on_which_it_fails_is_named(void **state)
{
	struct ranks *ranks = ranks_cpu(2);
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	struct shadow_report r;
	struct shadow *s;

	(void)state;
	tinykit_init(&k, 1);
	if (model_place_ranks(k.model, ranks, &k.why))
		fail_msg("%s", buf_str(&k.why));
	forward_free(&k.forward);
	k.forward = forward_new(k.model, k.pool);
	test_tokens(&k, token);
	s = test_shadow(&k, "attention=elsewhere", 1);
	free(test_pass(&k, k.ref, s, token));
	shadow_report(s, &r);
	assert_int_equal(r.failures, 2 * k.model->config->n_layers);
	assert_non_null(strstr(buf_str(&r.why), "rank 1: attn of elsewhere failed in layer 0, prefill"));
	shadow_report_fini(&r);
	shadow_unref(&s);
	tinykit_fini(&k);
	ranks_close(&ranks);
}

static void a_shadow_that_fails_is_counted_and_told(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	const struct beside_row *w;
	struct shadow_report r;
	struct shadow *s;

	(void)state;
	tinykit_init(&k, 1);
	test_tokens(&k, token);
	s = test_shadow(&k, "attention=failing", 1);
	free(test_pass(&k, k.ref, s, token));
	shadow_report(s, &r);
	assert_int_equal(r.failures, 2 * k.model->config->n_layers);
	assert_non_null(strstr(buf_str(&r.why), "attn of failing failed in layer 0, prefill"));
	w = test_row(&r, DSV4_OP_attn, DSV4_DECODE, "", 2);
	assert_non_null(w);
	assert_int_equal(w->failures, 1);
	assert_int_equal(w->calls, 0);
	shadow_report_fini(&r);
	shadow_unref(&s);
	tinykit_fini(&k);
}

/* ---- which steps ---- */

static void the_share_is_kept_in_no_rhythm(void **state)
{
	static const double shares[] = { 0.001, 0.05, 0.5, 0.9, 1 };
	struct tinykit k;

	(void)state;
	tinykit_init(&k, 1);
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct shadow *s = test_shadow(&k, "mhc=off", shares[i]);
		struct shadow_report r;
		int even = 0;

		for (int n = 0; n < 10000; n++) {
			shadow_step(s);
			even += n % 2 == 0 && shadow_watch(s, k.ref);
		}
		shadow_report(s, &r);
		assert_int_equal(r.steps, 10000);
		assert_true(fabs((double)r.taken - 10000 * shares[i]) < 4);
		assert_true(fabs(even - 5000 * shares[i]) < 5);
		shadow_report_fini(&r);
		shadow_unref(&s);
	}
	tinykit_fini(&k);
}

static void a_share_outside_0_to_1_is_refused(void **state)
{
	static const double shares[] = { 0, -0.5, 1.001, NAN };
	struct tinykit k;

	(void)state;
	tinykit_init(&k, 1);
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct kset *ks = oddplug_set(test_plugins, "mhc=off");
		struct shadow *s = NULL;

		buf_clear(&k.why);
		assert_int_equal(shadow_new(&ks, k.ref, shares[i], 5, &s, &k.why), RC_INVALID);
		assert_non_null(strstr(buf_str(&k.why), "share"));
		assert_null(s);
		kset_unpin(&ks);
	}
	tinykit_fini(&k);
}

static void other_sets_are_left_alone_and_counted(void **state)
{
	struct tinykit k;
	int32_t token[2][N_TOK + 1];
	struct kset *other = oddplug_set(test_plugins, "mhc=counted");
	struct shadow_report r;
	struct shadow *s;

	(void)state;
	tinykit_init(&k, 1);
	test_tokens(&k, token);
	s = test_shadow(&k, "mhc=off", 1);
	free(test_pass(&k, other, s, token));
	shadow_report(s, &r);
	assert_int_equal(r.batches, 0);
	assert_int_equal(r.other_batches, 2);
	assert_int_equal(r.n_row, 0);
	shadow_report_fini(&r);
	shadow_unref(&s);
	kset_unpin(&other);
	tinykit_fini(&k);
}

/* ---- in the engine ---- */

static void engine_ask(struct engine *e, const char *id, struct buf *ret_text)
{
	static const int32_t prompt[] = { 300, 301, 302, 303, 304, 305, 306, 307 };
	struct generation_spec s = { .id = id, .tokens = prompt, .n_tokens = 8, .max_tokens = 10 };
	struct generation *g = NULL;
	struct gen_event ev;
	bool end = false;

	s.sampling.top_p = 1;
	s.sampling.repetition_penalty = 1;
	s.sampling.ignore_eos = true;
	assert_int_equal(engine_submit(e, &s, &g, NULL), 0);
	while (!end) {
		assert_int_equal(generation_wait(g, &ev, -1), 0);
		if (ev.kind == GEN_EV_CONTENT)
			buf_add(ret_text, ev.text, ev.len);
		end = ev.kind == GEN_EV_FINISH;
		if (end)
			assert_int_equal(ev.finish, GEN_LENGTH);
		gen_event_fini(&ev);
	}
	generation_unref(&g);
}

static void test_unused(void *arg, struct kset *ks)
{
	*(struct kset **)arg = ks;
}

static void the_engine_runs_its_shadow_beside_its_steps(void **state)
{
	const char *top = getenv("top_srcdir");
	struct kset *ks = oddplug_set(test_plugins, "mhc=off"), *freed = NULL;
	struct buf why = { 0 }, plain = { 0 }, shadowed = { 0 };
	struct engine_options o = { 0 };
	const struct beside_row *y;
	struct shadow_report r;
	struct engine *e = NULL;
	char dir[4096];

	(void)state;
	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	assert_int_equal(engine_open(&o, &e, &why), 0);
	engine_ask(e, "plain", &plain);
	assert_int_equal(engine_shadow_report(e, &r), RC_NOT_FOUND);
	assert_int_equal(engine_shadow_stop(e), RC_NOT_FOUND);
	kset_when_unused(ks, test_unused, &freed);
	assert_int_equal(engine_shadow_start(e, &ks, 1, &why), 0);
	engine_ask(e, "shadowed", &shadowed);
	assert_string_equal(buf_str(&shadowed), buf_str(&plain));
	assert_int_equal(engine_shadow_report(e, &r), 0);
	assert_int_equal(r.steps, 10);
	assert_int_equal(r.batches, 10);
	y = test_row(&r, DSV4_OP_hc_pre, DSV4_DECODE, "y", 1);
	assert_non_null(y);
	assert_int_equal(y->calls, 2 * 9);
	assert_string_equal(y->worst_name, "shadowed");
	assert_true(y->worst_pos >= 8 && y->worst_pos < 17);
	shadow_report_fini(&r);
	ks = oddplug_set(test_plugins, "moe=odd");
	assert_int_equal(engine_shadow_start(e, &ks, 0.5, &why), 0); /* takes its place */
	assert_int_equal(engine_shadow_stop(e), 0);
	assert_int_equal(engine_shadow_report(e, &r), RC_NOT_FOUND);
	/* what lies is disproved from the engine's thread too */
	ks = oddplug_set(test_plugins, "mhc=late_liar");
	assert_int_equal(engine_shadow_start(e, &ks, 1, &why), 0);
	assert_true(provider_exact(&late_liar));
	buf_clear(&shadowed);
	engine_ask(e, "caught", &shadowed);
	assert_string_equal(buf_str(&shadowed), buf_str(&plain));
	assert_false(provider_exact(&late_liar));
	assert_int_equal(engine_shadow_stop(e), 0);
	engine_close(&e);
	assert_non_null(freed);
	kset_free(&freed);
	buf_fini(&plain);
	buf_fini(&shadowed);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_errors_are_found_as_they_are),
		cmocka_unit_test(what_is_marked_exact_and_differs_is_disproved),
		cmocka_unit_test(what_both_sets_share_is_not_run_and_called_the_same),
		cmocka_unit_test(the_worst_request_and_token_are_named),
		cmocka_unit_test(the_answers_bits_are_untouched),
		cmocka_unit_test(a_shadow_that_fails_is_counted_and_told),
		cmocka_unit_test(a_device_on_which_it_fails_is_named),
		cmocka_unit_test(the_share_is_kept_in_no_rhythm),
		cmocka_unit_test(a_share_outside_0_to_1_is_refused),
		cmocka_unit_test(other_sets_are_left_alone_and_counted),
		cmocka_unit_test(the_engine_runs_its_shadow_beside_its_steps),
	};
	return cmocka_run_group_tests(tests, test_init, NULL);
}
