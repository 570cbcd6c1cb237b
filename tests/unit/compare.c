/* SPDX-License-Identifier: MIT
 * compare.c - tests of compare.c on the tiny model: known differences of kernels and numerics, where answers part, ends
 * before the time.
 * Threads: the test's. Locks: none. */
#include "engine/beside/compare.h"
#include "engine/base/rc.h"
#include "engine/device/ranks.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/tinykit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK 70
#define N_OUT 6

/* cmocka's would compare as floats. */
#define test_near(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

/* ---- kernels ---- */

static int off_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	int rc = ref_hc_post(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->hc * a->dim; i++)
		a->streams[i] *= 1 - 0x1p-6f;
	return rc;
}

/* The logits' signs are turned: the worst token becomes the best. */
static int minus_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	int rc = ref_hc_head(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->dim; i++)
		a->y[i] = -a->y[i];
	return rc;
}

static int nan_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	int rc = ref_hc_head(x, host, a);

	a->y[0] = NAN;
	return rc;
}

static int failing_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	(void)x, (void)host, (void)a;
	return -5;
}

static pthread_t test_main; /* rank 0's */

/* Off on every rank but the first. */
static int elsewhere_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	int rc = ref_moe_experts(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->dim && !pthread_equal(pthread_self(), test_main); i++)
		a->y[i] *= 1 - 0x1p-6f;
	return rc;
}

ODDPLUG(elsewhere, ODDPLUG_OP(moe_experts, LOSSY, "off", elsewhere_experts));
ODDPLUG(off, ODDPLUG_OP(hc_post, LOSSY, "off", off_hc_post));
ODDPLUG(minus, ODDPLUG_OP(hc_head, LOSSY, "off", minus_hc_head));
ODDPLUG(nans, ODDPLUG_OP(hc_head, LOSSY, "off", nan_hc_head));
ODDPLUG(failing, ODDPLUG_OP(attn, LOSSY, "off", failing_attn));
static struct provider *test_plugins[] = { &off, &minus, &nans, &failing, &elsewhere, NULL };

/* ---- fixture ---- */

struct fixture {
	struct tinykit k;
	int32_t token[N_TOK];
	struct kset *set;              /* of side b; NULL: ref */
	struct compare_options o;
	struct compare_result r;
};

static void test_begin(struct fixture *f, const char *spec)
{
	*f = (struct fixture){ 0 };
	tinykit_init(&f->k, 2);
	tinykit_tokens(&f->k, 5, f->token, N_TOK);
	f->set = spec ? oddplug_set(test_plugins, spec) : NULL;
	f->o = (struct compare_options){
		.model = f->k.model,
		.pool = f->k.pool,
		.a = { f->k.ref, f->k.native },
		.b = { f->set ? f->set : f->k.ref, f->k.native },
		.tokens = f->token,
		.n_tokens = N_TOK,
		.max_tokens = N_OUT,
	};
}

static void test_run(struct fixture *f)
{
	compare_result_fini(&f->r);
	if (compare_run(&f->o, &f->r, &f->k.why))
		fail_msg("%s", buf_str(&f->k.why));
	assert_int_equal(f->r.failures, 0);
}

static void test_end(struct fixture *f)
{
	compare_result_fini(&f->r);
	kset_unpin(&f->set);
	tinykit_fini(&f->k);
}

static const struct beside_row *test_row(const struct fixture *f, enum dsv4_op op, enum dsv4_phase ph,
	const char *output, int layer)
{
	for (int i = 0; i < f->r.n_op; i++)
		if (f->r.op[i].op == op && f->r.op[i].phase == ph && f->r.op[i].layer == layer
		    && strcmp(f->r.op[i].output, output) == 0)
			return &f->r.op[i];
	return NULL;
}

/* Which ops were run beside, as a list of names. */
static void test_compared(const struct fixture *f, const char *names)
{
	struct buf b = { 0 };

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int i = 0; i < f->r.n_op; i++)
			if ((int)f->r.op[i].op == op && f->r.op[i].calls) {
				buf_printf(&b, "%s ", op_name((enum dsv4_op)op));
				break;
			}
	assert_string_equal(buf_str(&b), names);
	buf_fini(&b);
}

static void test_set(struct numerics *n, const char *name, const char *value)
{
	assert_int_equal(numerics_set(n, name, value, NULL), 0);
}

