/* SPDX-License-Identifier: MIT
 * moe_args.h - what the kernels of moe_kernels.cuh are told, and the router of cuda-base.
 *
 * A pair is a token with one expert it chose. Pairs are sorted by expert, then token: `at` says where a pair went, -1
 * where its id is no expert or that of one that is not here. */
#ifndef CUDA_MOE_ARGS_H
#define CUDA_MOE_ARGS_H

#include "plugins/dsv4_plugin.h"

/* Grid: tokens. Dynamic shared memory: n_expert floats and n_expert ints, then k ints. */
struct moe_route_args {
	int32_t n_expert, k;
	float scaling;
	const float *z;           /* [n_tok][n_expert] gate . x */
	const float *bias;
	const int64_t *table;
	const int32_t *token;
	int32_t *ids;
	float *weight;
};

/* Some pairs of one expert, as many as a kernel computes at a time. */
struct moe_tile {
	int32_t expert, first, n; /* sorted pairs [first, first + n) */
};

/* One block. Dynamic shared memory: 2 * n_expert ints. */
struct moe_group_args {
	int32_t n_pair, n_expert, k;
	int32_t tile_n;           /* most pairs of a tile */
	const struct dsv4_expert *expert; /* [n_expert] device memory */
	const int32_t *ids;       /* [n_pair] */
	const float *weight;      /* [n_pair] */
	int32_t *at;              /* [n_pair] */
	int32_t *tok;             /* [n_pair] token of each sorted pair */
	float *sorted_weight;     /* [n_pair] */
	struct moe_tile *tile;
	int32_t *n_tile, *n_sorted;
};

enum moe_matrix { MOE_W1, MOE_W2, MOE_W3 };

/* Grid: tiles (those from *n_tile on do nothing), tiles of rows. */
struct moe_product_args {
	const struct dsv4_expert *expert; /* device memory */
	int32_t which;            /* enum moe_matrix */
	const struct moe_tile *tile;
	const int32_t *n_tile;
	const int32_t *from;      /* [n_pair] row of x of each sorted pair, or NULL: its number */
	const float *x;           /* [.][cols] */
	const float *scale;       /* [.][ceil(cols / 128)], or NULL */
	const uint8_t *code;      /* [.][ceil(cols / 128) * 128] e4m3 codes of x, zero after the last column, or NULL */
	float *y;                 /* [n_pair][rows] */
};

/* Grid: rows, blocks of 8 times 128 columns. g := weight * silu(g) * u, rounded when scale is there; with code, which needs
 * scale, that gets the codes and g stays what it was. */
struct moe_gate_args {
	int32_t inter;
	float limit;
	const int32_t *n_row;     /* rows from *n_row on are left alone; NULL: none is */
	const float *weight;      /* [n_row], or NULL: all 1 */
	float *g;
	const float *u;           /* [n_row][inter] each */
	float *scale;             /* [n_row][ceil(inter / 128)], or NULL */
	uint8_t *code;            /* [n_row][ceil(inter / 128) * 128], zero after the last column, or NULL */
};

/* Grid: tokens, tiles of 256 columns. Dynamic shared memory: k ints. */
struct moe_sum_args {
	int32_t dim, k;
	float out_scale;
	const int32_t *at;        /* [n_tok][k] */
	const float *part;        /* [n_pair][dim] what each sorted pair gave */
	const float *shared;      /* [n_tok][dim], or NULL */
	float *y;
};

#endif
