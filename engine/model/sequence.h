/* SPDX-License-Identifier: MIT
 * sequence.h - what the model remembers of one token sequence, in the parts that a cache can share.
 * Threads: one at a time per sequence, in a step one for each rank (sequence_rank()); sequence_bytes any. Locks: none.
 *
 * Two kinds of memory. Blocks of 128 tokens hold the compressed rows and index keys of
 * all layers; a full block never changes again and is reference-counted. Tails hold what only continuation
 * needs: the last rows of the window and the compressors' inputs since the last whole group (and the group
 * before it where groups overlap).
 *
 * A step reserves room, writes rows beyond the committed position, and commits. Rows beyond the position are
 * free to be overwritten, so a step that fails part way leaves the sequence as it was, and so does one of which only
 * the first tokens are committed (drafts that were wrong). */
#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include "engine/checkpoint/model_config.h"
#include "engine/device/device.h"
#include "engine/device/device_list.h"
#include "engine/device/queue.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQUENCE_BLOCK 128 /* tokens; every compression ratio divides it */
#define SEQUENCE_MAX_OTHERS (DEVICE_LIST_MAX - 1) /* GPUs beside the first */

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

/* Shared by all sequences of a model. The MTP block, if any, is the layer after the last.
 *
 * A model on several GPUs (ranks.h) has all rows on each: a sequence, a block and what is done to them outside of a
 * step is rank 0's and all others' at once. Bytes are those of one GPU, since each holds as much. */
struct sequence_layout {
	struct device *device;                  /* where rows lie; the CPU until a model says otherwise */
	const struct sequence_layout *other[SEQUENCE_MAX_OTHERS]; /* the same on rank 1, 2, ... */
	int n_other;
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
/* What a step of that rank reads and writes; rank 0's is the sequence itself. */
struct sequence *sequence_rank(struct sequence *s, int rank);
/* Tokens committed: the position of the next token. */
int64_t sequence_pos(const struct sequence *s);
/* Bytes held now. Any thread. */
size_t sequence_bytes(const struct sequence *s);

/* Makes room for n more tokens, moving what is kept by q, which has nothing queued that reads the sequence. -ENOMEM
 * leaves the sequence usable as it was. */
int sequence_reserve(struct sequence *s, int n, struct queue *q);
/* The row of a tail at position pos; rows of positions kept and reserved are contiguous, the oldest first. */
float *sequence_tail(struct sequence *s, int layer, enum sequence_tail t, int64_t pos);
/* Compressed row number `row` for writing; only rows of reserved, uncommitted tokens. */
float *sequence_row(struct sequence *s, int layer, enum sequence_rows k, int64_t row);
/* The first n compressed rows, for an op. */
struct dsv4_rows sequence_rows(const struct sequence *s, int layer, enum sequence_rows k, int64_t n);
/* The n tokens after the position have been written by all layers. A step may be committed in parts, up to the next
 * sequence_reserve(). */
void sequence_commit(struct sequence *s, int n);

/* ---- sharing: what a cache keeps of a sequence ---- */

/* 128 tokens' compressed rows and index keys of all layers; counted, never written again once full. */
struct sequence_block;
struct sequence_block *sequence_block_ref(struct sequence_block *b);
void sequence_block_unref(struct sequence_block **b);
/* Full block number i, i < pos / 128: a reference. Any thread may hold it and read rank 0's rows. */
struct sequence_block *sequence_share(const struct sequence *s, int64_t i);
size_t sequence_block_bytes(const struct sequence_layout *l);
/* A block of its own for rows that come from a file; -ENOMEM. The other ranks get theirs when a
 * sequence resumes with it. */
int sequence_block_new(const struct sequence_layout *l, struct sequence_block **ret_b);
/* [128 / ratio][dim]; NULL where the layer has none. Writing is for the maker of a new block only. */
float *sequence_block_rows(const struct sequence_layout *l, struct sequence_block *b, int layer,
	enum sequence_rows k);

/* What continuing at a block edge needs besides the blocks before it: the window's rows and the group that
 * overlaps, of every layer. MTP's window is not in it: a resumed sequence's MTP position is 0. Counted, immutable. */
struct sequence_state;
struct sequence_state *sequence_state_ref(struct sequence_state *st);
void sequence_state_unref(struct sequence_state **st);
int64_t sequence_state_edge(const struct sequence_state *st);
size_t sequence_state_bytes(const struct sequence_layout *l, int64_t edge);
/* Room for a state that comes from a file; -ENOMEM. */
int sequence_state_new(const struct sequence_layout *l, int64_t edge, struct sequence_state **ret_st);
/* The rows of one tail, [*ret_n][width], of the last *ret_n positions before the edge; NULL and 0 where the layer
 * has none. */
float *sequence_state_rows(const struct sequence_layout *l, struct sequence_state *st, int layer,
	enum sequence_tail t, int64_t *ret_n);
/* May the state at `edge`, a multiple of 128, still be saved: 0 < edge <= pos, and the rows before it are still held.
 * They surely are from the commit of a step that began at or before the edge until the next sequence_reserve(). */
bool sequence_can_save(const struct sequence *s, int64_t edge);
/* Copies it out; the edge must be one that can be saved. -ENOMEM. */
int sequence_save(const struct sequence *s, int64_t edge, struct sequence_state **ret_st);
/* Makes an empty sequence one of edge tokens: block[i] for i < edge / 128 (references are taken) and the state.
 * -ENOMEM leaves it empty. Its bits go on as if it had computed the tokens itself. */
int sequence_resume(struct sequence *s, struct sequence_block *const *block, const struct sequence_state *st);

/* The MTP block (layer n_layers) keeps its own position: it needs a position's streams and the next token. */
int64_t sequence_mtp_pos(const struct sequence *s);
int sequence_mtp_reserve(struct sequence *s, int n, struct queue *q);
void sequence_mtp_commit(struct sequence *s, int n);

#endif