/* ---- what is equal ---- */

static int32_t test_argmax(const float *x, int n)
{
	int32_t best = 0;

	for (int i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

static void a_set_beside_itself_differs_in_nothing(void **state)
{
	struct fixture f;
	struct sequence *s;
	float *logits;

	(void)state;
	test_begin(&f, NULL);
	test_run(&f);
	test_compared(&f, "");
	for (int l = 0; l < f.r.n_layer; l++) {
		assert_int_equal(f.r.layer[l].streams.n_bits, 0);
		assert_true(f.r.layer[l].streams.n > 0);
		assert_int_equal(f.r.layer[l].experts.n_set, N_TOK + N_OUT - 1);
		assert_int_equal(f.r.layer[l].experts.n_set_differ, 0);
	}
	assert_int_equal(f.r.logits.n, N_TOK + N_OUT - 1);
	assert_int_equal(f.r.logits.same_top, f.r.logits.n);
	assert_true(f.r.logits.kl == 0 && f.r.logits.worst_pos == -1);
	assert_int_equal(f.r.first_diff, -1);
	/* The answer is the one that the forward pass gives. */
	s = tinykit_sequence(&f.k);
	logits = malloc((size_t)f.k.vocab * sizeof *logits);
	assert_int_equal(tinykit_step(&f.k, f.k.ref, &f.k.native, s, f.token, N_TOK, 1, logits), 0);
	for (int i = 0; i < f.r.n_out[0]; i++) {
		assert_int_equal(f.r.out[0][i], test_argmax(logits, f.k.vocab));
		assert_int_equal(f.r.out[1][i], f.r.out[0][i]);
		assert_int_equal(tinykit_step(&f.k, f.k.ref, &f.k.native, s, &f.r.out[0][i], 1, 1, logits), 0);
	}
	assert_int_equal(f.r.n_out[0], N_OUT);
	free(logits);
	sequence_free(&s);
	test_end(&f);
}

/* ---- kernels that differ ---- */

static void an_ops_own_error_and_what_it_adds_up_to(void **state)
{
	struct fixture f;
	double first, last;

	(void)state;
	test_begin(&f, "mhc=off");
	test_run(&f);
	test_compared(&f, "hc_post ");
	for (int l = 0; l < f.r.n_layer; l++) {
		const struct beside_row *w = test_row(&f, DSV4_OP_hc_post, DSV4_PREFILL, "streams", l);

		assert_non_null(w);
		test_near(op_diff_relative(&w->diff), 0x1p-6, 1e-6); /* on A's inputs: the same in every layer */
		assert_true(w->worst_pos >= 0 && w->worst_pos < N_TOK);
	}
	first = op_diff_relative(&f.r.layer[0].streams);
	last = op_diff_relative(&f.r.layer[f.r.n_layer - 1].streams);
	assert_true(first > 0x1p-6 && last > first); /* and on its own it drifts */
	assert_true(f.r.logits.kl > 0 && f.r.logits.worst_pos >= 0);
	test_end(&f);
}

/* ---- several devices ---- */

static void test_begin_ranks(struct fixture *f, const char *spec, struct ranks *r)
{
	test_begin(f, spec);
	f->o.max_tokens = 2;
	if (model_place_ranks(f->k.model, r, &f->k.why))
		fail_msg("%s", buf_str(&f->k.why));
}

/* Each looks at what it has: here only the second one's experts are off. */
static void a_device_whose_slice_is_off_is_named(void **state)
{
	struct ranks *r = ranks_cpu(2);
	struct fixture f;

	(void)state;
	test_begin_ranks(&f, "moe_experts=elsewhere", r);
	test_run(&f);
	for (int l = 0; l < f.r.n_layer; l++) {
		const struct beside_row *w = test_row(&f, DSV4_OP_moe_experts, DSV4_PREFILL, "y", l);

		assert_non_null(w);
		assert_int_equal(w->worst_rank, 1);
		test_near(w->diff.worst_row, 0x1p-6, 1e-6);
		assert_int_equal(w->calls, 2);
	}
	test_end(&f);
	ranks_close(&r);
}

static void the_first_differing_token_is_found(void **state)
{
	static const struct {
		const char *spec;
		int first_diff, agreed;
	} row[] = {
		{ "mhc=minus", 0, 0 },
		{ "mhc.decode=minus", 1, 1 }, /* the first token is the prompt's last step's */
	};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fixture f;

		test_begin(&f, row[i].spec);
		test_run(&f);
		assert_int_equal(f.r.first_diff, row[i].first_diff);
		assert_int_equal(f.r.logits.n, N_TOK + row[i].agreed);
		assert_int_not_equal(f.r.out[0][row[i].first_diff], f.r.out[1][row[i].first_diff]);
		assert_int_equal(f.r.n_out[0], N_OUT); /* both are told to their ends */
		assert_int_equal(f.r.n_out[1], N_OUT);
		test_end(&f);
	}
}

static void logits_that_are_no_numbers_end_an_answer(void **state)
{
	struct fixture f;

	(void)state;
	test_begin(&f, "mhc.decode=nans");
	test_run(&f);
	assert_true(f.r.broken[1] && !f.r.broken[0]);
	assert_int_equal(f.r.n_out[1], 1);
	assert_int_equal(f.r.n_out[0], N_OUT);
	assert_int_equal(f.r.first_diff, 1);
	assert_true(isinf(f.r.logits.worst_kl) && f.r.logits.worst_pos == N_TOK);
	test_end(&f);
}

/* ---- numerics that differ ---- */

static void each_parameter_shows_in_the_ops_it_concerns(void **state)
{
	static const struct {
		const char *name, *a, *b, *ops;
	} row[] = {
		{ "mhc_precision", "fp32", "bf16", "hc_pre hc_post hc_head " },
		{ "attn_scores", "fp32", "bf16", "attn " },
		{ "act_quant", "none", "fp8", "linear moe_experts " },
		{ "kv_format", "f32", "fp8", "rope compress " },
		{ "kv_format", "fp8", "f32", "rope compress " },
		{ "index_key", "f32", "fp4", "rope compress " },
		{ "index_topk", "32", "5", "index_topk " },
	};
	struct fixture f;

	(void)state;
	test_begin(&f, NULL);
	f.o.max_tokens = 0;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		f.o.a.numerics = f.o.b.numerics = f.k.native;
		test_set(&f.o.a.numerics, row[i].name, row[i].a);
		test_set(&f.o.b.numerics, row[i].name, row[i].b);
		test_run(&f);
		test_compared(&f, row[i].ops);
	}
	test_end(&f);
}

