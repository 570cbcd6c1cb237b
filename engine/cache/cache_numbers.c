/* SPDX-License-Identifier: MIT
 * cache_numbers.c - do two kernel sets with their numerics compute the same bits? The numbers' identity.
 * Threads: any. Locks: none. */
#include "engine/cache/cache_numbers.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"

#include <string.h>

static void cache_numbers_parameters(struct buf *b, const struct numerics *n)
{
	char value[32];

	for (int i = 0; i < numerics_count; i++)
		if (numerics_table[i].offset != offsetof(struct numerics, drop_thinking)) /* changes tokens only */
			buf_printf(b, "%s=%s\n", numerics_table[i].name,
				numerics_get(n, &numerics_table[i], value));
}

static void cache_numbers_slot(struct buf *b, const struct kset_slot *s)
{
	const struct provider *p = s->provider;

	if (s->entry->numerics == DSV4_EXACT)
		buf_adds(b, "exact\n");
	else
		buf_printf(b, "%s %s %s\n", p->plugin->name, p->plugin->version, p->sha256);
}

/* What "exact" is the same as: ref's version stands for all that this program computes by itself. */
void cache_numbers(const struct kset *ks, const struct numerics *n, uint8_t ret_id[32])
{
	struct buf b = { 0 };

	buf_printf(&b, "ref %s\n", provider_ref.plugin->version);
	cache_numbers_parameters(&b, n);
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++)
				cache_numbers_slot(&b, kset_slot(ks, (enum dsv4_op)op, (enum dsv4_phase)ph,
							       (enum dsv4_wfmt)wf));
	sha256(ret_id, b.data, b.len);
	buf_fini(&b);
}

static bool cache_numbers_same(const struct kset_slot *a, const struct kset_slot *b)
{
	if (a->entry->numerics == DSV4_EXACT && b->entry->numerics == DSV4_EXACT)
		return true;
	return a->provider == b->provider && a->fn == b->fn;
}

bool cache_phases_agree(const struct kset *ks)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int wf = 0; wf < DSV4_N_WFMT; wf++)
			if (!cache_numbers_same(kset_slot(ks, (enum dsv4_op)op, DSV4_PREFILL, (enum dsv4_wfmt)wf),
				    kset_slot(ks, (enum dsv4_op)op, DSV4_DECODE, (enum dsv4_wfmt)wf)))
				return false;
	return true;
}
