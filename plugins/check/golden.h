/* SPDX-License-Identifier: MIT
 * golden.h - what ref computes here: a digest of every op's results on made-up inputs, cheap enough for every start.
 * Threads: any. Locks: none.
 *
 * ref is C, so its bits are those of a compiler, its options and a libm. Two programs with one digest have the same
 * bits so far as the cases of a quick check go, of every op, phase and weight format on the tiny shape. A change of the
 * cases changes it too, which costs no more than a cold cache. */
#ifndef CHECK_GOLDEN_H
#define CHECK_GOLDEN_H

#include <stdint.h>

/* 0, -ENOMEM, -EAGAIN (no threads). */
int check_golden(uint8_t ret_digest[32]);

#endif
