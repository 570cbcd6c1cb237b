/* SPDX-License-Identifier: MIT
 * eval.c - dsv4-eval's parts: tensor files, running cases, and the comparison's verdicts.
 * Threads: main. Locks: none. */
#include "engine/eval/eval.h"
#include "engine/base/rc.h"
#include "tests/unit/tinykit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_i32(struct tensorfile *t, const char *name, int64_t rows, int64_t cols, const int32_t *v)
{
	int64_t dim[] = { rows, cols ? cols : 1 };
	int32_t *to = tensorfile_add(t, name, TENSORFILE_I32, cols ? 2 : 1, dim);

	memcpy(to, v, (size_t)(rows * dim[1]) * sizeof *v);
}

static void add_f32(struct tensorfile *t, const char *name, int64_t rows, int64_t cols, const float *v)
{
	int64_t dim[] = { rows, cols ? cols : 1 };
	float *to = tensorfile_add(t, name, TENSORFILE_F32, cols ? 2 : 1, dim);

	memcpy(to, v, (size_t)(rows * dim[1]) * sizeof *v);
}

/* ---- files ---- */

static void test_file_round_trip(void **state)
{
	static const char *const meta[] = { "profile", "na\"tive\n", NULL };
	const float f[] = { 1, -0.0f, NAN, INFINITY, 5, 6 };
	const int32_t i[] = { -1, INT32_MAX, 7 };
	struct tensorfile t = { 0 }, back = { 0 };
	char path[] = "/tmp/dsv4-eval-XXXXXX";
	struct buf why = { 0 };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	add_f32(&t, "a.logits", 2, 3, f);
	add_i32(&t, "a.tokens", 3, 0, i);
	assert_int_equal(tensorfile_write(&t, path, meta, &why), 0);
	if (tensorfile_read(path, &back, &why) < 0)
		fail_msg("%s", buf_str(&why));
	assert_int_equal(back.n, 2);
	assert_memory_equal(tensorfile_find(&back, "a.logits")->f32, f, sizeof f);
	assert_int_equal(tensorfile_find(&back, "a.logits")->dim[1], 3);
	assert_memory_equal(tensorfile_find(&back, "a.tokens")->i32, i, sizeof i);
	assert_null(tensorfile_find(&back, "a.token"));
	tensorfile_fini(&back);
	assert_int_equal(truncate(path, 40), 0);
	assert_int_equal(tensorfile_read(path, &back, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), path));
	unlink(path);
	assert_true(tensorfile_read(path, &back, &why) < 0);
	assert_true(tensorfile_write(&t, "/no/such/dir/x", meta, &why) < 0);
	assert_non_null(strstr(buf_str(&why), "/no/such/dir/x"));
	tensorfile_fini(&t);
	buf_fini(&why);
}

/* ---- verdicts ---- */

/* Two files of one case with the given tensor each; returns what eval_diff does. */
static int diff(const char *name, const float *a, const float *b, int64_t rows, int64_t cols,
	const struct eval_limits *l)
{
	struct tensorfile ta = { 0 }, tb = { 0 };
	struct buf out = { 0 };
	int n;

	add_f32(&ta, name, rows, cols, a);
	add_f32(&tb, name, rows, cols, b);
	n = eval_diff(&ta, &tb, l, &out);
	assert_non_null(strstr(buf_str(&out), name));
	tensorfile_fini(&ta);
	tensorfile_fini(&tb);
	buf_fini(&out);
	return n;
}

static void test_float_verdicts(void **state)
{
	const struct eval_limits tight = { 1e-3, -1, 1e-3, 1, 1e-4, NULL };
	const struct eval_limits none = { -1, -1, 1e-3, 1, 1e-4, NULL };
	const struct eval_limits large = { 10, -1, 1e-3, 1, 1e-4, NULL };
	const struct eval_limits median = { 1, 1e-3, 10, 1, 1e-4, NULL };
	const float b[] = { 1, 2, 3, 4 }, near[] = { 1, 2, 3, 4.001f }, far[] = { 1, 2, 3, 4.1f };
	const float nan[] = { 1, 2, 3, NAN }, top[] = { 1, 2, 4, 3 }, zero[] = { 0, 0, 0, 0 };
	const float tie[] = { 1, 2, 4, 4.0001f }, tied[] = { 1, 2, 4.0001f, 4 };

	(void)state;
	assert_int_equal(diff("x.streams.0", near, b, 1, 4, &tight), 0);
	assert_int_equal(diff("x.streams.0", far, b, 1, 4, &tight), 1);
	assert_int_equal(diff("x.streams.0", far, b, 1, 4, &none), 0);
	assert_int_equal(diff("x.streams.0", far, b, 2, 2, &tight), 1); /* one position in two is enough */
	assert_int_equal(diff("x.streams.0", far, b, 4, 1, &median), 0);
	assert_int_equal(diff("x.streams.0", far, b, 1, 4, &median), 1);
	assert_int_equal(diff("x.streams.0", nan, b, 1, 4, &tight), 1);
	assert_int_equal(diff("x.streams.0", b, nan, 1, 4, &tight), 1);
	assert_int_equal(diff("x.streams.0", zero, zero, 1, 4, &tight), 0);
	assert_int_equal(diff("x.streams.0", b, zero, 1, 4, &tight), 1);
	assert_int_equal(diff("x.logits", top, b, 1, 4, &large), 1);
	assert_int_equal(diff("x.logits", tied, tie, 1, 4, &tight), 0);
	assert_int_equal(diff("x.margin.2", far, b, 1, 4, &tight), 0);
}

