/* SPDX-License-Identifier: MIT
 * pattern.c - the patterns of strings that are understood, as grammars: one way through at a time.
 * Threads: any, one at a time per grammar. Locks: none. */
#include "engine/constrain/pattern.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/jrule.h"
#include "engine/constrain/pattern_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_WORDS (PATTERN_MAX_NODES / 64)
#define PATTERN_ROOM_WORK 20000 /* for zeroed room to work it out in */

/* A set of the graph's nodes, where one is after some text. */
struct pattern_state {
	uint64_t at[PATTERN_WORDS];
	int16_t next[PATTERN_SYMBOLS]; /* -1: nowhere */
};

/* The same graph with one state after each text. */
struct pattern_dfa {
	struct pattern *p;
	struct pattern_state *state; /* [PATTERN_MAX_STATES] */
	int n;
};

/* ---- one state after each text ---- */

static void pattern_put(uint64_t *at, int *todo, int *n, int node)
{
	if (node < 0 || at[node / 64] >> (node % 64) & 1)
		return;
	at[node / 64] |= (uint64_t)1 << (node % 64);
	todo[(*n)++] = node;
}

static void pattern_close(const struct pattern *p, uint64_t *at, int node)
{
	int todo[PATTERN_MAX_NODES], n = 0;

	pattern_put(at, todo, &n, node);
	while (n > 0) {
		const struct pattern_node *x = &p->node[todo[--n]];

		if (x->takes)
			continue;
		pattern_put(at, todo, &n, x->out[0]);
		pattern_put(at, todo, &n, x->out[1]);
	}
}

static int pattern_state(struct pattern_dfa *d, const uint64_t *at)
{
	int i;

	for (i = 0; i < d->n; i++)
		if (memcmp(d->state[i].at, at, sizeof d->state[i].at) == 0)
			return i;
	if (d->n == PATTERN_MAX_STATES)
		return -1;
	memcpy(d->state[d->n].at, at, sizeof d->state[d->n].at);
	return d->n++;
}

/* Where symbol leads from state; false when there are too many states. */
static bool pattern_follow(struct pattern_dfa *d, int state, int symbol)
{
	uint64_t at[PATTERN_WORDS] = { 0 }, bits;
	const struct pattern *p = d->p;
	bool any = false;
	int w, node, to = -1;

	for (w = 0; w * 64 < p->n; w++)
		for (bits = d->state[state].at[w]; bits; bits &= bits - 1) {
			node = w * 64 + __builtin_ctzll(bits);
			if (!p->node[node].takes || !pattern_has(&p->node[node].set, symbol))
				continue;
			pattern_close(p, at, p->node[node].out[0]);
			any = true;
		}
	if (any) {
		to = pattern_state(d, at);
		grammar_work(p->g, (uint64_t)d->n * (uint64_t)(p->n / 64 + 1));
	}
	d->state[state].next[symbol] = (int16_t)to;
	return !any || to >= 0;
}

/* Symbols that no set tells apart have the same successors: only the first of them is followed. */
static void pattern_alike(const struct pattern *p, int like[PATTERN_SYMBOLS])
{
	uint64_t in[PATTERN_SYMBOLS][PATTERN_WORDS]; /* the sets that have it */
	int words = (p->n + 63) / 64;
	int s, i;

	memset(in, 0, sizeof in);
	for (i = 0; i < p->n; i++)
		for (s = 0; p->node[i].takes && s < PATTERN_SYMBOLS; s++)
			in[s][i / 64] |= (uint64_t)pattern_has(&p->node[i].set, s) << (i % 64);
	for (s = 0; s < PATTERN_SYMBOLS; s++)
		for (like[s] = 0; like[s] < s && memcmp(in[s], in[like[s]], (size_t)words * sizeof in[0][0]); )
			like[s]++;
	grammar_work(p->g, (uint64_t)PATTERN_SYMBOLS * (uint64_t)(p->n + PATTERN_SYMBOLS / 2 * words));
}

static bool pattern_determine(struct pattern_dfa *d)
{
	uint64_t at[PATTERN_WORDS] = { 0 };
	int like[PATTERN_SYMBOLS], s, i;

	pattern_alike(d->p, like);
	pattern_close(d->p, at, d->p->start);
	pattern_state(d, at);
	for (i = 0; i < d->n && !d->p->g->full; i++)
		for (s = 0; s < PATTERN_SYMBOLS; s++) {
			if (like[s] != s)
				d->state[i].next[s] = d->state[i].next[like[s]];
			else if (!pattern_follow(d, i, s))
				return false;
			grammar_work(d->p->g, like[s] == s ? (uint64_t)d->p->n : 1);
		}
	return true;
}

/* ---- as a grammar ---- */

/* One layer of nodes for each number of characters that matters; the last is the limit, or where only the least was
 * asked for, all further ones. */
struct pattern_layers {
	const struct pattern_dfa *d;
	uint32_t *hole;        /* [n][d->n] */
	uint32_t n, at;        /* the layer that edges are made of */
	bool limited, raw;
};

static uint32_t pattern_to(const struct pattern_layers *l, int state, int symbol)
{
	int next = l->d->state[state].next[symbol];
	uint32_t to = l->at + 1 < l->n ? l->at + 1 : l->at;

	if (next < 0 || (l->limited && to == l->at))
		return GRAMMAR_END;
	return l->hole[to * (uint32_t)l->d->n + (uint32_t)next];
}

