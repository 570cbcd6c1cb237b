/* SPDX-License-Identifier: MIT
 * dsv4_plugin.h - everything a kernel plugin needs to know, and all it may know.
 *
 * The life of a plugin. It is one shared object that exports one constant, `dsv4_plugin_descriptor`; the macro
 * DSV4_PLUGIN at the end of this header makes it from one table. The daemon first reads the file without
 * running it (the same table stands in it as JSON between two markers), copies it to a fresh name, tries it in
 * a child process, then maps the copy, calls open() and warm(), and checks each op against `ref` before a
 * kernel set may use it. From then on the engine calls ops, on several threads at once (comparisons run beside steps),
 * each thread with an exec of its own; an op may spread its work with host->parallel_for and returns when all of it is
 * done. When no set and no request uses the plugin any more, close() is called and the copy is unmapped. One plugin may
 * be mapped several times at once, each time as a fresh copy with its own state.
 *
 * So a plugin keeps no threads, no atexit, no constructors, no thread-local destructors and no writable
 * globals, and imports nothing but libc and libm: each of those would outlive the mapping. What it must
 * remember stands behind host->state.
 *
 * Rules for an op: read the argument struct, write only the documented outputs, allocate only with
 * host->scratch, return 0 or -errno. On the CPU every output element is summed in one order that depends
 * on that element alone: the result must be the same bits for any n_tok, any split of tokens into
 * calls, and any number of threads.
 *
 * Notation: [a][b] is row-major. All activations are fp32. "tok" counts tokens of the batch, flattened over
 * sequences. Equations: doc/format.md section 3; `plugins/ref` is the definition.
 *
 * ABI history (a plugin loads if its major equals the daemon's and its minor is not newer):
 *   1.0  first version
 *   1.1  dsv4_moe_experts.packed
 *   1.2  dsv4_op_entry.reads; GPUs: dsv4_host.gpu, dsv4_moe_experts.expert_table
 *   1.3  sum; experts that are not here (dsv4_moe_experts) */
#ifndef DSV4_PLUGIN_H
#define DSV4_PLUGIN_H

#include "dsv4_numfmt.h"

#include <stddef.h>
#include <stdint.h>

#define DSV4_ABI_MAJOR 1
#define DSV4_ABI_MINOR 3
#define DSV4_PLUGIN_MAGIC 0x34767364u /* "dsv4" */
#define DSV4_BUILD_SIGNATURE "dsv4-abi-1 lp64 le"

enum dsv4_family {
	DSV4_GEMM, DSV4_NORM, DSV4_MHC, DSV4_COMPRESS, DSV4_INDEXER, DSV4_ATTENTION, DSV4_MOE,
	DSV4_N_FAMILY
};
/* DECODE: the newest tokens of answers, mostly one of each sequence, but consecutive ones where the engine lets guesses
 * be verified: an op sees from its arguments how many there are. */
enum dsv4_phase { DSV4_PREFILL, DSV4_DECODE, DSV4_N_PHASE };

/* ---- numerics in force; each op reads the ones that concern it ---- */

enum dsv4_round {            /* how a stored row is rounded */
	DSV4_ROUND_NONE,     /* f32 */
	DSV4_ROUND_BF16,
	DSV4_ROUND_FP8,      /* e4m3, power-of-two scale per 64 values of a KV row, or one for an index row */
	DSV4_ROUND_FP4       /* e2m1, power-of-two scale per 32 values, after a Hadamard rotation */
};
enum dsv4_act { DSV4_ACT_NONE, DSV4_ACT_FP8 }; /* activations before FP8/FP4 weights: e4m3 per 128 columns */
enum dsv4_prec { DSV4_PREC_FP32, DSV4_PREC_BF16 };

/* ---- weights ---- */

enum dsv4_wfmt { DSV4_W_F32, DSV4_W_BF16, DSV4_W_FP8, DSV4_W_FP4, DSV4_W_NVFP4, DSV4_N_WFMT };
enum dsv4_sfmt { DSV4_S_NONE, DSV4_S_E8M0, DSV4_S_F32, DSV4_S_E4M3 };