/* A NaN in both is a fault that both share, whatever the tolerance; MTP has none for the last token. */
static void test_nan_verdicts(void **state)
{
	const struct eval_limits none = { -1, -1, 1e-3, 1, 1e-4, NULL }, large = { 10, -1, 1e-3, 1, 1e-4, NULL };
	const float both[] = { 1, 2, NAN, NAN }, part[] = { 1, 2, 3, NAN };
	const int32_t tokens[] = { 7, 8, 9 }, last[] = { 0, 2 }, inner[] = { 0, 1 };
	struct tensorfile t = { 0 };
	struct buf out = { 0 };
	int32_t *positions;

	(void)state;
	assert_int_equal(diff("x.streams.0", both, both, 2, 2, &none), 1);
	assert_int_equal(diff("x.logits", both, both, 2, 2, &large), 1);
	assert_int_equal(diff("x.margin.2", both, both, 2, 2, &none), 1);
	assert_int_equal(diff("x.mtp", both, both, 2, 2, &none), 1); /* nobody knows which position is the last */
	add_i32(&t, "x.tokens", 3, 0, tokens);
	add_i32(&t, "x.positions", 2, 0, last);
	add_f32(&t, "x.mtp", 2, 2, both);
	assert_int_equal(eval_diff(&t, &t, &large, &out), 0);
	assert_null(strstr(buf_str(&out), "NaN"));
	positions = tensorfile_find(&t, "x.positions")->i32;
	memcpy(positions, inner, sizeof inner);
	assert_int_equal(eval_diff(&t, &t, &large, &out), 1);
	assert_non_null(strstr(buf_str(&out), "NaN in both"));
	memcpy(positions, last, sizeof last);
	memcpy(tensorfile_find(&t, "x.mtp")->f32, part, sizeof part); /* some values are there, so all must be */
	assert_int_equal(eval_diff(&t, &t, &large, &out), 1);
	tensorfile_fini(&t);
	buf_fini(&out);
}

static void test_set_verdicts(void **state)
{
	struct eval_limits all = { 0, -1, 0, 1, 1e-4, NULL }, half = all;
	const int32_t experts[] = { 1, 2, 3, 4 }, swapped[] = { 2, 1, 3, 4 }, other[] = { 1, 2, 3, 5 };
	const int32_t rows[] = { 0, 1, -1, 2, 4, 9 }, wide[] = { 0, 1, -1, -1, 2, 4, 8, -1 };
	const float margin[] = { 1, 1e-5f };
	struct tensorfile a = { 0 }, b = { 0 }, c = { 0 };
	struct buf out = { 0 };

	(void)state;
	half.sets = 0.5;
	add_i32(&a, "x.experts.0", 2, 2, experts);
	add_i32(&b, "x.experts.0", 2, 2, swapped);
	add_i32(&c, "x.experts.0", 2, 2, other);
	assert_int_equal(eval_diff(&b, &a, &all, &out), 0);
	assert_int_equal(eval_diff(&c, &a, &all, &out), 1);
	assert_int_equal(eval_diff(&c, &a, &half, &out), 0);
	/* widths may differ; the second position's rows do too, but its margin says that they may */
	add_i32(&a, "x.rows.2", 2, 3, rows);
	add_i32(&b, "x.rows.2", 2, 4, wide);
	assert_int_equal(eval_diff(&b, &a, &all, &out), 1);
	add_f32(&a, "x.margin.2", 2, 0, margin);
	assert_int_equal(eval_diff(&b, &a, &all, &out), 0);
	tensorfile_fini(&a);
	tensorfile_fini(&b);
	tensorfile_fini(&c);
	buf_fini(&out);
}