/* B's choice is the best part of A's: the overlap is the quotient of their lengths, token by token. */
static void another_top_k_overlaps_as_it_must(void **state)
{
	static const int topk[][2] = { { 12, 5 }, { 5, 12 }, { 1000, 3 } };
	struct fixture f;

	(void)state;
	test_begin(&f, NULL);
	f.o.max_tokens = 0;
	for (size_t i = 0; i < sizeof topk / sizeof *topk; i++) {
		int checked = 0;

		f.o.a.numerics.index_topk = topk[i][0];
		f.o.b.numerics.index_topk = topk[i][1];
		test_run(&f);
		for (int l = 0; l < f.r.n_layer; l++) {
			const struct sequence_layer *y = &f.k.model->layout.layer[l];
			const struct beside_row *rows = test_row(&f, DSV4_OP_index_topk, DSV4_PREFILL, "rows", l);
			double sum = 0;

			assert_int_equal(rows != NULL, y->overlap);
			for (int p = 0; p < N_TOK && rows; p++) {
				double vis = (p + 1) / y->ratio, n = fmin(vis, topk[i][0]), m = fmin(vis, topk[i][1]);

				sum += vis > 0 ? fmin(n, m) / fmax(n, m) : 1;
			}
			if (!rows)
				continue;
			test_near(op_diff_jaccard(&rows->diff), sum / N_TOK, 1e-9);
			checked++;
		}
		assert_true(checked > 0);
	}
	test_end(&f);
}

