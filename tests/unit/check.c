/* SPDX-License-Identifier: MIT
 * check.c - tests of the check library: ref passes, and kernels that are wrong in one way get exactly that verdict.
 * Threads: the library's. Locks: none. */
#include "engine/base/mem.h"
#include "plugins/check/check.h"
#include "plugins/check/golden.h"
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"
#include "tests/unit/sanitized.h"

#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- kernels, each wrong in one way: ref, and then something ---- */

#define RMS(name) static int name(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)

RMS(wrong_value)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->n_row > 2)
		a->y[2 * a->ldy + a->dim / 2] *= 1.001f;
	return rc;
}

/* The same for any batch: of every row. */
RMS(wrong_row)
{
	int rc = ref_rms_norm(x, host, a);

	for (int64_t i = 0; i < a->n_row; i++)
		a->y[i * a->ldy + a->dim / 2] *= 1.001f;
	return rc;
}

RMS(wrong_past_end)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->n_row > 0)
		a->y[(a->n_row - 1) * a->ldy + a->dim] = 1;
	return rc;
}

RMS(wrong_before_start)
{
	a->y[-1] = 1;
	return ref_rms_norm(x, host, a);
}

/* Columns between rows that belong to nobody. */
RMS(wrong_gap)
{
	int rc = ref_rms_norm(x, host, a);

	for (int64_t i = 0; i + 1 < a->n_row && a->ldy > a->dim; i++)
		a->y[(i + 1) * a->ldy - 1] = 0;
	return rc;
}

RMS(wrong_input)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->n_row > 0 && a->x != a->y)
		((float *)a->x)[0] += 1;
	return rc;
}

/* Past the end of an input that another call may own. */
RMS(wrong_input_end)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->weight)
		((float *)a->weight)[a->dim] = 0;
	return rc;
}

RMS(wrong_batch)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->n_row > 1)
		a->y[0] = nextafterf(a->y[0], 9);
	return rc;
}

RMS(wrong_threads)
{
	int rc = ref_rms_norm(x, host, a);

	if (a->n_row > 0 && host->n_threads(x) > 1)
		a->y[0] = nextafterf(a->y[0], 9);
	return rc;
}

static void wrong_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rms_norm *a = arg;

	for (int64_t i = begin; i < end; i++)
		a->y[i * a->ldy] += (float)(i - begin) * 1e-3f;
}

RMS(wrong_split)
{
	struct dsv4_rms_norm c = *a;
	int rc = ref_rms_norm(x, host, a);

	host->parallel_for(x, a->n_row, 1, wrong_slice, &c);
	return rc;
}

RMS(wrong_error)
{
	(void)x;
	(void)host;
	(void)a;
	return -EIO;
}

RMS(wrong_positive)
{
	int rc = ref_rms_norm(x, host, a);

	return rc ? rc : 1;
}

RMS(wrong_nan)
{
	int rc = ref_rms_norm(x, host, a);

	for (int64_t i = 0; i < a->n_row; i++)
		a->y[i * a->ldy] = NAN;
	return rc;
}

/* Leaves the first element of each row as it was. */
RMS(wrong_unwritten)
{
	float *y = a->y, *old = host->scratch(x, (size_t)(a->n_row + 1) * sizeof *old);
	int rc;

	if (!old)
		return -ENOMEM;
	for (int64_t i = 0; i < a->n_row; i++)
		old[i] = y[i * a->ldy];
	rc = ref_rms_norm(x, host, a);
	for (int64_t i = 0; i < a->n_row; i++)
		y[i * a->ldy] = old[i];
	return rc;
}

/* Adds what stands in scratch memory that nobody wrote. */
RMS(wrong_scratch)
{
	const float *s = host->scratch(x, 64);
	int rc = ref_rms_norm(x, host, a);

	if (!s)
		return -ENOMEM;
	for (int64_t i = 0; i < a->n_row; i++)
		a->y[i * a->ldy] = fmaxf(a->y[i * a->ldy], s[3]);
	return rc;
}

