/* SPDX-License-Identifier: MIT
 * keyhash.c - API keys and the salted hashes that stand for them in a key file.
 * Threads: any. Locks: none. */
#include "engine/base/keyhash.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <string.h>
#include <sys/random.h>

#define KEYHASH_PREFIX "sk-dsv4-"
#define KEYHASH_KIND "sha256$"

static void keyhash_random(uint8_t *to, size_t n)
{
	must(getrandom(to, n, 0) == (ssize_t)n);
}

static void keyhash_hex(struct buf *out, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", bytes[i]);
}

void keyhash_new_key(char ret_key[KEYHASH_NEW])
{
	struct buf text = { 0 };
	uint8_t r[24];

	keyhash_random(r, sizeof r);
	buf_adds(&text, KEYHASH_PREFIX);
	keyhash_hex(&text, r, sizeof r);
	must(text.len < KEYHASH_NEW);
	strcpy(ret_key, text.data);
	buf_fini(&text);
}

static void keyhash_digest(uint8_t ret[SHA256_BYTES], const uint8_t *salt, const char *key, size_t len)
{
	uint8_t both[KEYHASH_SALT + KEYHASH_MAX_KEY];

	must(len <= KEYHASH_MAX_KEY);
	memcpy(both, salt, KEYHASH_SALT);
	memcpy(both + KEYHASH_SALT, key, len);
	sha256(ret, both, KEYHASH_SALT + len);
}

void keyhash_make(struct keyhash *h, const char *key)
{
	keyhash_random(h->salt, sizeof h->salt);
	keyhash_digest(h->digest, h->salt, key, strlen(key));
}

bool keyhash_is(const struct keyhash *h, const char *key, size_t len)
{
	uint8_t digest[SHA256_BYTES];
	unsigned differ = 0;

	if (len > KEYHASH_MAX_KEY)
		return false;
	keyhash_digest(digest, h->salt, key, len);
	for (size_t i = 0; i < sizeof digest; i++)
		differ |= digest[i] ^ h->digest[i];
	return differ == 0;
}

void keyhash_print(const struct keyhash *h, struct buf *out)
{
	buf_adds(out, KEYHASH_KIND);
	keyhash_hex(out, h->salt, sizeof h->salt);
	buf_addc(out, '$');
	keyhash_hex(out, h->digest, sizeof h->digest);
}

static bool keyhash_unhex(const char *s, uint8_t *to, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < 2 * n; i++) {
		const char *d = s[i] ? strchr(digits, s[i]) : NULL;

		if (!d)
			return false;
		to[i / 2] = (uint8_t)(to[i / 2] << 4 | (d - digits));
	}
	return true;
}

bool keyhash_parse(const char *text, struct keyhash *ret_h)
{
	size_t kind = strlen(KEYHASH_KIND), dollar = kind + 2 * KEYHASH_SALT;
	struct keyhash h = { 0 };

	if (strlen(text) != dollar + 1 + 2 * SHA256_BYTES || strncmp(text, KEYHASH_KIND, kind) ||
	    text[dollar] != '$' || !keyhash_unhex(text + kind, h.salt, sizeof h.salt) ||
	    !keyhash_unhex(text + dollar + 1, h.digest, sizeof h.digest))
		return false;
	*ret_h = h;
	return true;
}

bool keyhash_name_ok(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= KEYHASH_NAME &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}
