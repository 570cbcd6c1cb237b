/* SPDX-License-Identifier: MIT
 * placement_split.c - how a GPU's memory is shared by weights, slots for experts by use, and sequences' rows.
 * Threads: any. Locks: none. */
#include "engine/model/placement_split.h"
#include "plugins/op/op_cost.h"

#include <errno.h>

#define PLACEMENT_ALIGN 256 /* of data and of scales in a slot: what the widest loads like */

static uint64_t placement_data(const struct dsv4_weight *w)
{
	return op_cost_data((enum dsv4_wfmt)w->fmt, w->rows, w->cols);
}

static uint64_t placement_scale(const struct dsv4_weight *w)
{
	return op_cost_scale((enum dsv4_sfmt)w->sfmt, (enum dsv4_wfmt)w->fmt, w->rows, w->cols);
}

static uint64_t placement_round(uint64_t n)
{
	return (n + PLACEMENT_ALIGN - 1) / PLACEMENT_ALIGN * PLACEMENT_ALIGN;
}

uint64_t placement_matrix(const struct dsv4_weight *w)
{
	return placement_data(w) + placement_scale(w);
}

uint64_t placement_slot_scales(const struct dsv4_weight *w)
{
	return placement_round(placement_data(w));
}

uint64_t placement_slot(const struct dsv4_weight *w)
{
	return placement_slot_scales(w) + placement_round(placement_scale(w));
}

int placement_split(uint64_t total, uint64_t free, const struct placement_need *n, struct placement_split *ret_s)
{
	uint64_t fixed = n->dense + placement_reserve(total), left;

	if (fixed > free)
		return -ENOMEM;
	left = free - fixed > n->sequence ? free - fixed - n->sequence : 0;
	*ret_s = (struct placement_split){ .resident = n->per_layer };
	if (n->experts <= left)
		return 0;
	ret_s->resident = (int64_t)(left / 2 / n->row); /* at most half of them, as a row of each is more than all */
	ret_s->slots = (int64_t)(left / 4 / n->slot);
	return 0;
}
