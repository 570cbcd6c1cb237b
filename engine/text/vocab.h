/* SPDX-License-Identifier: MIT
 * vocab.h - the tokens of a tokenizer: their bytes and flags by id and, while loading, their ids by name.
 * Threads: any, read-only after loading. Locks: none. */
#ifndef ENGINE_VOCAB_H
#define ENGINE_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#define VOCAB_MAX (1 << 20) /* ids; Flash has 129,280 */

enum vocab_flags {
	VOCAB_USED = 1,    /* the id has a token; others are holes */
	VOCAB_ADDED = 2,
	VOCAB_SPECIAL = 4, /* decoding may skip it */
};

struct vocab_token {
	uint32_t name, name_len; /* as the file spells it, until vocab_drop_names */
	uint32_t at, len;        /* the bytes it stands for */
	uint8_t flags;
};

struct vocab_slot {
	uint32_t hash;
	int32_t id; /* -1: empty */
};

struct vocab {
	int n;                     /* ids are 0..n-1 */
	struct vocab_token *token; /* [n] */
	char *bytes, *names;
	uint32_t bytes_len, names_len, cap;
	struct vocab_slot *slot; /* open addressing by name */
	uint32_t mask;
	int16_t alphabet[0x144]; /* the byte that a letter of the byte alphabet stands for, or -1 */
};

/* Room for ids 0..n-1 and n_bytes of names. 0 or -ENOMEM. */
int vocab_init(struct vocab *v, int n, size_t n_bytes);
void vocab_fini(struct vocab *v);
/* 0, -EEXIST when the id or the name is taken. id < n, and all names together fit in n_bytes. */
int vocab_add(struct vocab *v, int32_t id, const char *name, size_t len, unsigned flags);
/* The id of a name, or -1. */
int32_t vocab_find(const struct vocab *v, const char *name, size_t len);
/* The id of the token whose name is the one letter for this byte, or -1. */
int32_t vocab_find_byte(const struct vocab *v, unsigned char byte);
void vocab_drop_names(struct vocab *v);

#endif
