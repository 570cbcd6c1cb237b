/* SPDX-License-Identifier: MIT
 * inventory.h - which tensors a config calls for (tensors.def), matched with those that a checkpoint has.
 * Threads: any. Locks: none. */
#ifndef ENGINE_INVENTORY_H
#define ENGINE_INVENTORY_H

#include "engine/base/buf.h"
#include "engine/checkpoint/checkpoint.h"
#include "plugins/dsv4_plugin.h"

#include <stdint.h>

/* The embedding is read by the engine itself, by no op. */
#define INVENTORY_EMBED DSV4_N_FAMILY
#define INVENTORY_N_FAMILY (DSV4_N_FAMILY + 1)

enum inventory_scope {
	INVENTORY_TOP, INVENTORY_BLOCK, INVENTORY_HASH, INVENTORY_LEARNED, INVENTORY_POOLED, INVENTORY_CSA,
	INVENTORY_EXPERT, INVENTORY_SHARED, INVENTORY_MTP, INVENTORY_DSPARK_FIRST, INVENTORY_DSPARK_LAST
};
enum inventory_kind {
	INVENTORY_NORM, INVENTORY_F32, INVENTORY_I64, INVENTORY_PLAIN, INVENTORY_DENSE, INVENTORY_ROUTED
};

/* One row of tensors.def, its shape computed for a config and a layer's ratio. */
struct inventory_row {
	uint8_t scope, kind, family;
	const char *name;
	int64_t rows, cols;
	size_t offset;                 /* of the field in the scope's struct */
};

/* One expected tensor with its scales, found and right. */
struct inventory_item {
	const struct inventory_row *row;
	int layer;                     /* -1 at the top; the block's number where mtp */
	bool mtp;
	int expert;                    /* -1 outside routed experts */
	uint8_t fmt, sfmt;             /* matrices: enum dsv4_wfmt, dsv4_sfmt */
	const struct checkpoint_tensor *data, *scale, *scale2;
	int tensors;                   /* with all scales, used or not */
	uint64_t bytes;                /* of these */
	const char *name;              /* of data */
};

enum inventory_fault { INVENTORY_MISSING, INVENTORY_UNEXPECTED, INVENTORY_MISMATCHED, INVENTORY_N_FAULT };

#define INVENTORY_MAX_TEXTS 16 /* of each fault; more are only counted */

struct inventory {
	int n[INVENTORY_N_FAULT];
	/* "FILE: tensor NAME: expected ..., found ..." */
	struct buf text[INVENTORY_N_FAULT][INVENTORY_MAX_TEXTS];
	bool mtp_is_dspark;
};

/* Called for every item that is as expected; a result other than 0 ends the walk and is returned. */
typedef int inventory_item_f(void *arg, const struct inventory_item *it);

/* Walks over all that the config calls for. ret_inv tells what is missing, unexpected or otherwise wrong,
 * also after an early end; the caller calls inventory_fini. mtp.* may be absent as a whole. */
int inventory_walk(const struct checkpoint *ck, inventory_item_f *fn, void *arg, struct inventory *ret_inv);
/* 0 when nothing is wrong, else RC_MODEL with the first fault's text and the counts. */
int inventory_verdict(const struct inventory *inv, struct buf *why);
void inventory_fini(struct inventory *inv);

#endif