RMS(wrong_scratch_end)
{
	float *s = host->scratch(x, 64);

	if (!s)
		return -ENOMEM;
	s[16] = 1;
	return ref_rms_norm(x, host, a);
}

/* Goes on when there is no scratch memory. */
RMS(wrong_scratch_none)
{
	int rc = ref_rms_norm(x, host, a);

	if (!host->scratch(x, 64) && a->n_row > 0)
		a->y[0] = 0;
	return rc;
}

RMS(wrong_alloc)
{
	host->release(host, host->alloc(host, 64));
	return ref_rms_norm(x, host, a);
}

struct wrong_nested { struct dsv4_exec *x; const struct dsv4_host *host; };

static void wrong_nothing(void *arg, int64_t begin, int64_t end)
{
	(void)arg;
	(void)begin;
	(void)end;
}

static void wrong_nested_slice(void *arg, int64_t begin, int64_t end)
{
	const struct wrong_nested *n = arg;

	if (begin == 0 && end > 0)
		n->host->parallel_for(n->x, 1, 1, wrong_nothing, NULL);
}

RMS(wrong_nesting)
{
	struct wrong_nested n = { x, host };

	host->parallel_for(x, a->n_row, 1, wrong_nested_slice, &n);
	return ref_rms_norm(x, host, a);
}

/* Right in all but the rounding that is asked for. */
static int wrong_prec(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	struct dsv4_hc_post c = *a;

	c.prec = DSV4_PREC_FP32;
	return ref_hc_post(x, host, &c);
}

static int wrong_round(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rope *a)
{
	struct dsv4_rope c = *a;

	c.kv = DSV4_ROUND_NONE;
	return ref_rope(x, host, &c);
}

/* Of the rows whose score is that of the last one chosen, takes the highest. */
static int wrong_tie(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	int rc = ref_index_topk(x, host, a);

	for (int32_t t = 0; t < a->n_tok && a->score; t++) {
		int32_t n = a->count[t], *rows = a->rows + t * a->ldr;
		const float *score = a->score + t * a->lds;

		if (n < 1 || a->n_vis[t] <= n)
			continue;
		for (int32_t i = rows[n - 1] + 1; i < a->n_vis[t]; i++)
			if (score[i] == score[rows[n - 1]])
				rows[n - 1] = i;
	}
	return rc;
}

/* Writes rows that were not asked for. */
static int wrong_rows(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	int rc = ref_index_topk(x, host, a);

	for (int32_t t = 0; t < a->n_tok; t++)
		for (int64_t i = a->count[t]; i < a->k; i++)
			a->rows[t * a->ldr + i] = -1;
	return rc;
}

/* Scores rows that are there but that the token does not see yet. */
static int wrong_unseen(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	int rc = ref_index_score(x, host, a);

	for (int32_t i = 0; i < a->n_seq; i++)
		for (int32_t t = a->seq[i].tok0; t < a->seq[i].tok0 + a->seq[i].n_tok; t++)
			a->score[t * a->lds + a->lds - 1] = 0;
	return rc;
}

/* ---- the table ---- */

#define ENTRY(name, num, f) \
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##name, .phases = DSV4_PHASES_BOTH, .wfmts = ~0u, \
	  .numerics = DSV4_##num, .tag = "test", .fn = (dsv4_any_f *)(1 ? f : (dsv4_##name##_f *)0) }

