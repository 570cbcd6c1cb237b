/* SPDX-License-Identifier: MIT
 * rng.h - a counter-based random generator: the n-th number of a seed, whatever was drawn before.
 * Threads: any. Locks: none. */
#ifndef ENGINE_RNG_H
#define ENGINE_RNG_H

#include <stdint.h>

#define RNG_ROUNDS 10

/* Philox4x32-10 (Salmon et al., SC 2011): a keyed bijection of the 128-bit counter. The key is the seed and the
 * counter the token's index, so a token's randomness depends on nothing else: not on batch mates, not on chunks. */
static inline void rng_block(uint64_t seed, uint64_t index, uint32_t ret_x[4])
{
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	uint32_t x0 = (uint32_t)index, x1 = (uint32_t)(index >> 32), x2 = 0, x3 = 0;
	int i;

	for (i = 0; i < RNG_ROUNDS; i++) {
		uint64_t a = (uint64_t)0xd2511f53u * x0, b = (uint64_t)0xcd9e8d57u * x2;

		x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
		x1 = (uint32_t)b;
		x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
		x3 = (uint32_t)a;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	ret_x[0] = x0;
	ret_x[1] = x1;
	ret_x[2] = x2;
	ret_x[3] = x3;
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_uniform(uint64_t seed, uint64_t index)
{
	uint32_t x[4];

	rng_block(seed, index, x);
	return (double)(((uint64_t)x[0] << 32 | x[1]) >> 11) * 0x1p-53;
}

#endif
