/* SPDX-License-Identifier: MIT
 * cache_numbers.c - do two kernel sets with their numerics compute the same bits? The numbers' identity.
 * Threads: any. Locks: none. */
#include "engine/cache/cache_numbers.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "engine/model/rope_table.h"

#include <string.h>

#define CACHE_NUMBERS_POSITIONS 512

static uint8_t cache_numbers_digest[32];
static char cache_numbers_cpu[SHA256_HEX];
static int cache_numbers_n_rank = 1;

/* Outside the ops the engine computes the rotations, in libm's double. */
static void cache_numbers_rotations(struct buf *b)
{
	const struct rope_yarn yarn = { .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_context = 65536 };
	float cs[CACHE_NUMBERS_POSITIONS * 2 * 2];
	struct rope_table t;

	for (int scaled = 0; scaled < 2; scaled++) {
		rope_table_init(&t, 4, scaled ? 160000 : 10000, scaled ? &yarn : NULL);
		rope_table_fill(&t, 0, 509, CACHE_NUMBERS_POSITIONS, cs);
		buf_add(b, cs, sizeof cs);
	}
}

void cache_numbers_arithmetic(const uint8_t golden[32])
{
	struct buf b = { 0 };

	buf_add(&b, golden, 32);
	cache_numbers_rotations(&b);
	sha256(cache_numbers_digest, b.data, b.len);
	buf_fini(&b);
}

void cache_numbers_machine(const char *features)
{
	uint8_t digest[32];

	sha256(digest, features, strlen(features));
	sha256_hex(cache_numbers_cpu, digest, sizeof digest);
}

void cache_numbers_ranks(int n)
{
	cache_numbers_n_rank = n;
}

static void cache_numbers_parameters(struct buf *b, const struct numerics *n)
{
	char value[32];

	for (int i = 0; i < numerics_count; i++)
		if (numerics_table[i].offset != offsetof(struct numerics, drop_thinking)) /* changes tokens only */
			buf_printf(b, "%s=%s\n", numerics_table[i].name,
				numerics_get(n, &numerics_table[i], value));
}

static bool cache_numbers_exact(const struct kset_slot *s)
{
	return s->entry->numerics == DSV4_EXACT && provider_exact(s->provider);
}

static void cache_numbers_slot(struct buf *b, const struct kset_slot *s)
{
	const struct provider *p = s->provider;

	if (cache_numbers_exact(s))
		buf_adds(b, "exact\n");
	else
		buf_printf(b, "%s %s %s %s\n", p->plugin->name, p->plugin->version, p->sha256, cache_numbers_cpu);
}

/* What "exact" is the same as: what this program computes by itself, and without whom. */
static void cache_numbers_common(struct buf *b)
{
	char hex[SHA256_HEX];

	sha256_hex(hex, cache_numbers_digest, sizeof cache_numbers_digest);
	buf_printf(b, "ref %s %s\n", provider_ref.plugin->version, hex);
	if (cache_numbers_n_rank > 1)
		buf_printf(b, "ranks %d\n", cache_numbers_n_rank);
	for (const struct disproved *d = disproved_newest(); d; d = d->older)
		if (d->believed)
			buf_printf(b, "without %s\n", d->key);
}

void cache_numbers(const struct kset *ks, const struct numerics *n, uint8_t ret_id[32])
{
	struct buf b = { 0 };

	cache_numbers_common(&b);
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
	if (cache_numbers_exact(a) && cache_numbers_exact(b))
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