static const struct check_wrong {
	struct dsv4_op_entry entry;
	enum check_verdict verdict;
	const char *detail; /* what its text must say */
} check_wrongs[] = {
	{ ENTRY(rms_norm, EXACT, wrong_value), CHECK_NOT_IDENTICAL, "y[2]" },
	{ ENTRY(rms_norm, EXACT, wrong_row), CHECK_WRONG, "expected" },
	{ ENTRY(rms_norm, ORDER, wrong_row), CHECK_WRONG, "expected" },
	{ ENTRY(rms_norm, EXACT, wrong_past_end), CHECK_OUT_OF_BOUNDS, "of y" },
	{ ENTRY(rms_norm, EXACT, wrong_before_start), CHECK_OUT_OF_BOUNDS, "byte -1 of y" },
	{ ENTRY(rms_norm, EXACT, wrong_gap), CHECK_OUT_OF_BOUNDS, "past its" },
	{ ENTRY(rms_norm, EXACT, wrong_input), CHECK_OUT_OF_BOUNDS, "of input" },
	{ ENTRY(rms_norm, EXACT, wrong_input_end), CHECK_OUT_OF_BOUNDS, "of input" },
	{ ENTRY(rms_norm, EXACT, wrong_batch), CHECK_NOT_IDENTICAL, "one token at a time" },
	{ ENTRY(rms_norm, LOSSY, wrong_batch), CHECK_NOT_IDENTICAL, "one token at a time" },
	{ ENTRY(rms_norm, EXACT, wrong_threads), CHECK_NOT_IDENTICAL, "two threads" },
	{ ENTRY(rms_norm, EXACT, wrong_split), CHECK_NOT_IDENTICAL, "two threads" },
	{ ENTRY(rms_norm, EXACT, wrong_error), CHECK_FAILED, "returned -5" },
	{ ENTRY(rms_norm, EXACT, wrong_positive), CHECK_FAILED, "returned 1" },
	{ ENTRY(rms_norm, EXACT, wrong_nan), CHECK_WRONG, "nan" },
	{ ENTRY(rms_norm, LOSSY, wrong_nan), CHECK_WRONG, "nan" },
	{ ENTRY(rms_norm, EXACT, wrong_unwritten), CHECK_WRONG, "cdcdcdcd" },
	{ ENTRY(rms_norm, EXACT, wrong_scratch), CHECK_NOT_IDENTICAL, "got 0.75" },
	{ ENTRY(rms_norm, EXACT, wrong_scratch_end), CHECK_OUT_OF_BOUNDS, "outside its scratch" },
	{ ENTRY(rms_norm, EXACT, wrong_scratch_none), CHECK_NOT_IDENTICAL, "without scratch" },
	{ ENTRY(rms_norm, EXACT, wrong_alloc), CHECK_FAILED, "alloc" },
	{ ENTRY(rms_norm, EXACT, wrong_nesting), CHECK_FAILED, "inside a slice" },
	{ ENTRY(hc_post, EXACT, wrong_prec), CHECK_WRONG, "bf16" },
	{ ENTRY(hc_post, ORDER, wrong_prec), CHECK_WRONG, "bf16" },
	{ ENTRY(rope, EXACT, wrong_round), CHECK_WRONG, "kv round" },
	{ ENTRY(rope, ORDER, wrong_round), CHECK_WRONG, "kv round" },
	{ ENTRY(index_topk, EXACT, wrong_tie), CHECK_WRONG, "rows[" },
	{ ENTRY(index_topk, ORDER, wrong_tie), CHECK_WRONG, "rows[" },
	{ ENTRY(index_topk, EXACT, wrong_rows), CHECK_OUT_OF_BOUNDS, "rows[" },
	{ ENTRY(index_score, EXACT, wrong_unseen), CHECK_OUT_OF_BOUNDS, "score[" },
	{ ENTRY(index_score, LOSSY, wrong_unseen), CHECK_OUT_OF_BOUNDS, "score[" },
};

static const struct dsv4_host check_base = { .size = sizeof check_base, .abi_major = DSV4_ABI_MAJOR };

struct check_seen {
	const struct check_wrong *wrong; /* NULL: all pass */
	int n_row, n_case, at; /* at: of the wrong one in the table */
};

static void check_see(void *arg, const struct check_row *row)
{
	struct check_seen *s = arg;

	s->n_row++;
	s->n_case += row->n_case;
	if (!s->wrong && row->verdict != CHECK_PASS)
		fail_msg("%s: %s: %s", op_name(row->op), check_verdict_name(row->verdict), row->detail);
	if (!s->wrong)
		return;
	if (row->verdict != s->wrong->verdict || !strstr(row->detail, s->wrong->detail))
		fail_msg("kernel %d, %s: %s: \"%s\" should be %s: \"...%s...\"", s->at, op_name(row->op),
			 check_verdict_name(row->verdict), row->detail, check_verdict_name(s->wrong->verdict),
			 s->wrong->detail);
}

