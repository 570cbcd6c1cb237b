/* SPDX-License-Identifier: MIT
 * sha256.h - SHA-256 (FIPS 180-4) of bytes in memory: names a thing by what is in it.
 * Threads: any. Locks: none. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX 65 /* digits and a NUL */

void sha256(uint8_t ret_digest[SHA256_BYTES], const void *bytes, size_t n);
/* Lower-case hex digits of the digest of n bytes. */
void sha256_hex(char ret_hex[SHA256_HEX], const void *bytes, size_t n);

#endif