/* One matrix [rows][cols], row-major, straight from the checkpoint's mapping.
 * FP8:   data u8 e4m3 [rows][cols]; scale [ceil(rows/128)][ceil(cols/128)] E8M0 or F32.
 * FP4:   data u8 [rows][ceil(cols/2)], low nibble = even column; scale E8M0 [rows][ceil(cols/32)].
 * NVFP4: data as FP4; scale E4M3 [rows][ceil(cols/16)]; value = fp4 * (scale * scale2).
 * data and scale may be unaligned (safetensors aligns nothing): load with memcpy or unaligned loads. */
struct dsv4_weight {
	uint32_t size;              /* sizeof(struct dsv4_weight) */
	uint8_t fmt, sfmt;          /* enum dsv4_wfmt, enum dsv4_sfmt */
	uint8_t pad[2];
	int64_t rows, cols;
	const void *data, *scale;   /* scale NULL for F32 and BF16 */
	float scale2;               /* NVFP4 only, else 1 */
};

/* ---- stored rows (KV rows, index keys), in pages so that cache blocks can be shared ---- */

/* Row i is page[i / page_rows] + (i % page_rows) * dim floats. Values are already rounded. */
struct dsv4_rows {
	uint32_t size;
	uint32_t dim;
	int64_t n;                  /* rows present */
	int64_t page_rows;          /* >= 1 */
	const float *const *page;
};

/* One sequence's part of a batch: tokens [tok0, tok0 + n_tok) of the flat batch, at consecutive positions. */
struct dsv4_seq {
	uint32_t size;
	int32_t tok0, n_tok;
	int32_t ratio;              /* compression ratio of this layer; 0: no compressed rows */
	int64_t pos0;               /* position of the first of these tokens */
	const float *window;        /* [.][dim] KV rows of consecutive positions, the last token's included */
	int64_t window_pos0;        /* position of window[0]; every token's window lies inside */
	struct dsv4_rows kv;        /* compressed KV rows; token at pos p sees rows n < (p + 1) / ratio */
	struct dsv4_rows key;       /* indexer keys, same count (CSA layers) */
};

/* ---- execution context ---- */

struct dsv4_exec;                   /* the host's; opaque */

/* Called for slices [begin, end) of [0, n); may run on any pool thread. */
typedef void dsv4_slice_f(void *arg, int64_t begin, int64_t end);

struct dsv4_host {
	uint32_t size;
	uint16_t abi_major, abi_minor;
	/* Splits [0, n) in chunks of about `grain` and returns when all are done. Not from inside a slice. */
	void (*parallel_for)(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg);
	/* 64-byte aligned memory, not cleared, valid until the op returns; NULL if short. Not in a slice. */
	void *(*scratch)(struct dsv4_exec *x, size_t bytes);
	int (*n_threads)(struct dsv4_exec *x);

	/* The rest is for open(), warm() and close(); ops may read `state`. */

	/* 64-byte aligned, cleared; NULL if short. What close() has not released is reported as a leak. */
	void *(*alloc)(const struct dsv4_host *host, size_t bytes);
	void (*release)(const struct dsv4_host *host, void *p);      /* p may be NULL */
	void (*log)(const struct dsv4_host *host, int level, const char *text); /* level as in syslog(3) */
	void *state;                                /* what open() returned for this table */
	const struct dsv4_gpu *gpu;                 /* for a plugin that names GPU features, else NULL; since 1.2 */
};

/* ---- GPUs (since 1.2) ----
 *
 * A plugin whose `gpu` is not "" computes on GPUs: opened on each, with a host table and a state of its own. Its ops
 * queue kernels on the step's stream and never wait. The host serializes: what one op wrote the next op reads. parallel_for
 * and n_threads are not for it; scratch gives device memory, valid until the kernels that this op has queued are done.
 *
 * In its argument structs every pointer to numbers (x, y, weights' data and scale, page arrays and pages, windows, sinks,
 * ids, tables of hash routing) is a device address, and unaligned weights stay unaligned. What describes is in host
 * memory: the argument struct itself, weights, seq [n_seq], expert [n_expert], shared [n_shared]; upload() makes a copy
 * that a kernel can read. What ops on the CPU check of values (ids in range) a GPU's cannot return: bad ids are left out.
 *
 * Bit identity as on the CPU (any batch, split of tokens, prefill or decode) is promised by the entries whose tag says
 * nothing else; the order of a sum must not depend on the grid. */