static void test_each_wrong_kernel_gets_its_verdict(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(check_wrongs); i++)
		for (int quick = 0; quick < 2; quick++) {
			const struct dsv4_plugin p = { .name = "wrong", .n_op = 1, .op = &check_wrongs[i].entry };
			struct check_seen s = { .wrong = &check_wrongs[i], .at = (int)i };
			const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .quick = quick,
							 .op = -1, .report = check_see, .arg = &s };

			assert_int_equal(check_plugin(&p, &check_base, &o), 2);
			assert_int_equal(s.n_row, 2);
		}
}

static void test_ref_passes_whatever_the_values(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed += WARM_STEP) { /* with a fence and without in every build */
		struct check_seen s = { 0 };
		const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .seed = seed, .quick = true,
						 .op = -1, .fence = seed % 2, .report = check_see, .arg = &s };

		assert_int_equal(check_plugin(&ref_plugin, &check_base, &o), 0);
		/* Every op, two phases; three ops in five weight formats. */
		assert_int_equal(s.n_row, 2 * (DSV4_N_OP - 3 + 3 * DSV4_N_WFMT));
		assert_true(s.n_case > 10 * s.n_row);
	}
}

/* ref under looser markings: what the cases are made of leaves its numbers alone. */
static void test_ref_passes_as_order_and_lossy(void **state)
{
	struct dsv4_op_entry e[DSV4_N_OP];
	const struct dsv4_plugin p = { .name = "ref-loose", .n_op = DSV4_N_OP, .op = e };

	(void)state;
	for (uint32_t numerics = DSV4_ORDER; numerics <= DSV4_LOSSY; numerics++) {
		struct check_seen s = { 0 };
		const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .quick = true, .op = -1,
						 .report = check_see, .arg = &s };

		memcpy(e, ref_plugin.op, sizeof e);
		for (int i = 0; i < DSV4_N_OP; i++)
			e[i].numerics = numerics;
		assert_int_equal(check_plugin(&p, &check_base, &o), 0);
		assert_true(s.n_case > 5 * s.n_row);
	}
}

/* A shape without a dimension leaves out the cases that need it; sizes that are no shape's are still tried. */
static void test_a_shape_may_lack_dimensions(void **state)
{
	static const struct check_shape shape = { .name = "model", .hidden = 64, .hc = 4 };
	struct check_seen s = { 0 };
	const struct check_options o = { .shape = &shape, .n_shape = 1, .quick = true, .op = -1, .report = check_see,
					 .arg = &s };

	(void)state;
	assert_int_equal(check_plugin(&ref_plugin, &check_base, &o), 0);
	assert_true(s.n_case > 0);
}

static void test_one_case_of_each_row(void **state)
{
	struct check_seen s = { 0 };
	const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .quick = true, .first = true,
					 .op = -1, .report = check_see, .arg = &s };

	(void)state;
	assert_int_equal(check_plugin(&ref_plugin, &check_base, &o), 0);
	assert_int_equal(s.n_row, 2 * (DSV4_N_OP - 3 + 3 * DSV4_N_WFMT));
	assert_int_equal(s.n_case, s.n_row);
}

static void test_one_op_alone(void **state)
{
	struct check_seen s = { 0 };
	const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .quick = true,
					 .op = DSV4_OP_index_topk, .report = check_see, .arg = &s };

	(void)state;
	assert_int_equal(check_plugin(&ref_plugin, &check_base, &o), 0);
	assert_int_equal(s.n_row, 2);
}

static void test_cancel(void **state)
{
	atomic_bool cancel = true;
	struct check_seen s = { 0 };
	const struct check_options o = { .quick = true, .op = -1, .cancel = &cancel, .report = check_see, .arg = &s };
	const struct check_bench_options b = { .op = -1, .cancel = &cancel };

	(void)state;
	assert_int_equal(check_plugin(&ref_plugin, &check_base, &o), -ECANCELED);
	assert_int_equal(check_bench(&ref_plugin, &check_base, &b), -ECANCELED);
	assert_int_equal(s.n_row, 0);
}

