/* SPDX-License-Identifier: MIT
 * sequence.h - what the model remembers of one token sequence, in the parts that a cache can share.
 * Threads: the engine thread, except sequence_bytes. Locks: none.
 *
 * Two kinds of memory (design.md section 3). Blocks of 128 tokens hold the compressed rows and index keys of
 * all layers; a full block never changes again and is reference-counted. Tails hold what only continuation
 * needs: the last rows of the window and the compressors' inputs since the last whole group (and the group
 * before it where groups overlap).
 *
 * A step reserves room, writes rows beyond the committed position, and commits. Rows beyond the position are
 * free to be overwritten, so a step that fails part way leaves the sequence as it was. */
#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include "engine/checkpoint/model_config.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQUENCE_BLOCK 128 /* tokens; every compression ratio divides it */

enum sequence_tail {
	SEQUENCE_WINDOW,       /* KV rows, [head_dim] */
	SEQUENCE_KV,           /* the compressor's projected values, [head_dim], twice that with overlap */
	SEQUENCE_SCORE,        /* and scores, same width, without ape */
	SEQUENCE_INDEX_KV,     /* the same of the indexer's compressor */
	SEQUENCE_INDEX_SCORE,
	SEQUENCE_N_TAIL
};

enum sequence_rows {
	SEQUENCE_ROWS_KV,      /* compressed KV rows, [head_dim] */
	SEQUENCE_ROWS_KEY,     /* index keys, [index_dim] */
	SEQUENCE_N_ROWS
};

/* Shapes and offsets of one layer's memory. */
struct sequence_layer {
	int ratio;                              /* 0: no compressed rows */
	bool overlap;                           /* groups overlap (ratio 4) */
	int width[SEQUENCE_N_TAIL];             /* floats per row; 0: this layer has no such tail */
	int dim[SEQUENCE_N_ROWS];               /* floats per row; 0: none */
	int64_t offset[SEQUENCE_N_ROWS];        /* floats from the block's start */
};

/* Shared by all sequences of a model. The MTP block, if any, is the layer after the last. */
struct sequence_layout {
	int n_layer, window;
	int64_t block_floats;                   /* one block, all layers */
	struct sequence_layer layer[MODEL_MAX_LAYERS + 1];
};

void sequence_layout_init(struct sequence_layout *l, const struct model_config *c);
/* Bytes of a sequence of n_tok tokens between steps. */
size_t sequence_layout_bytes(const struct sequence_layout *l, int64_t n_tok);

struct sequence;

/* An empty sequence; -ENOMEM. The layout must outlive it. */
int sequence_new(const struct sequence_layout *l, struct sequence **ret_s);
void sequence_free(struct sequence **s);
/* Tokens committed: the position of the next token. */
int64_t sequence_pos(const struct sequence *s);
/* Bytes held now. Any thread. */
size_t sequence_bytes(const struct sequence *s);

/* Makes room for n more tokens. -ENOMEM leaves the sequence usable as it was. */
int sequence_reserve(struct sequence *s, int n);
/* The row of a tail at position pos; rows of positions kept and reserved are contiguous, the oldest first. */
float *sequence_tail(struct sequence *s, int layer, enum sequence_tail t, int64_t pos);
/* Compressed row number `row` for writing; only rows of reserved, uncommitted tokens. */
float *sequence_row(struct sequence *s, int layer, enum sequence_rows k, int64_t row);
/* The first n compressed rows, for an op. */
struct dsv4_rows sequence_rows(const struct sequence *s, int layer, enum sequence_rows k, int64_t n);
/* The n tokens after the position have been written by all layers. */
void sequence_commit(struct sequence *s, int n);

/* The MTP block (layer n_layers) keeps its own position: it needs a position's streams and the next token. */
int64_t sequence_mtp_pos(const struct sequence *s);
int sequence_mtp_reserve(struct sequence *s, int n);
void sequence_mtp_commit(struct sequence *s, int n);

#endif
