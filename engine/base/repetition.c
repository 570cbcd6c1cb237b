/* SPDX-License-Identifier: MIT
 * repetition.c - how often a growing text says the same: runs of one word, and one line again and again.
 * Threads: any, one at a time per object. Locks: none. */
#include "engine/base/repetition.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

#define REPETITION_SLOTS 16 /* at first */

/* ---- hashes ---- */

static const struct repetition_hash repetition_empty = { 0xcbf29ce484222325u, 0x9e3779b97f4a7c15u };

static void repetition_mix(struct repetition_hash *h, uint8_t byte)
{
	h->a = (h->a ^ byte) * 0x100000001b3u;
	h->b = ((h->b << 23 | h->b >> 41) + byte) * 0xd6e8feb86659fd93u;
}

static bool repetition_same(const struct repetition_hash *x, const struct repetition_hash *y)
{
	return x->a == y->a && x->b == y->b;
}

static bool repetition_space(uint8_t byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool repetition_letter(uint8_t byte)
{
	return byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}

static void repetition_raise(uint64_t *figure, uint64_t to)
{
	if (to > *figure)
		*figure = to;
}

/* ---- the table of lines ---- */

/* Its slot, or the free one where it belongs. */
static struct repetition_line *repetition_slot(struct repetition_line *table, size_t n_slot,
					       const struct repetition_hash *h)
{
	size_t i = (size_t)(h->a ^ h->b >> 32) & (n_slot - 1);

	while (table[i].last && !repetition_same(&table[i].hash, h))
		i = (i + 1) & (n_slot - 1);
	return &table[i];
}

/* Into a table of n_slot slots, of the lines that came after line `since`. */
static void repetition_rebuild(struct repetition *r, size_t n_slot, uint64_t since)
{
	struct repetition_line *old = r->table;
	size_t n_old = r->n_slot;

	r->table = mem_grow(NULL, n_slot, sizeof *r->table);
	memset(r->table, 0, n_slot * sizeof *r->table);
	r->n_slot = n_slot;
	r->n_used = 0;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].last > since) {
			*repetition_slot(r->table, n_slot, &old[i].hash) = old[i];
			r->n_used++;
		}
	free(old);
}

/* There are at most as many lines as came since, so this forgets at least half, and no chain that may go on. */
static void repetition_room(struct repetition *r)
{
	if (r->n_used >= r->max_used)
		repetition_rebuild(r, r->n_slot, r->n_line - r->max_used / 2);
	else if (2 * (r->n_used + 1) > r->n_slot)
		repetition_rebuild(r, r->n_slot ? 2 * r->n_slot : REPETITION_SLOTS, 0);
}

/* ---- words and lines ---- */

static uint64_t repetition_run(const struct repetition *r)
{
	return r->run && repetition_same(&r->word, &r->word_before) ? r->run + 1 : 1;
}

static void repetition_end_word(struct repetition *r)
{
	if (!r->in_word)
		return;
	r->run = repetition_run(r);
	r->word_before = r->word;
	r->word = repetition_empty;
	r->in_word = false;
	r->settled.words++;
	repetition_raise(&r->settled.maxrun, r->run);
}

static void repetition_end_line(struct repetition *r)
{
	r->n_line++;
	if (r->line_counts) {
		struct repetition_line *l;

		repetition_room(r);
		l = repetition_slot(r->table, r->n_slot, &r->line);
		r->n_used += !l->last;
		l->chain = l->last && r->n_line - l->last <= REPETITION_NEAR ? l->chain + 1 : 1;
		l->count++;
		l->last = r->n_line;
		l->hash = r->line;
		r->settled.lines++;
		repetition_raise(&r->settled.maxline, l->count);
		repetition_raise(&r->settled.maxchain, l->chain);
	}
	r->line = repetition_empty;
	r->line_counts = false;
}

void repetition_init(struct repetition *r, size_t max_lines)
{
	must(max_lines >= 2 * REPETITION_NEAR);
	*r = (struct repetition){ .word = repetition_empty, .line = repetition_empty, .max_used = max_lines };
}

void repetition_fini(struct repetition *r)
{
	free(r->table);
	*r = (struct repetition){ 0 };
}

void repetition_put(struct repetition *r, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)text[i];

		if (repetition_space(byte)) {
			repetition_end_word(r);
		} else {
			repetition_mix(&r->word, byte);
			r->in_word = true;
		}
		if (byte == '\n') {
			repetition_end_line(r);
		} else {
			repetition_mix(&r->line, byte);
			r->line_counts |= repetition_letter(byte);
		}
	}
}

void repetition_now(const struct repetition *r, struct repetition_figures *ret_f)
{
	const struct repetition_line *l = NULL;

	*ret_f = r->settled;
	if (r->in_word) {
		ret_f->words++;
		repetition_raise(&ret_f->maxrun, repetition_run(r));
	}
	if (!r->line_counts)
		return;
	if (r->n_slot)
		l = repetition_slot(r->table, r->n_slot, &r->line);
	ret_f->lines++;
	repetition_raise(&ret_f->maxline, l && l->last ? l->count + 1 : 1);
	repetition_raise(&ret_f->maxchain,
			 l && l->last && r->n_line + 1 - l->last <= REPETITION_NEAR ? l->chain + 1 : 1);
}

const struct repetition_figures *repetition_settled(const struct repetition *r)
{
	return &r->settled;
}