struct dsv4_module;                 /* loaded code; the host's, opaque */
struct dsv4_kernel;                 /* one function of it; the host's, opaque */

struct dsv4_launch {
	uint32_t grid[3], block[3];
	uint32_t shared;            /* bytes of dynamic shared memory, at most what kernel() was told */
	const void *args;           /* the kernel's only parameter, a struct: copied before launch() returns */
	size_t args_bytes;          /* at most 4096 */
};

struct dsv4_gpu {
	uint32_t size;
	int sm;                     /* compute capability, e.g. 90 */
	int n_sm;                   /* multiprocessors */
	size_t shared_max;          /* bytes of shared memory that one block may have */

	/* For open() and warm(). image: fatbin, cubin or PTX text; unloaded after close(). 0, -ENOEXEC (nothing in it runs on
	 * this GPU), -EINVAL (the driver's words are logged), -ENOMEM. */
	int (*module)(const struct dsv4_host *host, const void *image, struct dsv4_module **ret_m);
	/* shared: the most dynamic shared memory a launch will ask for. -ENOENT, -EINVAL. */
	int (*kernel)(const struct dsv4_host *host, struct dsv4_module *m, const char *name, uint32_t shared,
		      struct dsv4_kernel **ret_k);

	/* For ops. -EIO: the launch was refused, the driver's words are logged; an empty grid launches nothing. */
	int (*launch)(struct dsv4_exec *x, struct dsv4_kernel *k, const struct dsv4_launch *l);
	/* A device copy of small host memory, 16-byte aligned, taken at once, valid as scratch is; NULL if short. */
	const void *(*upload)(struct dsv4_exec *x, const void *p, size_t bytes);
};

/* ---- argument structs; each begins with its size ---- */

/* y[t][g * rows/n_group + r] = sum_k x[t][g * cols + k] * W[g * rows/n_group + r][k]. n_group 1 is the
 * plain case. With act FP8 and an FP8, FP4 or NVFP4 weight, x is first rounded per 128 columns of each
 * group. Products are summed per block that shares a weight scale (128 columns; FP4 32, NVFP4 16), and
 * each block's sum times (activation scale * weight scale) is added to y (doc/format.md 3.2). */
struct dsv4_linear {
	uint32_t size;
	int32_t n_tok, n_group;
	uint32_t act;                     /* enum dsv4_act */
	const struct dsv4_weight *w;
	const float *x; int64_t ldx;      /* [n_tok][ldx], ldx >= n_group * cols */
	float *y; int64_t ldy;            /* [n_tok][ldy], ldy >= rows */
};

/* y = x / sqrt(mean(x^2) + eps) * weight, row by row; weight [dim] f32 or NULL. y may be x. */
struct dsv4_rms_norm {
	uint32_t size;
	int32_t dim;
	int64_t n_row;
	float eps;
	const float *weight;
	const float *x; int64_t ldx;
	float *y; int64_t ldy;
};

/* In place on x [n_tok][n_head][dim]: rotates interleaved pairs of the last `rot` dims by cs[t][rot/2][2]
 * (cos, sin), conjugated when inverse; then rounds: `kv` the first dim - rot values (FP8 per 64, BF16);
 * `index` all dim values after a Hadamard rotation scaled dim^-0.5 (FP4 per 32, FP8 with one scale per
 * row, BF16), so dim must be a power of two there. At most one of them is not NONE; index NONE does not
 * rotate either, which changes no dot product of two such rows. */
struct dsv4_rope {
	uint32_t size;
	int32_t n_tok, n_head, dim, rot;
	uint32_t inverse;
	uint32_t kv, index;               /* enum dsv4_round */
	const float *cs;                  /* [n_tok][rot/2][2] */
	float *x; int64_t ldx;            /* floats between tokens, >= n_head * dim */
};

/* Weights of one hyper-connection site; n_mix = (2 + hc) * hc rows, or hc rows at the head. In all three
 * mHC ops prec BF16 rounds to bf16 what enters (streams, fn, y), the mixes, pre, post, comb and the
 * results, as happens where the mixing is kept in bf16 tensors; sums, sigmoid and Sinkhorn stay fp32. */
