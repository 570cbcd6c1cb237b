/* SPDX-License-Identifier: MIT
 * mkmodel.h - a checkpoint of random weights in the published format: its config, its tensors, their values, its files.
 * Threads: one, but mkmodel_fill() any. Locks: none. */
#ifndef TESTS_BENCH_MKMODEL_H
#define TESTS_BENCH_MKMODEL_H

#include "engine/base/buf.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the routed experts; all else is as published: FP8 or BF16 matrices, BF16 norms, the rest F32. */
enum mkmodel_format { MKMODEL_FP4, MKMODEL_FP8, MKMODEL_NVFP4, MKMODEL_BF16, MKMODEL_N_FORMAT };
/* "fp4", "fp8", "nvfp4", "bf16"; -1 when unknown. */
int mkmodel_format_find(const char *name);

/* ---- mkmodel_shape.c ---- */

struct mkmodel_shape {
	const char *file, *name;     /* a config.json to begin with, or "flash" or "tiny" */
	const char *ratios;          /* NULL: the config's; else by layer, repeated as needed: "0,4,128" */
	int layers, experts, vocab;  /* 0: the config's */
	int hash_layers;             /* -1: the config's, or all layers where these are fewer */
	bool mtp;                    /* with a draft block */
	enum mkmodel_format format;
};

/* config.json as text, and parsed, n_mtp included. RC_INVALID, RC_MODEL, RC_UNSUPPORTED, -errno. */
int mkmodel_config(const struct mkmodel_shape *s, struct buf *ret_json, struct model_config *ret_c, struct buf *why);

/* ---- mkmodel_fill.c ---- */

enum mkmodel_fill {
	MKMODEL_FILL_BYTES,          /* random bytes: two FP4 values each */
	MKMODEL_FILL_E4M3,           /* normally distributed codes */
	MKMODEL_FILL_CODES,          /* one byte or another */
	MKMODEL_FILL_EVEN_BF16, MKMODEL_FILL_EVEN_F32, /* evenly distributed values */
	MKMODEL_FILL_SAME_BF16, MKMODEL_FILL_SAME_F32, /* one value */
	MKMODEL_FILL_IDS             /* expert ids, rows of distinct ones */
};

struct mkmodel_values {
	enum mkmodel_fill fill;
	float value;                 /* SAME: it; EVEN: the largest */
	uint8_t code[2], share;      /* CODES: code[1] for `share` of 256 */
	int ids, below;              /* IDS: to a row, all below this */
	uint64_t key;                /* of the random numbers */
};

/* What makes the standard deviation of a matrix's values `sigma`, in each format: its data and its scales. */
struct mkmodel_values mkmodel_even(bool bf16, double sigma);
struct mkmodel_values mkmodel_scale_e8m0(bool fp4, double sigma);
struct mkmodel_values mkmodel_scale_e4m3(void);
float mkmodel_scale2(double sigma);
/* To be called once, before the above. */
void mkmodel_fill_init(void);
/* Bytes [at, at + n) of a tensor, which depend on nothing but v; `at` is a multiple of 8. */
void mkmodel_fill(const struct mkmodel_values *v, uint64_t at, uint8_t *out, size_t n);

/* ---- mkmodel_plan.c ---- */

struct mkmodel_tensor {
	char *name;
	enum safetensors_dtype dtype;
	int n_dim;
	int64_t dim[2];
	struct mkmodel_values values;
	int shard;
	uint64_t bytes, at;          /* `at` among the shard's data */
};

struct mkmodel_plan {
	struct mkmodel_tensor *tensor;
	int n, cap, n_shard;
	uint64_t bytes;
};

/* All tensors that the config calls for, in shards of at most so many bytes of data (a larger tensor has one alone). */
void mkmodel_plan_init(struct mkmodel_plan *p, const struct model_config *c, enum mkmodel_format f, uint64_t seed,
		       uint64_t shard_bytes);
void mkmodel_plan_fini(struct mkmodel_plan *p);

/* ---- mkmodel_write.c ---- */

struct mkmodel_options {
	const char *dir;
	int n_threads;
	bool sparse;                 /* headers over holes, no data */
	const char *tokenizer;       /* file to copy, or NULL */
	const char *generation;      /* the same of generation_config.json; NULL: the published values */
};

/* Makes the directory, which may be there but must be empty, and fills it; config.json comes last. What was written
 * is removed when something fails. -errno, RC_INVALID. */
int mkmodel_write(const struct mkmodel_plan *p, const struct mkmodel_options *o, const struct buf *config,
		  struct buf *why);

#endif
