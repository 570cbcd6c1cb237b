/* SPDX-License-Identifier: MIT
 * placement.h - how a checkpoint would lie on GPUs, from its headers alone: bytes, traffic, room for sequences.
 * Threads: any. Locks: none.
 *
 * On n GPUs each holds what model_place_ranks() gives it: its heads of the attention and with them their groups of the
 * first output projection, where they can be cut, its routed experts, the shared ones of every n-th layer, and its rows
 * of the head; all else is copied to every one, the second output projection included, and the rows that a sequence
 * keeps, since all heads read the same. The embedding stays with the host, which looks its rows up. In each layer every
 * GPU gets what the others have: behind the first output projection its rows, behind the experts their sums. */
#ifndef ENGINE_PLACEMENT_H
#define ENGINE_PLACEMENT_H

#include "engine/base/buf.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inventory_rows.h"
#include "engine/device/device_list.h"
#include "engine/model/placement_split.h"

#include <stdbool.h>
#include <stdint.h>

#define PLACEMENT_MAX_GPUS DEVICE_LIST_MAX

struct placement {
	int n_gpu;
	uint64_t memory;                        /* bytes of each GPU */
	uint64_t family[INVENTORY_N_FAMILY];    /* weight bytes on the fullest GPU; without experts that stay outside */
	uint64_t weights;                       /* their sum, as model_place() copies them: vectors are f32 */
	uint64_t host;                          /* bytes of the embedding, read by the host */
	uint64_t expert;                        /* bytes of one routed expert, the largest */
	int64_t experts;                        /* routed experts that one GPU owns, all layers */
	int64_t resident;                       /* of these, how many of each layer lie on it (placement_split.h) */
	int64_t outside;                        /* how many lie in the host's memory */
	uint64_t outside_bytes;                 /* and their bytes */
	int64_t slots;                          /* on the GPU, for those of them that are used */
	uint64_t slot_bytes;                    /* of all slots */
	bool heads_cut;                         /* else each GPU has all heads */
	double part_per_token;                  /* bytes of f32 vectors that each GPU has for the
						 * others, of one token */
	double sent_per_token;                  /* bytes it sends, or passes on, for all to have
						 * all: n - 1 of the above */
	double logits_read;                     /* bytes the host reads of each, per token wanted */
	double row_bytes;                       /* per token of a sequence's rows, as sequence.h keeps them (f32) */
	uint64_t fixed_bytes;                   /* per sequence: windows and what the compressors still need */
	int64_t tokens;                         /* that fit in what is left, of all sequences together */
};

/* Reads no weight byte. RC_INVALID: a number of GPUs outside of 1 to PLACEMENT_MAX_GPUS.
 * RC_TOO_LARGE: what every GPU must hold does not fit; *ret_p says how much that is. Else as inventory_walk(). */
int placement_plan(const struct checkpoint *ck, int n_gpu, uint64_t memory, struct placement *ret_p, struct buf *why);
void placement_text(const struct placement *p, struct buf *out);
/* -ENOMEM. */
int placement_json(const struct placement *p, struct buf *out);
/* The same for a directory. RC_TOO_LARGE fills out, too. Other errors as of checkpoint_open(). */
int placement_describe(const char *dir, int n_gpu, uint64_t memory, bool json, struct buf *out, struct buf *why);

#endif