struct dsv4_hc_weights {
	const float *fn;                  /* [n_mix][hc * dim] */
	const float *base;                /* [n_mix] */
	const float *scale;               /* [3], at the head [1] */
};

/* y[t] = sum_j pre[j] * streams[t][j]; post and comb for hc_post (doc/format.md 3.1). */
struct dsv4_hc_pre {
	uint32_t size;
	int32_t n_tok, hc, dim, sinkhorn_iters;
	uint32_t prec;                    /* enum dsv4_prec; BF16 as above */
	float norm_eps, hc_eps;
	struct dsv4_hc_weights w;
	const float *streams;             /* [n_tok][hc][dim] */
	float *y;                         /* [n_tok][dim] */
	float *post;                      /* [n_tok][hc] */
	float *comb;                      /* [n_tok][hc][hc] */
};

/* streams[t][k] = post[t][k] * y[t] + sum_j comb[t][j][k] * streams[t][j], in place. */
struct dsv4_hc_post {
	uint32_t size;
	int32_t n_tok, hc, dim;
	uint32_t prec;
	const float *y, *post, *comb;
	float *streams;
};

/* y[t] = sum_j (sigmoid(m[j] * scale + base[j]) + hc_eps) * streams[t][j]. */
struct dsv4_hc_head {
	uint32_t size;
	int32_t n_tok, hc, dim;
	uint32_t prec;
	float norm_eps, hc_eps;
	struct dsv4_hc_weights w;
	const float *streams;
	float *y;
};

/* Pools groups of `ratio` tokens of one sequence (doc/format.md 3.5). Without overlap, width = dim: out[e] pools
 * group e of kv and score. With overlap, width = 2 dim: out[e] pools group e by channels [0, dim) and group
 * e + 1 by [dim, 2 dim), so the inputs hold n_out + 1 groups; first_absent says group 0 does not exist (it
 * weighs nothing and is not read). The score of a group's token i gains ape[i]. Then norm, rope at cs[e], and
 * rounding as in rope. */
struct dsv4_compress {
	uint32_t size;
	int32_t n_out, ratio, dim, rot;
	uint32_t overlap, first_absent;
	uint32_t kv_round, index_round;   /* enum dsv4_round; one of them is NONE */
	float norm_eps;
	const float *kv, *score;          /* [(n_out + overlap) * ratio][width], without ape */
	const float *ape;                 /* [ratio][width] */
	const float *norm;                /* [dim] */
	const float *cs;                  /* [n_out][rot/2][2] */
	float *out;                       /* [n_out][dim] */
};

/* score[t][n] = scale * sum_h max(q[t][h] . key[n], 0) * w[t][h] for n visible to t; other columns untouched.
 * A NaN product stays NaN. A token that sees no more than `k` rows keeps them all, so an op may leave early
 * and not score it. */
struct dsv4_index_score {
	uint32_t size;
	int32_t n_tok, n_head, dim, n_seq;
	int32_t k;                        /* 0: every token is to be scored */
	float scale;
	const struct dsv4_seq *seq;       /* [n_seq]; uses key, ratio, pos0 */
	const float *q;                   /* [n_tok][n_head][dim], rotated and rounded */
	const float *w;                   /* [n_tok][n_head] */
	float *score; int64_t lds;        /* [n_tok][lds] */
};

/* For each token the k best of its n_vis[t] scores, or all where n_vis[t] <= k: rows[t] ascending, count[t].
 * Equal scores (-0 equals 0): the lower row wins. NaN ranks below everything. score may be NULL when no token
 * has more than k. */
struct dsv4_index_topk {
	uint32_t size;
	int32_t n_tok, k;
	const int32_t *n_vis;             /* [n_tok] */
	const float *score; int64_t lds;
	int32_t *rows; int64_t ldr;       /* [n_tok][ldr] */
	int32_t *count;                   /* [n_tok] */
};

/* out[t][h] = softmax over (window rows, then compressed rows, then the sink) of q.k * scale, times the
 * rows (one row is key and value). The sink adds exp(sink) to the denominator and has no row. rows NULL:
 * every visible compressed row. prec BF16 rounds the scaled scores, and the weights where they meet the
 * rows. */