/* Adds an edge if the symbol leads anywhere, to the one before if that fits. */
static size_t pattern_edge(struct grammar_edge *e, size_t n, int byte, uint32_t to)
{
	if (to == GRAMMAR_END)
		return n;
	if (n && e[n - 1].next == to && e[n - 1].hi == byte - 1) {
		e[n - 1].hi = (uint8_t)byte;
		return n;
	}
	e[n] = (struct grammar_edge){ (uint8_t)byte, (uint8_t)byte, to };
	return n + 1;
}

/* What JSON writes with a backslash and one letter. */
static uint32_t pattern_escaped(struct grammar *g, const struct pattern_layers *l, int state)
{
	static const char letters[] = "\"\\bfnrt", stand_for[] = "\"\\\b\f\n\r\t";
	struct grammar_edge e[sizeof letters];
	size_t n = 0, i;

	for (i = 0; i < sizeof letters - 1; i++)
		n = pattern_edge(e, n, letters[i], pattern_to(l, state, stand_for[i]));
	return n ? grammar_bytes(g, e, n) : GRAMMAR_END;
}

static uint32_t pattern_edges(struct grammar *g, const struct pattern_layers *l, int state)
{
	struct grammar_edge e[PATTERN_SYMBOLS + GRAMMAR_UTF8_EDGES];
	uint32_t other = pattern_to(l, state, PATTERN_OTHER), to;
	size_t n = 0;
	int c;

	for (c = l->raw ? '\t' : ' '; c < PATTERN_OTHER; c++) {
		if (c < ' ' && c != '\t' && c != '\n' && c != '\r')
			continue;
		to = l->raw || (c != '"' && c != '\\') ? pattern_to(l, state, c) : GRAMMAR_END;
		if (!l->raw && c == '\\')
			to = pattern_escaped(g, l, state);
		n = pattern_edge(e, n, c, to);
	}
	if (other != GRAMMAR_END) {
		grammar_utf8(g, other, e + n);
		n += GRAMMAR_UTF8_EDGES;
	}
	grammar_work(g, 2 * PATTERN_SYMBOLS);
	return grammar_bytes(g, e, n);
}

static void pattern_layer(struct grammar *g, const struct pattern_layers *l, bool may_end, uint32_t end)
{
	int i, last = l->d->p->end;
	uint32_t node;

	for (i = 0; i < l->d->n && !g->full; i++) {
		node = pattern_edges(g, l, i);
		if (may_end && l->d->state[i].at[last / 64] >> (last % 64) & 1)
			node = grammar_either(g, node, end);
		grammar_fill(g, l->hole[l->at * (uint32_t)l->d->n + (uint32_t)i], node);
	}
}

static int pattern_emit(struct grammar *g, const struct pattern_dfa *d, const struct pattern_want *x,
			uint32_t *ret_rule, struct buf *why)
{
	struct pattern_layers l = { .d = d, .limited = x->max != JRULE_NO_MAX, .raw = x->raw };
	uint32_t end = x->raw ? GRAMMAR_END : grammar_str(g, "\"", GRAMMAR_END), most = l.limited ? x->max : x->min, i;

	if (most >= PATTERN_MAX_COUNTED / (uint32_t)d->n)
		return buf_why(why, RC_TOO_LARGE, "too many states to count so many characters in");
	l.n = most + 1;
	l.hole = mem_grow(NULL, (size_t)l.n * (size_t)d->n, sizeof *l.hole);
	for (i = 0; i < l.n * (uint32_t)d->n; i++)
		l.hole[i] = grammar_hole(g);
	for (l.at = 0; l.at < l.n; l.at++)
		pattern_layer(g, &l, l.at >= x->min, end);
	*ret_rule = grammar_rule(g);
	grammar_define(g, *ret_rule, x->raw ? l.hole[0] : grammar_str(g, "\"", l.hole[0]), false);
	free(l.hole);
	return 0;
}

int pattern_rule(struct grammar *g, const struct pattern_want *x, uint32_t *ret_rule, struct buf *why)
{
	struct pattern_dfa d = { 0 };
	int rc;

	if (strlen(x->pattern) > PATTERN_MAX_LEN)
		return buf_why(why, RC_TOO_LARGE, "longer than %d bytes", PATTERN_MAX_LEN);
	grammar_work(g, PATTERN_ROOM_WORK);
	d.p = mem_try(1, sizeof *d.p);
	d.state = mem_try(PATTERN_MAX_STATES, sizeof *d.state);
	if (!d.p || !d.state) {
		rc = buf_why(why, -ENOMEM, "no memory");
		goto done;
	}
	d.p->p = x->pattern;
	d.p->g = g;
	d.p->why = why;
	rc = pattern_read(d.p);
	if (rc == 0 && !pattern_determine(&d))
		rc = buf_why(why, RC_TOO_LARGE, "needs more than %d states", PATTERN_MAX_STATES);
	rc = rc ? rc : pattern_emit(g, &d, x, ret_rule, why);
done:
	free(d.state);
	free(d.p);
	return rc;
}
