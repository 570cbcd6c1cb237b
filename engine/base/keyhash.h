/* SPDX-License-Identifier: MIT
 * keyhash.h - API keys and the salted hashes that stand for them in a key file.
 * Threads: any. Locks: none. */
#ifndef BASE_KEYHASH_H
#define BASE_KEYHASH_H

#include "engine/base/buf.h"
#include "engine/base/sha256.h"

#include <stdbool.h>

#define KEYHASH_SALT 16      /* bytes */
#define KEYHASH_MAX_KEY 256  /* bytes of a key; longer ones are nobody's */
#define KEYHASH_NAME 26      /* bytes of a key's name */
#define KEYHASH_NEW 64       /* what a new key's text fits in */

/* SHA-256 of salt and key. One round is enough: keys are random, so that there is nothing to guess. */
struct keyhash {
	uint8_t salt[KEYHASH_SALT], digest[SHA256_BYTES];
};

/* A key of 192 random bits: "sk-dsv4-" and hexadecimal digits. */
void keyhash_new_key(char ret_key[KEYHASH_NEW]);
/* Its hash under a new salt. */
void keyhash_make(struct keyhash *h, const char *key);
/* Does the key of len bytes belong to the hash? Takes as long when it does as when it does not. */
bool keyhash_is(const struct keyhash *h, const char *key, size_t len);
/* "sha256$SALT$DIGEST" in hexadecimal digits. */
void keyhash_print(const struct keyhash *h, struct buf *out);
bool keyhash_parse(const char *text, struct keyhash *ret_h);
/* 1 to KEYHASH_NAME letters, digits, '.', '_' and '-'. */
bool keyhash_name_ok(const char *name);

#endif