/* The published order of magnitude for hyper-connections kept in bf16, printed for the reader. */
static void bf16_hyper_connections_are_off_by_a_few_thousandths(void **state)
{
	struct fixture f;

	(void)state;
	test_begin(&f, NULL);
	test_set(&f.o.b.numerics, "mhc_precision", "bf16");
	test_run(&f);
	for (int l = 0; l < f.r.n_layer; l++) {
		const struct op_diff *d = &test_row(&f, DSV4_OP_hc_pre, DSV4_PREFILL, "y", l)->diff;

		print_message("layer %d: hc_pre relative %.2e cosine %.7f, streams drift %.2e\n", l,
			op_diff_relative(d), op_diff_cosine(d), op_diff_relative(&f.r.layer[l].streams));
		assert_true(op_diff_relative(d) > 3e-4 && op_diff_relative(d) < 3e-2);
		assert_true(op_diff_cosine(d) > 0.999);
	}
	test_end(&f);
}

/* ---- bounds ---- */

static void figures_do_not_depend_on_the_memory_given(void **state)
{
	struct fixture f;
	double kl, drift;
	int32_t out[N_OUT];

	(void)state;
	test_begin(&f, "mhc=off");
	test_run(&f);
	kl = f.r.logits.kl;
	drift = op_diff_relative(&f.r.layer[4].streams);
	memcpy(out, f.r.out[1], sizeof out);
	f.o.max_bytes = 1; /* a token at a time */
	test_run(&f);
	test_near(f.r.logits.kl, kl, kl * 1e-9);
	test_near(op_diff_relative(&f.r.layer[4].streams), drift, drift * 1e-9);
	assert_memory_equal(out, f.r.out[1], sizeof out);
	test_end(&f);
}

static int test_calls, test_calls_left;
static int64_t test_done, test_total;

static bool test_stop(void *arg)
{
	(void)arg;
	test_calls++;
	return test_calls_left-- == 0;
}

static void test_progress(void *arg, int64_t done, int64_t total)
{
	(void)arg;
	assert_true(done > test_done && done <= total);
	test_done = done;
	test_total = total;
}

static void it_can_be_stopped_before_any_op(void **state)
{
	struct fixture f;

	(void)state;
	test_begin(&f, "mhc=off");
	f.o.stop = test_stop;
	f.o.progress = test_progress;
	test_calls = 0;
	test_done = 0;
	test_calls_left = -1;
	test_run(&f);
	assert_true(test_calls > 500);
	assert_true(test_done > N_TOK && test_total == 2 * (N_TOK + N_OUT));
	for (int n = 0, step = test_calls / 7; n < 7; n++) {
		struct compare_result r;

		test_calls_left = n * step;
		test_done = 0;
		assert_int_equal(compare_run(&f.o, &r, &f.k.why), RC_CANCELLED);
	}
	test_end(&f);
}

static void what_cannot_be_run_says_why(void **state)
{
	struct compare_result r;
	struct fixture f;

	(void)state;
	test_begin(&f, "attention.decode=failing");
	assert_int_equal(compare_run(&f.o, &r, &f.k.why), RC_KERNEL);
	assert_non_null(strstr(buf_str(&f.k.why), "attn of failing failed in layer 0, decode"));
	assert_non_null(strstr(buf_str(&f.k.why), "(set b, attention.decode=failing)"));
	f.o.n_tokens = 0;
	assert_int_equal(compare_run(&f.o, &r, &f.k.why), RC_INVALID);
	f.o.n_tokens = f.k.model->config->max_context;
	assert_int_equal(compare_run(&f.o, &r, &f.k.why), RC_CONTEXT);
	test_end(&f);
}

static int test_init(void **state)
{
	(void)state;
	test_main = pthread_self();
	oddplug_init(test_plugins);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_beside_itself_differs_in_nothing),
		cmocka_unit_test(an_ops_own_error_and_what_it_adds_up_to),
		cmocka_unit_test(a_device_whose_slice_is_off_is_named),
		cmocka_unit_test(the_first_differing_token_is_found),
		cmocka_unit_test(logits_that_are_no_numbers_end_an_answer),
		cmocka_unit_test(each_parameter_shows_in_the_ops_it_concerns),
		cmocka_unit_test(another_top_k_overlaps_as_it_must),
		cmocka_unit_test(bf16_hyper_connections_are_off_by_a_few_thousandths),
		cmocka_unit_test(figures_do_not_depend_on_the_memory_given),
		cmocka_unit_test(it_can_be_stopped_before_any_op),
		cmocka_unit_test(what_cannot_be_run_says_why),
	};
	return cmocka_run_group_tests(tests, test_init, NULL);
}
