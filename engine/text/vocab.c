/* SPDX-License-Identifier: MIT
 * vocab.c - the tokens of a tokenizer: their bytes and flags by id and, while loading, their ids by name.
 * Threads: any, read-only after loading. Locks: none. */
#include "engine/text/vocab.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The byte alphabet of byte-level BPE: bytes that print in Latin-1 are their own letters, the others are
 * written as U+0100, U+0101 and so on in their order. */
static uint32_t vocab_letter(unsigned char byte)
{
	uint32_t letter = 0x100;

	for (int b = 0;; b++) {
		bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;

		if (b == byte)
			return prints ? byte : letter;
		letter += !prints;
	}
}

int vocab_init(struct vocab *v, int n, size_t n_bytes)
{
	uint32_t size = 16;

	must(n >= 0 && n <= VOCAB_MAX && n_bytes < UINT32_MAX / 2);
	while (size < (uint32_t)n * 2)
		size *= 2;
	*v = (struct vocab){ .n = n, .mask = size - 1, .cap = (uint32_t)n_bytes };
	v->token = mem_try((size_t)n, sizeof *v->token);
	v->slot = mem_try(size, sizeof *v->slot);
	v->bytes = mem_try(n_bytes + 1, 1); /* bytes are never more than the letters they are written in */
	v->names = mem_try(n_bytes + 1, 1);
	if (!v->token || !v->slot || !v->bytes || !v->names) {
		vocab_fini(v);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < size; i++)
		v->slot[i].id = -1;
	memset(v->alphabet, -1, sizeof v->alphabet);
	for (int b = 0; b < 256; b++)
		v->alphabet[vocab_letter((unsigned char)b)] = (int16_t)b;
	return 0;
}

void vocab_fini(struct vocab *v)
{
	vocab_drop_names(v);
	free(v->token);
	free(v->bytes);
	*v = (struct vocab){ 0 };
}

void vocab_drop_names(struct vocab *v)
{
	free(v->names);
	free(v->slot);
	v->names = NULL;
	v->slot = NULL;
}

static uint32_t vocab_hash(const char *s, size_t len)
{
	uint64_t h = len * 0x9E3779B97F4A7C15u, x = 0;

	for (; len >= 8; s += 8, len -= 8) {
		memcpy(&x, s, 8);
		h = (h ^ x) * 0x9E3779B97F4A7C15u;
		h ^= h >> 29;
	}
	x = 0;
	memcpy(&x, s, len);
	h = (h ^ x) * 0x9E3779B97F4A7C15u;
	return (uint32_t)(h >> 32);
}

/* The slot that holds the name, or the empty one where it would go. */
static struct vocab_slot *vocab_slot(const struct vocab *v, uint32_t hash, const char *name, size_t len)
{
	for (uint32_t i = hash & v->mask;; i = (i + 1) & v->mask) {
		struct vocab_slot *s = &v->slot[i];
		const struct vocab_token *t = &v->token[s->id < 0 ? 0 : s->id];

		if (s->id < 0)
			return s;
		if (s->hash == hash && t->name_len == len && memcmp(v->names + t->name, name, len) == 0)
			return s;
	}
}

/* Appends what the name stands for: the bytes of its letters when all are of the byte alphabet, else itself.
 */
static void vocab_unspell(struct vocab *v, struct vocab_token *t, const char *name, size_t len)
{
	size_t n;

	t->at = v->bytes_len;
	for (size_t i = 0; i < len; i += n) {
		uint32_t c;

		must(utf8_step(name + i, len - i, &n) == UTF8_VALID);
		c = utf8_get(name + i, n);
		if (c >= mem_countof(v->alphabet) || v->alphabet[c] < 0) {
			memcpy(v->bytes + t->at, name, len);
			v->bytes_len = t->at + (uint32_t)len;
			break;
		}
		v->bytes[v->bytes_len++] = (char)v->alphabet[c];
	}
	t->len = v->bytes_len - t->at;
}

int vocab_add(struct vocab *v, int32_t id, const char *name, size_t len, unsigned flags)
{
	struct vocab_token *t = &v->token[id];
	uint32_t hash = vocab_hash(name, len);
	struct vocab_slot *s = vocab_slot(v, hash, name, len);

	must(id >= 0 && id < v->n && len <= v->cap - v->names_len);
	if (s->id >= 0 || (t->flags & VOCAB_USED))
		return -EEXIST;
	*s = (struct vocab_slot){ hash, id };
	t->flags = (uint8_t)(flags | VOCAB_USED);
	t->name = v->names_len;
	t->name_len = (uint32_t)len;
	memcpy(v->names + t->name, name, len);
	v->names_len += (uint32_t)len;
	vocab_unspell(v, t, name, len);
	return 0;
}

int32_t vocab_find(const struct vocab *v, const char *name, size_t len)
{
	return vocab_slot(v, vocab_hash(name, len), name, len)->id;
}

int32_t vocab_find_byte(const struct vocab *v, unsigned char byte)
{
	char name[4];

	return vocab_find(v, name, (size_t)utf8_put(vocab_letter(byte), name));
}
