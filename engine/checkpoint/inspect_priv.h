/* SPDX-License-Identifier: MIT
 * inspect_priv.h - the figures of one description, between inspect.c (counts) and inspect_print.c (prints).
 * Threads: any. Locks: none. */
#ifndef ENGINE_INSPECT_PRIV_H
#define ENGINE_INSPECT_PRIV_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inventory.h"

#define INSPECT_N_KV 4

struct inspect_count {
	int64_t tensors;
	uint64_t bytes;
};

struct inspect_family {
	struct inspect_count main, mtp;
	double read;                  /* weight bytes that one token of the main model reads */
	double cache_read;            /* cache bytes on top, at the model's full context, native formats */
};

/* Sizes of cached rows in one pair of storage formats (doc/format.md 6). */
struct inspect_kv {
	const char *kv_format, *index_key;
	int64_t row, key;             /* bytes of a KV row and of an index key */
	double per_token;             /* of the whole model, compressed rows and keys */
	double at_max;                /* the same for max_context tokens */
	int64_t window;               /* on top and fixed: the windows of all layers */
};

struct inspect_report {
	const struct checkpoint *ck;
	struct inventory inv;
	struct inspect_count dtype[ST_N_DTYPE];
	struct inspect_family family[INVENTORY_N_FAMILY];
	int64_t parameters, mtp_parameters;  /* logical values of expected tensors, scales not counted */
	int routed_fmt; /* enum dsv4_wfmt of the routed experts, -1 without, -2 several */
	struct inventory_item first;         /* of the routed experts of the block that is being walked */
	int layers[3];                       /* with ratio 0, 4, 128 */
	struct inspect_kv kv[INSPECT_N_KV];
};

/* 0 when the checkpoint is all there and as expected, else RC_MODEL with the first fault. */
int inspect_verdict(const struct inspect_report *r, struct buf *why);
void inspect_text(const struct inspect_report *r, struct buf *out);
/* -ENOMEM. */
int inspect_json(const struct inspect_report *r, struct buf *out);

#endif
