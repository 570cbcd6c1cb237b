/* SPDX-License-Identifier: MIT
 * tokentrie.c - the vocabulary as a tree of bytes, and which of its tokens an automaton accepts.
 * Threads: any, read-only once made. Locks: none. */
#include "engine/constrain/tokentrie.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The nodes in the order of a walk: a node's children follow it, and `skip` is where its last descendant ends. So
 * the walk runs forward through memory, and a byte that may not come costs one jump. */
struct tokentrie_node {
	uint32_t skip;
	uint32_t first;    /* its tokens are token[first, the next node's first) */
	uint8_t byte, depth; /* depth: 1 for a first byte */
};

struct tokentrie_tree {
	struct tokentrie_node *node; /* [n_node + 1], the last for its `first` only */
	int32_t *token;        /* [n_token] */
	uint32_t n_node, n_token;
};

/* Tokens of plain characters are known by their number of these: those of at most k are plain[k], those of more than
 * TOKENTRIE_MAX_PLAIN are few. */
#define TOKENTRIE_MAX_PLAIN 24

struct tokentrie_long {
	int32_t token;
	uint32_t n;
};

struct tokentrie {
	struct tokentrie_tree all, other; /* other: those that are not plain */
	uint64_t *plain;       /* [TOKENTRIE_MAX_PLAIN + 1][words] */
	size_t words;
	struct tokentrie_long *more;
	uint32_t n_more;
	int32_t dsml;
};

/* ---- making ---- */

struct tokentrie_word {
	const char *bytes;
	uint32_t len;
	int32_t token;
};

static int tokentrie_cmp(const void *a, const void *b)
{
	const struct tokentrie_word *x = a, *y = b;
	int c = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

	if (c == 0)
		c = (x->len > y->len) - (x->len < y->len);
	return c ? c : (x->token > y->token) - (x->token < y->token);
}

static bool tokentrie_takes(const struct tokenizer *t, int32_t id, const char *bytes, size_t len)
{
	size_t i;

	if (len == 0 || len > TOKENTRIE_MAX_LEN || tokenizer_is_added(t, id))
		return false;
	for (i = 0; i < len; i++) {
		uint8_t c = (uint8_t)bytes[i];

		if (c == 0xc0 || c == 0xc1 || c > 0xf4)
			return false;
	}
	return true;
}

/* Fills word [vocab + 1], sorted; how many. */
static uint32_t tokentrie_words(const struct tokenizer *t, struct tokentrie_word *word, int32_t dsml)
{
	static const char dsml_byte[] = { (char)GRAMMAR_DSML };
	uint32_t n = 0;
	size_t len;

	for (int32_t id = 0; id < tokenizer_vocab(t); id++) {
		const char *bytes = tokenizer_bytes(t, id, &len);

		if (tokentrie_takes(t, id, bytes, len))
			word[n++] = (struct tokentrie_word){ bytes, (uint32_t)len, id };
	}
	if (dsml >= 0)
		word[n++] = (struct tokentrie_word){ dsml_byte, 1, dsml };
	qsort(word, n, sizeof *word, tokentrie_cmp);
	return n;
}

static uint32_t tokentrie_common(const struct tokentrie_word *a, const struct tokentrie_word *b)
{
	uint32_t i = 0;

	while (i < a->len && i < b->len && a->bytes[i] == b->bytes[i])
		i++;
	return i;
}

/* Gives nodes to sorted words. `open` has the nodes on the way to the current one. A word's end is always the node
 * that was made last, since no word is the beginning of one before it. */
static void tokentrie_fill(struct tokentrie_tree *t, const struct tokentrie_word *word, uint32_t n)
{
	uint32_t open[TOKENTRIE_MAX_LEN], depth = 0, i, keep;

	for (i = 0; i < n; i++) {
		keep = i ? tokentrie_common(&word[i - 1], &word[i]) : 0;
		while (depth > keep)
			t->node[open[--depth]].skip = t->n_node;
		for (; depth < word[i].len; depth++) {
			open[depth] = t->n_node;
			t->node[t->n_node++] = (struct tokentrie_node){
				.first = i, .byte = (uint8_t)word[i].bytes[depth], .depth = (uint8_t)(depth + 1) };
		}
		t->token[i] = word[i].token;
	}
	while (depth > 0)
		t->node[open[--depth]].skip = t->n_node;
	t->node[t->n_node].first = n;
	t->n_token = n;
}

static int tokentrie_tree(struct tokentrie_tree *t, const struct tokentrie_word *word, uint32_t n)
{
	size_t nodes = 1;
	uint32_t i;

	for (i = 0; i < n; i++)
		nodes += word[i].len - (i ? tokentrie_common(&word[i - 1], &word[i]) : 0);
	t->token = mem_try((size_t)n + 1, sizeof *t->token);
	t->node = nodes < UINT32_MAX ? mem_try(nodes, sizeof *t->node) : NULL;
	if (!t->token || !t->node)
		return -ENOMEM;
	tokentrie_fill(t, word, n);
	return 0;
}

