/* SPDX-License-Identifier: MIT
 * nametab.c - a hash table from names to numbers; names stay the caller's.
 * Threads: any, one writer. Locks: none. */
#include "engine/checkpoint/nametab.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NAMETAB_FIRST 64

struct nametab_slot {
	const char *name; /* NULL: free */
	uint32_t hash;
	int value;
};

static uint64_t nametab_seed(void)
{
	static uint64_t seed; /* a race would only draw it twice before the first table exists */
	uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED), zero = 0;

	if (s)
		return s;
	if (getrandom(&s, sizeof s, GRND_NONBLOCK) != (ssize_t)sizeof s)
		s = (uint64_t)(uintptr_t)&s;
	s |= 1;
	__atomic_compare_exchange_n(&seed, &zero, s, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return __atomic_load_n(&seed, __ATOMIC_RELAXED);
}

/* Eight bytes at a time through a 64 x 64 -> 128 bit product. */
static uint32_t nametab_hash(const char *name)
{
	uint64_t h = nametab_seed(), w;
	size_t n = strlen(name);
	__uint128_t m;

	for (;; name += 8, n -= 8) {
		w = 0;
		memcpy(&w, name, n < 8 ? n : 8);
		m = (__uint128_t)(h ^ w) * 0x9e3779b97f4a7c15u;
		h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ n;
		if (n <= 8)
			return (uint32_t)(h ^ h >> 32);
	}
}

static struct nametab_slot *nametab_slot(const struct nametab *t, const char *name, uint32_t hash)
{
	uint32_t i = hash & t->mask;

	while (t->slot[i].name && (t->slot[i].hash != hash || strcmp(t->slot[i].name, name) != 0))
		i = (i + 1) & t->mask;
	return &t->slot[i];
}

static int nametab_resize(struct nametab *t, uint32_t size)
{
	struct nametab next = { mem_try(size, sizeof *next.slot), t->n, size - 1 };
	uint32_t i;

	if (!next.slot)
		return -ENOMEM;
	for (i = 0; t->slot && i <= t->mask; i++)
		if (t->slot[i].name)
			*nametab_slot(&next, t->slot[i].name, t->slot[i].hash) = t->slot[i];
	free(t->slot);
	*t = next;
	return 0;
}

int nametab_put(struct nametab *t, const char *name, int value, int *ret_value)
{
	uint32_t hash = nametab_hash(name);
	struct nametab_slot *s;

	if (!t->slot || t->n > t->mask / 2) {
		if (t->mask >= UINT32_MAX / 2 ||
		    nametab_resize(t, t->slot ? (t->mask + 1) * 2 : NAMETAB_FIRST))
			return -ENOMEM;
	}
	s = nametab_slot(t, name, hash);
	if (s->name) {
		if (ret_value)
			*ret_value = s->value;
		return 0;
	}
	*s = (struct nametab_slot){ name, hash, value };
	t->n++;
	return 1;
}

int nametab_find(const struct nametab *t, const char *name)
{
	const struct nametab_slot *s = t->slot ? nametab_slot(t, name, nametab_hash(name)) : NULL;

	return s && s->name ? s->value : -1;
}

void nametab_fini(struct nametab *t)
{
	if (!t)
		return;
	free(t->slot);
	*t = (struct nametab){ 0 };
}
