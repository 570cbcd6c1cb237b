/* SPDX-License-Identifier: MIT
 * digest.c - eight bytes that stand for the bits of many floats.
 * Threads: any. Locks: none. */
#include "engine/serve/digest.h"

#include <string.h>

#define DIGEST_LANES 4         /* independent chains: one multiplication waits for none of the others */
#define DIGEST_STEP (2 * DIGEST_LANES)

/* Can be undone, so what differs before differs after. */
static uint64_t digest_mix(uint64_t h)
{
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 33;
}

/* The shift brings the high bits down: a product alone would let two changed signs cancel. */
static uint64_t digest_add(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

static uint64_t digest_pair(const float *x)
{
	uint64_t w;

	memcpy(&w, x, sizeof w);
	return w;
}

uint64_t digest_floats(const float *x, size_t n)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, h = n;
	size_t i = 0;

	for (; i + DIGEST_STEP <= n; i += DIGEST_STEP) {
		a = digest_add(a, digest_pair(x + i));
		b = digest_add(b, digest_pair(x + i + 2));
		c = digest_add(c, digest_pair(x + i + 4));
		d = digest_add(d, digest_pair(x + i + 6));
	}
	for (; i < n; i++) {
		uint32_t w;

		memcpy(&w, x + i, sizeof w);
		a = digest_add(a, w);
	}
	h = digest_mix(h ^ a);
	h = digest_mix(h ^ b);
	h = digest_mix(h ^ c);
	return digest_mix(h ^ d);
}