/* Reads what stands behind its input, which changes nothing. */
RMS(wrong_read)
{
	volatile float behind = a->n_row > 0 ? a->x[(a->n_row - 1) * a->ldx + a->dim] : 0;

	(void)behind;
	return ref_rms_norm(x, host, a);
}

/* Exits with what check_plugin() returned, unless a signal comes first. */
static int check_in_child(bool fence, char doing[CHECK_DOING])
{
	static const struct dsv4_op_entry e = ENTRY(rms_norm, EXACT, wrong_read);
	const struct dsv4_plugin p = { .name = "reads", .n_op = 1, .op = &e };
	const struct check_options o = { .shape = &check_shape_tiny, .n_shape = 1, .quick = true, .op = -1,
					 .fence = fence, .doing = doing };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would report it */
		_exit(check_plugin(&p, &check_base, &o));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_a_read_past_an_input_dies_at_a_fence(void **state)
{
	char *doing = mmap(NULL, CHECK_DOING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	(void)state;
	assert_true(doing != MAP_FAILED);
	status = check_in_child(true, doing);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_non_null(strstr(doing, "rms_norm tiny"));
	status = check_in_child(false, doing); /* guard bytes cannot see it */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(munmap(doing, CHECK_DOING), 0);
}

/* ---- speed ---- */

static void check_see_speed(void *arg, const struct check_speed *s)
{
	int *n = arg;

	assert_true(s->ns > 0 && s->ref_ns > 0 && s->bytes > 0 && s->flops > 0);
	(*n)++;
}

static void test_bench_times_every_slot(void **state)
{
	static const struct dsv4_op_entry broken = ENTRY(rms_norm, EXACT, wrong_error);
	const struct dsv4_plugin p = { .name = "broken", .n_op = 1, .op = &broken };
	int n = 0;
	const struct check_bench_options b = { .shape = &check_shape_tiny, .n_shape = 1, .op = DSV4_OP_rms_norm,
					       .n_threads = 2, .report = check_see_speed, .arg = &n };

	(void)state;
	assert_int_equal(check_bench(&ref_plugin, &check_base, &b), 0);
	assert_int_equal(n, 2);
	assert_int_equal(check_bench(&p, &check_base, &b), 2);
	assert_int_equal(n, 2);
}

static void test_roofs_are_measured(void **state)
{
	struct check_roof r;

	(void)state;
	assert_int_equal(check_roof_measure(1, &r), 0);
	assert_true(r.bytes_s > 0 && r.flops_s > 0);
	assert_int_equal(r.n_threads, 1);
}

/* A rebuilt program or another libm is told from this one: other arithmetic, as rounding
 * upwards is, has another digest. */
static void test_golden_tells_arithmetics_apart(void **state)
{
	uint8_t a[32], b[32], up[32];

	(void)state;
	assert_int_equal(check_golden(a), 0);
	assert_int_equal(check_golden(b), 0);
	assert_memory_equal(a, b, sizeof a);
	assert_int_equal(fesetround(FE_UPWARD), 0);
	assert_int_equal(check_golden(up), 0);
	assert_int_equal(fesetround(FE_TONEAREST), 0);
	assert_memory_not_equal(a, up, sizeof a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_wrong_kernel_gets_its_verdict),
		cmocka_unit_test(test_ref_passes_whatever_the_values),
		cmocka_unit_test(test_ref_passes_as_order_and_lossy),
		cmocka_unit_test(test_a_shape_may_lack_dimensions),
		cmocka_unit_test(test_one_case_of_each_row),
		cmocka_unit_test(test_one_op_alone),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_a_read_past_an_input_dies_at_a_fence),
		cmocka_unit_test(test_bench_times_every_slot),
		cmocka_unit_test(test_roofs_are_measured),
		cmocka_unit_test(test_golden_tells_arithmetics_apart),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