struct dsv4_attn {
	uint32_t size;
	int32_t n_tok, n_head, dim, n_seq;
	int32_t window;                   /* token at p sees window positions (p - window, p] */
	uint32_t prec;                    /* enum dsv4_prec */
	float scale;
	const struct dsv4_seq *seq;
	const float *q;                   /* [n_tok][n_head][dim] */
	const float *sink;                /* [n_head] */
	const int32_t *rows; int64_t ldr; /* [n_tok][ldr] ascending, count[t] of them */
	const int32_t *count;
	float *out;                       /* [n_tok][n_head][dim] */
};

/* s = sqrt(softplus(gate . x)); learned: top k of s + bias (ties to the lower id, NaN last, after -inf); hash: ids =
 * table[token], -EINVAL when one is not an expert. weight = s / sum(s of the chosen) * scaling. ids
 * ascending. */
struct dsv4_moe_route {
	uint32_t size;
	int32_t n_tok, dim, n_expert, k;
	float scaling;
	const struct dsv4_weight *gate;   /* [n_expert][dim] */
	const float *bias;                /* [n_expert], learned layers, else NULL */
	const int64_t *table;             /* [vocab][k], hash layers, else NULL; may be unaligned */
	const int32_t *token;             /* [n_tok] */
	const float *x;                   /* [n_tok][dim] */
	int32_t *ids;                     /* [n_tok][k] */
	float *weight;                    /* [n_tok][k] */
};

/* Expert e: w2(round(w * silu(min(w1 x, limit)) * clamp(w3 x, +-limit))); NaN passes both limits. The routed
 * experts are all of one format, which chose the kernel; the shared ones may be of any. */
struct dsv4_expert {
	struct dsv4_weight w1, w2, w3;    /* [inter][dim], [dim][inter], [inter][dim] */
};

/* Repacked copies (dsv4_rows16.h) of a routed expert's FP4 matrices, each NULL until it is there. One may come while
 * the op runs, and stays then: read each pointer once, by dsv4_packed_take(). The bits are the same with or without. */
struct dsv4_packed {
	const void *w1, *w2, *w3;
};

/* y = shared(x) * 1 + out_scale * sum over the k chosen, in ascending id, of expert(x); limit 0: no clamp.
 *
 * An expert, routed or shared, whose w1.data is NULL is not here (since 1.3): another GPU has it. Nothing else of it is
 * read, nor of its packed; `ids` may name it, and the result has the bits that it has without it: the others are summed in
 * the same order, and a token none of whose experts is here gets zeroes. expert and expert_table agree on who is here. */
struct dsv4_moe_experts {
	uint32_t size;
	int32_t n_tok, dim, inter, n_expert, k, n_shared;
	uint32_t act;                     /* enum dsv4_act */
	float limit, out_scale;
	const struct dsv4_expert *expert; /* [n_expert] */
	const struct dsv4_expert *shared; /* [n_shared], inter rows each */
	const float *x;                   /* [n_tok][dim] */
	const int32_t *ids;               /* [n_tok][k] */
	const float *weight;              /* [n_tok][k] */
	float *y;                         /* [n_tok][dim] */
	const struct dsv4_packed *packed; /* [n_expert], or NULL; since 1.1 */
	/* [n_expert] device copy of `expert`, for GPUs, else NULL; since 1.2. Where a matrix lies (this GPU's memory, or the
	 * host's, which the GPU reads through the bus) may change between steps. */
	const struct dsv4_expert *expert_table;
};

/* y[t][i] = ((base[t / every][i] + x[0][t][i]) + x[1][t][i]) + ... + x[n_part - 1][t][i], added in exactly this order; base NULL:
 * the first addend is x[0][t][i]. Parts lie ldp floats apart, and y overlaps neither them nor base. Since 1.3. */
struct dsv4_sum {
	uint32_t size;
	int32_t dim;
	int64_t n_row;
	int32_t n_part;                   /* >= 1 */
	int32_t every;                    /* >= 1: rows of y per row of base */
	const float *base; int64_t ldb;   /* [ceil(n_row / every)][ldb], ldb >= dim; or NULL */
	const float *x; int64_t ldx, ldp; /* [n_part][ldp], of each the rows [n_row][ldx], ldx >= dim */
	float *y; int64_t ldy;            /* [n_row][ldy], ldy >= dim */
};

