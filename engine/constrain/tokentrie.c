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

struct tokentrie {
	struct tokentrie_node *node; /* [n_node + 1], the last for its `first` only */
	int32_t *token;
	uint32_t n_node, n_token;
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
static void tokentrie_fill(struct tokentrie *t, const struct tokentrie_word *word, uint32_t n)
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
}

static size_t tokentrie_count(const struct tokentrie_word *word, uint32_t n)
{
	size_t nodes = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		nodes += word[i].len - (i ? tokentrie_common(&word[i - 1], &word[i]) : 0);
	return nodes;
}

int tokentrie_new(const struct tokenizer *t, struct tokentrie **ret_t)
{
	struct tokentrie_word *word = mem_try((size_t)tokenizer_vocab(t) + 1, sizeof *word);
	struct tokentrie *x = mem_new(sizeof *x);
	size_t nodes;

	if (!word)
		goto fail;
	x->dsml = tokenizer_added(t, TOKENTRIE_DSML_TEXT);
	x->n_token = tokentrie_words(t, word, x->dsml);
	nodes = tokentrie_count(word, x->n_token);
	x->token = mem_try((size_t)x->n_token + 1, sizeof *x->token);
	x->node = nodes < UINT32_MAX ? mem_try(nodes + 1, sizeof *x->node) : NULL;
	if (!x->token || !x->node)
		goto fail;
	tokentrie_fill(x, word, x->n_token);
	free(word);
	*ret_t = x;
	return 0;
fail:
	free(word);
	tokentrie_free(&x);
	return -ENOMEM;
}

void tokentrie_free(struct tokentrie **t)
{
	if (!*t)
		return;
	free((*t)->node);
	free((*t)->token);
	free(*t);
	*t = NULL;
}

size_t tokentrie_bytes(const struct tokentrie *t)
{
	return (t->n_node + 1) * sizeof *t->node + t->n_token * sizeof *t->token;
}

int32_t tokentrie_dsml(const struct tokentrie *t)
{
	return t->dsml;
}

/* ---- walking ---- */

bool tokentrie_mask(const struct tokentrie *t, struct automaton *a, uint32_t state, uint64_t *mask)
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
