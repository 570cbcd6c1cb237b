/* SPDX-License-Identifier: MIT
 * case.h - one call of an op on made-up inputs, and the table that says how each op's cases are made.
 * Threads: one per case. Locks: none.
 *
 * How an op gets its cases. A file case_NAME.c holds a static table of what to try: extents, values, roundings,
 * one row per case. Its make function turns row i into arguments, every input in buffers of case_alloc() and
 * its relatives, and leaves output pointers NULL: the driver (check.c) asks op_outputs() where the outputs
 * are and points them at guarded memory of its own, op after op. An output that is also an input (in_place) is
 * made like any input; the driver works on copies. All randomness is c's own. */
#ifndef CHECK_CASE_H
#define CHECK_CASE_H

#include "plugins/check/check.h"
#include "plugins/check/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What floats to fill with. Hostile ones stay out of cases for LOSSY entries, whose rounding they blow up. */
enum case_values {
	CASE_PLAIN,     /* uniform in (-scale, scale) */
	CASE_BIG,       /* up to 1000 * scale: still a model's; for entries of any kind */
	CASE_ZERO,
	CASE_SIGNED_ZERO, /* 0 and -0 */
	CASE_DENORMAL,  /* magnitudes about 2^-130 */
	CASE_LARGE,     /* up to 1e15 * scale: squares still sum */
	CASE_HUGE,      /* up to the largest float: sums overflow; only for entries of the same bits */
	CASE_FP4,       /* e2m1 values times 1, 2 or 4, and one in thousands far less: most rows are small integers */
	CASE_MIXED,     /* exponents over 2^-30..2^30, so that cancellation and order show */
	CASE_NAN,       /* plain, one in eight NaN; where the op's contract speaks of NaN */
	CASE_N_VALUES
};
const char *case_values_name(enum case_values v);

union case_args {
#define OP(op, family, args, text) struct args op;
#include "plugins/ops.def"
#undef OP
};

#define CASE_MAX_SEQ 64
#define CASE_N_TOK_ANY (-1) /* in a table of cases: see case_n_tok() */
#define CASE_MAX_TOK 256    /* the most tokens that are drawn */
#define CASE_MAX_DECODE 64 /* tokens of a decode batch: as many requests run at once, unless max_running says more */

struct check_case {
	union case_args args;
	char name[128];     /* "tiny 7 tok, dim 33, zero": what a failure is reported under */
	int want_rc;        /* what the op must return: 0, or the -errno its contract names; outputs then free */
	float step;         /* coarsest relative step the op rounds to on its way (case_step()); 0: none. A sum
	                     * that falls on the other side of a rounding edge moves a value by so much. */
	int64_t spread;     /* output values that one such value moves; 0: itself alone */
	int together;       /* rows of op_rows() that no split parts; 0: each may be a call of its own */
	float typical;      /* what an output value is about, where cancellation may leave next to nothing in a case of
	                     * few values: errors are then relative to no less than this; 0: to the values alone */
	/* The rest is case.c's. */
	int rc;             /* 0 or -ENOMEM */
	uint64_t rng;
	enum guard_place place;
	const struct guard_memory *memory; /* of buffers without fences; NULL: malloc */
	struct guard *buf;  /* [n_buf] */
	int n_buf;
};

/* What the driver wants. */
struct case_spec {
	const struct check_shape *shape;
	enum dsv4_phase phase;         /* DECODE: one token per sequence */
	enum dsv4_wfmt wfmt;           /* of the op's weights, if it has any */
	enum dsv4_numerics numerics;   /* of the entry under test */
	int abi_minor;                 /* of its plugin, which knows nothing of what came later */
	bool quick;
	bool odd;                      /* also make the cases whose sizes are no shape's */
	int n_tok;                     /* for bench: so many tokens */
	bool packed;                   /* for bench: with repacked copies of weights that have such a form */
};

#define CASE_SKIP 1