/* What there is of expert e at this moment. */
static inline struct dsv4_packed dsv4_packed_take(const struct dsv4_moe_experts *a, int32_t e)
{
	if (!a->packed)
		return (struct dsv4_packed){ NULL, NULL, NULL };
	return (struct dsv4_packed){ __atomic_load_n(&a->packed[e].w1, __ATOMIC_ACQUIRE),
				     __atomic_load_n(&a->packed[e].w2, __ATOMIC_ACQUIRE),
				     __atomic_load_n(&a->packed[e].w3, __ATOMIC_ACQUIRE) };
}

/* ---- ops ---- */

enum dsv4_op {
#define OP(op, family, args, text) DSV4_OP_##op,
#include "ops.def"
#undef OP
	DSV4_N_OP
};

#define OP(op, family, args, text) \
	typedef int args##_f(struct dsv4_exec *x, const struct dsv4_host *host, const struct args *a);
#include "ops.def"
#undef OP

typedef void dsv4_any_f(void); /* an op of any kind; cast to its own type before the call */

/* What an op does to the numbers, for status and the check library. An op that is not LOSSY computes what its
 * arguments ask for, at every value of prec, act and the roundings; a LOSSY one rounds as its tag says, whatever
 * the arguments ask. */
enum dsv4_numerics {
	DSV4_EXACT,     /* same bits as ref */
	DSV4_ORDER,     /* exact products, another summation order */
	DSV4_LOSSY      /* rounds where ref does not; the tag says how */
};

struct dsv4_op_entry {
	uint32_t size;
	uint16_t op;                      /* enum dsv4_op */
	uint8_t phases;                   /* bit per enum dsv4_phase */
	uint8_t reads;                    /* DSV4_READS_PACKED or 0; since 1.2, a byte of `phases` that was 0 before */
	uint32_t wfmts;                   /* bit per enum dsv4_wfmt accepted; ops without a weight: ~0 */
	uint32_t numerics;                /* enum dsv4_numerics */
	const char *tag;                  /* e.g. "fp32", "bf16-mix": at most 31 characters, no space or quote */
	dsv4_any_f *fn;
};

struct dsv4_plugin {
	uint32_t magic, size;
	uint16_t abi_major, abi_minor;
	uint32_t n_op;
	const char *signature;            /* DSV4_BUILD_SIGNATURE */
	/* [a-z0-9-]{1,31} with a letter in it and none of ref, active, previous, last-good, which name sets; digits
	 * and dots, at most 31. */
	const char *name, *version;
	/* Features needed, one space between them: names of /proc/cpuinfo; of GPUs, e.g. "sm_90"; or "". */
	const char *cpu, *gpu;
	const struct dsv4_op_entry *op;   /* [n_op] */
	/* Each may be NULL. 0 or -errno. open() makes the state; warm() does what should not fall on the first
	 * request; close() undoes both, also after a warm() that failed. */
	int (*open)(const struct dsv4_host *host, void **ret_state);
	int (*warm)(const struct dsv4_host *host);
	void (*close)(const struct dsv4_host *host);
};

#define DSV4_PLUGIN_SYMBOL "dsv4_plugin_descriptor"
#define DSV4_PLUGIN_MAX_OPS 256

/* ---- the descriptor and the facts, from one table ---- */

/* The table is a macro of rows OP(op, phases, weights, numerics, tag, function), several per op if need be:
 *
 *     #define MY_OPS(OP) \
 *             OP(hc_pre,  BOTH, ANY, LOSSY, "bf16-mix", my_hc_pre) \
 *             OP(hc_post, BOTH, ANY, LOSSY, "bf16-mix", my_hc_post)
 *     DSV4_PLUGIN("my-plugin", "1.0", "avx2 fma", "", MY_OPS, NULL, NULL, NULL)
 *
 * phases: PREFILL, DECODE or BOTH. weights: ANY (also for ops without a weight), one of F32, BF16, FP8, FP4,
 * NVFP4, or FLOAT (F32 and BF16), E2M1 (FP4 and NVFP4), QUANT (FP8, FP4 and NVFP4). A row may end in one more
 * column, PACKED: the op reads repacked copies (struct dsv4_packed), so it is worth making them. */