/* ---- plain tokens ---- */

/* How many plain characters it is; 0 when it is anything else. */
static uint32_t tokentrie_plain_chars(const struct tokentrie_word *w)
{
	uint32_t i, n = 0;

	for (i = 0; i < w->len; i++) {
		if (!grammar_is_plain((uint8_t)w->bytes[i]))
			return 0;
		n += ((uint8_t)w->bytes[i] & 0xc0) != 0x80;
	}
	return utf8_valid(w->bytes, w->len) == w->len ? n : 0;
}

static void tokentrie_take_plain(struct tokentrie *t, int32_t token, uint32_t n)
{
	for (uint32_t k = n; k <= TOKENTRIE_MAX_PLAIN; k++)
		tokentrie_allow(t->plain + k * t->words, token);
	if (n > TOKENTRIE_MAX_PLAIN) {
		t->more = mem_grow(t->more, t->n_more + 1, sizeof *t->more);
		t->more[t->n_more++] = (struct tokentrie_long){ token, n };
	}
}

/* Files the plain ones and keeps the others, still sorted; how many. */
static uint32_t tokentrie_split(struct tokentrie *t, struct tokentrie_word *word, uint32_t n)
{
	uint32_t i, kept = 0;

	for (i = 0; i < n; i++) {
		uint32_t chars = tokentrie_plain_chars(&word[i]);

		if (chars)
			tokentrie_take_plain(t, word[i].token, chars);
		else
			word[kept++] = word[i];
	}
	return kept;
}

int tokentrie_new(const struct tokenizer *t, int vocab, struct tokentrie **ret_t)
{
	struct tokentrie_word *word = mem_try((size_t)tokenizer_vocab(t) + 1, sizeof *word);
	struct tokentrie *x = mem_new(sizeof *x);
	uint32_t n;
	int rc = -ENOMEM;

	x->words = tokentrie_mask_words(vocab);
	x->plain = mem_try((TOKENTRIE_MAX_PLAIN + 1) * x->words, sizeof *x->plain);
	x->dsml = tokenizer_added(t, TOKENTRIE_DSML_TEXT);
	if (word && x->plain) {
		n = tokentrie_words(t, word, x->dsml);
		rc = tokentrie_tree(&x->all, word, n);
		rc = rc ? rc : tokentrie_tree(&x->other, word, tokentrie_split(x, word, n));
	}
	free(word);
	if (rc)
		tokentrie_free(&x);
	else
		*ret_t = x;
	return rc;
}

void tokentrie_free(struct tokentrie **pt)
{
	struct tokentrie *t = *pt;

	if (!t)
		return;
	*pt = NULL;
	free(t->all.node);
	free(t->all.token);
	free(t->other.node);
	free(t->other.token);
	free(t->plain);
	free(t->more);
	free(t);
}

size_t tokentrie_bytes(const struct tokentrie *t)
{
	size_t nodes = (size_t)t->all.n_node + t->other.n_node + 2, tokens = (size_t)t->all.n_token + t->other.n_token;

	return nodes * sizeof *t->all.node + tokens * sizeof *t->all.token +
	       (TOKENTRIE_MAX_PLAIN + 1) * t->words * sizeof *t->plain + t->n_more * sizeof *t->more;
}

int32_t tokentrie_dsml(const struct tokentrie *t)
{
	return t->dsml;
}

/* ---- masks ---- */

static bool tokentrie_walk(const struct tokentrie_tree *t, struct automaton *a, uint32_t state, uint64_t *mask)
{
	uint32_t at[TOKENTRIE_MAX_LEN + 1], i = 0, k, s; /* the state at each depth */

	at[0] = state;
	while (i < t->n_node) {
		const struct tokentrie_node *n = &t->node[i];

		s = automaton_step(a, at[n->depth - 1], n->byte);
		if (s == AUTOMATON_FULL)
			return false;
		if (s == AUTOMATON_DEAD) {
			i = n->skip;
			continue;
		}
		at[n->depth] = s;
		for (k = n->first; k < n[1].first; k++)
			tokentrie_allow(mask, t->token[k]);
		i++;
	}
	return true;
}

static void tokentrie_add_plain(const struct tokentrie *t, uint32_t room, uint64_t *mask)
{
	const uint64_t *plain = t->plain + (room < TOKENTRIE_MAX_PLAIN ? room : TOKENTRIE_MAX_PLAIN) * t->words;
	size_t i;

	for (i = 0; i < t->words; i++)
		mask[i] |= plain[i];
	for (i = 0; i < t->n_more; i++)
		if (t->more[i].n <= room)
			tokentrie_allow(mask, t->more[i].token);
}

bool tokentrie_mask(const struct tokentrie *t, struct automaton *a, uint32_t state, uint64_t *mask)
{
	uint32_t room;

	if (!automaton_plain(a, state, &room))
		return tokentrie_walk(&t->all, a, state, mask);
	tokentrie_add_plain(t, room, mask);
	return tokentrie_walk(&t->other, a, state, mask);
}