struct case_op {
	int n;              /* rows of the table of cases */
	/* Makes case i in c, which case_init() prepared. 0, CASE_SKIP when row i has nothing to say for this spec
	 * (shape, phase, quick, numerics), or c->rc. */
	int (*make)(struct check_case *c, const struct case_spec *s, int i);
	/* An ordinary call at full size: native numerics, s->n_tok tokens (DECODE: sequences). */
	int (*bench)(struct check_case *c, const struct case_spec *s);
	/* Makes *a, a case's arguments with output pointers set, the call for its tokens [t0, t0 + n) alone (rows of
	 * op_rows()), by moving pointers. mem [CASE_MAX_SEQ] is for the sequences that stay in it. */
	void (*slice)(union case_args *a, int64_t t0, int64_t n, struct dsv4_seq *mem);
	/* Takes the repacked copies of weights out of *a; were there any? NULL: the op knows none. */
	bool (*native)(union case_args *a);
	/* For outputs that are sets: the value `id` of row t was ranked by, in double; two ids whose values lie
	 * within the entry's rounding may stand for each other. NaN when it is no id. NULL: the sets must be
	 * equal. */
	double (*rank)(const union case_args *a, int64_t t, int32_t id);
	/* How many values of row t of output `which` the op may write; NULL: the valid ones, and no others. */
	int64_t (*may_write)(const union case_args *a, int which, int64_t t);
	bool weighted;      /* has a weight format */
};

/* [DSV4_N_OP] */
extern const struct case_op *const case_ops[DSV4_N_OP];
extern const struct case_op case_linear, case_rms_norm, case_rope, case_hc_pre, case_hc_post, case_hc_head,
	case_compress, case_index_score, case_index_topk, case_attn, case_moe_route, case_moe_experts, case_sum;

/* An empty case; its buffers will be guarded at `place`. */
void case_init(struct check_case *c, uint64_t seed, enum guard_place place);
/* Guarded memory of the kind that c's buffers have. -ENOMEM. */
int case_guard(const struct check_case *c, struct guard *g, size_t size, size_t skew);
void case_fini(struct check_case *c);
/* Remembers what all buffers hold, so that a change shows. 0 or c->rc. */
int case_keep(struct check_case *c);
void case_name(struct check_case *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- random numbers of a case ---- */

int64_t case_below(struct check_case *c, int64_t n);         /* [0, n) */
float case_uniform(struct check_case *c, float lo, float hi); /* [lo, hi) */

/* ---- input buffers; NULL and c->rc when memory is short, which the fillers below pass over ---- */

/* `align`: the address is a multiple of it (of 64 if the size is, too), and, fences apart and 64, of no more. 0 bytes:
 * a pointer that must not be read. */
void *case_alloc(struct check_case *c, size_t bytes, size_t align);
float *case_floats(struct check_case *c, int64_t n, enum case_values v, float scale);
/* cos and sin of n_row positions: [n_row][rot/2][2]. */
float *case_rotations(struct check_case *c, int64_t n_row, int rot);
/* A random matrix at odd addresses. Values are such that x of size 1 gives y of about 1. */
void case_weight(struct check_case *c, struct dsv4_weight *w, enum dsv4_wfmt fmt, enum dsv4_sfmt sfmt,
		 int64_t rows, int64_t cols);
/* n rows of dim floats in pages of page_rows, at scattered addresses. */
void case_rows(struct check_case *c, struct dsv4_rows *r, int64_t n, int dim, int64_t page_rows,
	       enum case_values v, float scale);

/* ---- for make and slice functions ---- */

/* Does the spec want a row of a table: `odd` when its sizes are no shape's, `quick` when a quick check has it
 * too, v the values it fills with. */
bool case_wanted(const struct case_spec *s, bool odd, bool quick, enum case_values v);

/* How many tokens a row of a table is for: n itself, or, of CASE_N_TOK_ANY, a number drawn from the case's seed, every
 * one up to `most` in turn over many seeds, small ones and the multiples of 8 more often; in DECODE no more than
 * CASE_MAX_DECODE. */
int case_n_tok(struct check_case *c, const struct case_spec *s, int n, int most);

/* Step from one value of a format to the next, of 1: NONE 0, BF16 2^-7, FP8 2^-3, FP4 2^-1. */
float case_step(enum dsv4_round r);
/* Cuts sequences to the tokens [t0, t0 + n) of their batch: fills mem, returns how many stay. */
int case_slice_seqs(const struct dsv4_seq *seq, int n_seq, int64_t t0, int64_t n, struct dsv4_seq *mem);

#endif