#define DSV4_PHASES_PREFILL (1 << DSV4_PREFILL)
#define DSV4_PHASES_DECODE (1 << DSV4_DECODE)
#define DSV4_PHASES_BOTH (DSV4_PHASES_PREFILL | DSV4_PHASES_DECODE)
#define DSV4_WEIGHTS_ANY (~0u)
#define DSV4_WEIGHTS_F32 (1u << DSV4_W_F32)
#define DSV4_WEIGHTS_BF16 (1u << DSV4_W_BF16)
#define DSV4_WEIGHTS_FP8 (1u << DSV4_W_FP8)
#define DSV4_WEIGHTS_FP4 (1u << DSV4_W_FP4)
#define DSV4_WEIGHTS_NVFP4 (1u << DSV4_W_NVFP4)
#define DSV4_WEIGHTS_FLOAT (DSV4_WEIGHTS_F32 | DSV4_WEIGHTS_BF16)
#define DSV4_WEIGHTS_E2M1 (DSV4_WEIGHTS_FP4 | DSV4_WEIGHTS_NVFP4)
#define DSV4_WEIGHTS_QUANT (DSV4_WEIGHTS_FP8 | DSV4_WEIGHTS_E2M1)

#define DSV4_READS_NATIVE 0
#define DSV4_READS_PACKED 1

#define DSV4_FACTS_BEGIN "<dsv4-facts>"
#define DSV4_FACTS_END "</dsv4-facts>"
#define DSV4_TEXT_(x) #x
#define DSV4_TEXT(x) DSV4_TEXT_(x)

/* The conditional makes the compiler compare the function's type with the op's. */
#define DSV4_ENTRY(...) DSV4_ENTRY_(__VA_ARGS__, NATIVE, )
#define DSV4_ENTRY_(name, ph, weights, num, text, f, forms, ...) \
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##name, .phases = DSV4_PHASES_##ph, \
	  .reads = DSV4_READS_##forms, .wfmts = DSV4_WEIGHTS_##weights, .numerics = DSV4_##num, .tag = text, \
	  .fn = (dsv4_any_f *)(1 ? f : (dsv4_##name##_f *)0) },
#define DSV4_FACT(...) DSV4_FACT_(__VA_ARGS__, NATIVE, )
#define DSV4_FACT_(op, phases, weights, numerics, tag, f, forms, ...) \
	",{\"op\":\"" #op "\",\"phases\":\"" #phases "\",\"weights\":\"" #weights "\",\"numerics\":\"" #numerics \
	"\",\"tag\":\"" tag "\",\"reads\":\"" #forms "\"}"

#define DSV4_PLUGIN(name_, version_, cpu_, gpu_, ops_, open_, warm_, close_) \
	static const struct dsv4_op_entry dsv4_entries[] = { ops_(DSV4_ENTRY) }; \
	__attribute__((used)) static const char dsv4_facts[] = DSV4_FACTS_BEGIN \
		"[{\"abi\":\"" DSV4_TEXT(DSV4_ABI_MAJOR) "." DSV4_TEXT(DSV4_ABI_MINOR) "\",\"signature\":\"" \
		DSV4_BUILD_SIGNATURE "\",\"name\":\"" name_ "\",\"version\":\"" version_ "\",\"cpu\":\"" cpu_ \
		"\",\"gpu\":\"" gpu_ "\"}" ops_(DSV4_FACT) "]" DSV4_FACTS_END; \
	extern const struct dsv4_plugin dsv4_plugin_descriptor; \
	__attribute__((visibility("default"))) const struct dsv4_plugin dsv4_plugin_descriptor = { \
		.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
		.abi_minor = DSV4_ABI_MINOR, .n_op = sizeof dsv4_entries / sizeof *dsv4_entries, \
		.signature = DSV4_BUILD_SIGNATURE, .name = name_, .version = version_, .cpu = cpu_, .gpu = gpu_, \
		.op = dsv4_entries, .open = open_, .warm = warm_, .close = close_, \
	};

#endif
