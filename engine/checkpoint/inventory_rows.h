/* SPDX-License-Identifier: MIT
 * inventory_rows.h - which tensors a config calls for: the rows of tensors.def, with names and shapes.
 * Threads: any. Locks: none. */
#ifndef ENGINE_INVENTORY_ROWS_H
#define ENGINE_INVENTORY_ROWS_H

#include "engine/checkpoint/model_config.h"
#include "plugins/dsv4_plugin.h"

#include <stddef.h>
#include <stdint.h>

#define INVENTORY_MAX_NAME 128
/* Values of a weight that share a scale (doc/format.md 2.8): both sides of a block, columns, columns. */
#define INVENTORY_FP8_BLOCK 128
#define INVENTORY_FP4_GROUP 32
#define INVENTORY_NV_GROUP 16

/* The embedding is read by the engine itself, by no op. */
#define INVENTORY_EMBED DSV4_N_FAMILY
#define INVENTORY_N_FAMILY (DSV4_N_FAMILY + 1)
const char *inventory_family_name(int family);

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

/* One tensor that must be there; kinds from PLAIN on are matrices, to whose names ".weight" and the scales' suffixes
 * are still to be added. */
struct inventory_place {
	const struct inventory_row *row;
	int layer;                     /* -1 at the top; the block's number where mtp */
	bool mtp;
	int expert;                    /* -1 outside routed experts */
	const char *name;              /* shorter than INVENTORY_MAX_NAME; valid during the call */
};

/* A result other than 0 ends the walk and is returned. */
typedef int inventory_place_f(void *arg, const struct inventory_place *at);

/* Calls fn for the top, then each layer, then the config's n_mtp draft blocks, which are V4-Flash's or DSpark's. */
int inventory_rows_walk(const struct model_config *c, bool dspark, inventory_place_f *fn, void *arg);

#endif
