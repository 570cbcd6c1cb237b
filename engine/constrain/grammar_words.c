/* SPDX-License-Identifier: MIT
 * grammar_words.c - sets of texts as one branching graph, and the characters of UTF-8.
 * Threads: who builds the grammar. Locks: none. */
#include "engine/constrain/grammar.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

static int grammar_word_cmp(const void *a, const void *b)
{
	const struct grammar_word *x = a, *y = b;
	int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* Of sorted words that agree up to `from`, how far do they? */
static size_t grammar_words_common(const struct grammar_word *word, size_t n, size_t from)
{
	const struct grammar_word *a = &word[0], *b = &word[n - 1];

	while (from < a->len && from < b->len && a->text[from] == b->text[from])
		from++;
	return from;
}

/* Sorted words from byte `from` on. Recurses once for each branching, of which long words have few: together
 * they are bounded by the nodes. */
static uint32_t grammar_words_from(struct grammar *g, const struct grammar_word *word, size_t n, size_t from)
{
	size_t at = grammar_words_common(word, n, from), i = 0, n_edge = 0;
	/* Not on the stack: this recurses. */
	struct grammar_edge *edge = mem_grow(NULL, n < 256 ? n : 256, sizeof *edge);
	bool ends = false;
	uint32_t end = 0, rest;

	for (; i < n && word[i].len == at; i++) {
		/* The same word twice, with the same after it, is one way. */
		end = ends && end != word[i].next ? grammar_either(g, end, word[i].next) : word[i].next;
		ends = true;
	}
	while (i < n && !g->full) {
		size_t first = i;
		uint8_t c = (uint8_t)word[i].text[at];

		while (i < n && (uint8_t)word[i].text[at] == c)
			i++;
		edge[n_edge].lo = edge[n_edge].hi = c;
		edge[n_edge++].next = grammar_words_from(g, word + first, i - first, at + 1);
	}
	rest = n_edge ? grammar_bytes(g, edge, n_edge) : 0;
	free(edge);
	if (ends)
		rest = n_edge ? grammar_either(g, end, rest) : end;
	return grammar_text(g, word[0].text + from, at - from, rest);
}

uint32_t grammar_words(struct grammar *g, struct grammar_word *word, size_t n)
{
	size_t i, bytes = 0;

	if (n == 0)
		return grammar_bytes(g, NULL, 0);
	for (i = 0; i < n; i++)
		bytes += word[i].len;
	/* Before any recursion: so many bytes bound how deep it goes. */
	g->full |= bytes > GRAMMAR_MAX_NODES;
	grammar_work(g, 16 * n + bytes);
	if (g->full)
		return GRAMMAR_END;
	qsort(word, n, sizeof *word, grammar_word_cmp);
	return grammar_words_from(g, word, n, 0);
}

/* Unicode 16, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF. */
void grammar_utf8(struct grammar *g, uint32_t next, struct grammar_edge ret_edge[GRAMMAR_UTF8_EDGES])
{
	uint32_t t1 = grammar_byte(g, 0x80, 0xbf, next);
	uint32_t t2 = grammar_byte(g, 0x80, 0xbf, t1);
	uint32_t t3 = grammar_byte(g, 0x80, 0xbf, t2);
	const struct grammar_edge e[GRAMMAR_UTF8_EDGES] = {
		{ 0xc2, 0xdf, t1 },
		{ 0xe0, 0xe0, grammar_byte(g, 0xa0, 0xbf, t1) },
		{ 0xe1, 0xec, t2 },
		{ 0xed, 0xed, grammar_byte(g, 0x80, 0x9f, t1) },
		{ 0xee, 0xef, t2 },
		{ 0xf0, 0xf0, grammar_byte(g, 0x90, 0xbf, t2) },
		{ 0xf1, 0xf3, t3 },
		{ 0xf4, 0xf4, grammar_byte(g, 0x80, 0x8f, t2) },
	};

	memcpy(ret_edge, e, sizeof e);
}
