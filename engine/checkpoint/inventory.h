/* SPDX-License-Identifier: MIT
 * inventory.h - the tensors that a config calls for, matched with those that a checkpoint has.
 * Threads: any. Locks: none. */
#ifndef ENGINE_INVENTORY_H
#define ENGINE_INVENTORY_H

#include "engine/base/buf.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inventory_rows.h"

#include <stdint.h>

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
