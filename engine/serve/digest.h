/* SPDX-License-Identifier: MIT
 * digest.h - eight bytes that stand for the bits of many floats: other bits, another digest, but for one chance in
 * 2^64. For telling faults, not attacks.
 * Threads: any. Locks: none. */
#ifndef ENGINE_DIGEST_H
#define ENGINE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Quick enough for every token's logits: some 60 us for 129,280 of them. */
uint64_t digest_floats(const float *x, size_t n);

#endif