static void test_shapes_and_names(void **state)
{
	const struct eval_limits l = { 1, -1, 0, 1, 1e-4, NULL }, only = { 1, -1, 0, 1, 1e-4, "experts,mtp" };
	const float v[] = { 1, 2, 3, 4 };
	const int32_t t[] = { 1, 2, 3, 4 };
	struct tensorfile a = { 0 }, b = { 0 };
	struct buf out = { 0 };

	(void)state;
	add_i32(&a, "x.tokens", 4, 0, t);
	add_i32(&b, "x.tokens", 4, 0, t);
	assert_int_equal(eval_diff(&a, &b, &l, &out), -1); /* nothing to compare */
	add_f32(&a, "x.logits", 2, 2, v);
	add_f32(&b, "x.logits", 1, 4, v);
	assert_int_equal(eval_diff(&a, &b, &l, &out), 1);
	assert_non_null(strstr(buf_str(&out), "shape or type differs"));
	assert_int_equal(eval_diff(&a, &b, &only, &out), -1);
	add_i32(&a, "x.streams.1", 2, 2, t); /* ints where floats belong, in both */
	add_i32(&b, "x.streams.1", 2, 2, t);
	assert_int_equal(eval_diff(&a, &b, &l, &out), 2);
	add_f32(&a, "x.mtp", 2, 2, v);
	buf_clear(&out);
	eval_diff(&a, &b, &l, &out);
	assert_non_null(strstr(buf_str(&out), "x.mtp                    only in A"));
	tensorfile_fini(&a);
	tensorfile_fini(&b);
	buf_fini(&out);
}

/* ---- running ---- */

static int run(struct tinykit *k, const int32_t *tokens, int n_tok, const int32_t *positions, int n_pos,
	struct tensorfile *out)
{
	struct eval_options o = { k->model, k->pool, k->ref, k->native, 3, false };
	struct tensorfile in = { 0 };
	int rc;

	add_i32(&in, "x.tokens", n_tok, 0, tokens);
	if (positions)
		add_i32(&in, "x.positions", n_pos, 0, positions);
	rc = eval_run(&o, &in, out, &k->why);
	tensorfile_fini(&in);
	return rc;
}

/* Positions may come in any order and more than once. */
static void test_positions(void **state)
{
	static const int32_t tokens[] = { 0, 5, 9, 1000, 77, 8, 8 }, some[] = { 5, 2, 6, 2 };
	static const int32_t all[] = { 0, 1, 2, 3, 4, 5, 6 };
	struct tinykit *k = *state;
	size_t row = (size_t)k->vocab;
	struct tensorfile a = { 0 }, b = { 0 };
	const float *la, *lb, *mtp;

	assert_int_equal(run(k, tokens, 7, some, 4, &a), 0);
	assert_int_equal(run(k, tokens, 7, all, 7, &b), 0);
	la = tensorfile_find(&a, "x.logits")->f32;
	lb = tensorfile_find(&b, "x.logits")->f32;
	mtp = tensorfile_find(&a, "x.mtp")->f32;
	for (size_t i = 0; i < 4; i++)
		assert_memory_equal(la + i * row, lb + (size_t)some[i] * row, row * sizeof *la);
	assert_true(isnan(mtp[2 * row]));
	assert_false(isnan(mtp[row]));
	assert_memory_equal(mtp + row, mtp + 3 * row, row * sizeof *mtp);
	assert_memory_equal(tensorfile_find(&a, "x.positions")->i32, some, sizeof some);
	assert_int_equal(tensorfile_find(&a, "x.rows.2")->dim[1], k->model->config->index_topk);
	assert_null(tensorfile_find(&a, "x.rows.3"));
	tensorfile_fini(&a);
	tensorfile_fini(&b);
}

static void test_bad_cases(void **state)
{
	static const int32_t tokens[] = { 1, 2, 3 }, bad[] = { 1, 99999, 3 }, beyond[] = { 3 },
		below[] = { -1 }, last[] = { 2 };
	struct tinykit *k = *state;
	struct tensorfile out = { 0 }, in = { 0 };
	struct eval_options o = { k->model, k->pool, k->ref, k->native, 3, false };

	assert_int_equal(run(k, tokens, 3, NULL, 0, &out), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "x.positions: missing, or not of integers");
	assert_int_equal(run(k, tokens, 3, beyond, 1, &out), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "x.positions: 3 is outside the 3 tokens");
	assert_int_equal(run(k, tokens, 3, below, 1, &out), RC_INVALID);
	assert_int_equal(run(k, bad, 3, last, 1, &out), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "token 1 is 99999; the vocabulary has 0 to 2047");
	assert_int_equal(run(k, tokens, 0, last, 1, &out), RC_INVALID);
	assert_int_equal(eval_run(&o, &in, &out, &k->why), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "no tensor is named NAME.tokens");
	add_f32(&in, "x.tokens", 2, 0, (const float[]){ 1, 2 });
	assert_int_equal(eval_run(&o, &in, &out, &k->why), RC_INVALID);
	assert_string_equal(buf_str(&k->why), "x.tokens: expected a list of integers");
	tensorfile_fini(&in);
	tensorfile_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_round_trip),
		cmocka_unit_test(test_float_verdicts),
		cmocka_unit_test(test_nan_verdicts),
		cmocka_unit_test(test_set_verdicts),
		cmocka_unit_test(test_shapes_and_names),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_bad_cases),
	};

	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
