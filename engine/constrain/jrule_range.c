/* SPDX-License-Identifier: MIT
 * jrule_range.c - numbers between two bounds, digit by digit.
 * Threads: who builds the grammar. Locks: none. */
#include "engine/constrain/jrule.h"

#include <string.h>

/* Magnitudes a <= x <= b while x is being written. As long as its digits are those of a bound, x is tight to it and
 * the bound's next digit counts; after the first that differs the bound is met whatever follows. A bound goes on with
 * zeros where its digits end. */
struct jrule_between {
	struct grammar *g;
	const struct jrule_decimal *a, *b; /* b NULL: any */
	bool a_open, b_open, integer;
	uint32_t node[4];      /* what comes next, by tight: bit 0 to a, bit 1 to b */
};

#define JRULE_TIGHT_A 1
#define JRULE_TIGHT_B 2

bool jrule_decimal(const char *text, struct jrule_decimal *ret_d)
{
	struct jrule_decimal d = { .negative = *text == '-' };
	size_t n;

	text += d.negative;
	n = strspn(text, "0123456789");
	if (n == 0 || n > JRULE_MAX_DIGITS)
		return false;
	memcpy(d.whole, text, n);
	text += n;
	if (*text == '.') {
		n = strspn(++text, "0123456789");
		if (n > JRULE_MAX_DIGITS)
			return false;
		memcpy(d.fraction, text, n);
		text += n;
	}
	if (*text)
		return false;
	for (n = strlen(d.fraction); n > 0 && d.fraction[n - 1] == '0'; n--)
		d.fraction[n - 1] = '\0';
	*ret_d = d;
	return true;
}

static bool jrule_is_zero(const struct jrule_decimal *d)
{
	return strcmp(d->whole, "0") == 0 && !*d->fraction;
}

static int jrule_digit(const char *digits, int at)
{
	return at < (int)strlen(digits) ? digits[at] - '0' : 0;
}

/* One digit where a and b have da and db, then what x->node says. Equal neighbours become one edge. */
static uint32_t jrule_one(const struct jrule_between *x, int tight, int da, int db, int least)
{
	struct grammar_edge e[10];
	int lo = tight & JRULE_TIGHT_A ? da : 0, hi = tight & JRULE_TIGHT_B ? db : 9, d;
	size_t n = 0;

	for (d = lo < least ? least : lo; d <= hi; d++) {
		int after = (d == da ? tight & JRULE_TIGHT_A : 0) | (d == db ? tight & JRULE_TIGHT_B : 0);
		uint32_t next = x->node[after];

		if (n && e[n - 1].next == next)
			e[n - 1].hi = (uint8_t)('0' + d);
		else
			e[n++] = (struct grammar_edge){ (uint8_t)('0' + d), (uint8_t)('0' + d), next };
	}
	return grammar_bytes(x->g, e, n);
}

/* May x end where `at` digits of the fraction are written? Being tight to both means that so far they agree. */
static bool jrule_may_end(const struct jrule_between *x, int tight, int at)
{
	bool a_done = at >= (int)strlen(x->a->fraction);
	bool b_done = !x->b || at >= (int)strlen(x->b->fraction);

	if (tight & JRULE_TIGHT_A && (!a_done || x->a_open))
		return false;
	return !(tight & JRULE_TIGHT_B && b_done && x->b_open);
}

/* Sets x->node to the fraction's beginning: the point, or the end. */
static void jrule_fraction(struct jrule_between *x)
{
	uint32_t never = grammar_bytes(x->g, NULL, 0), now[4];
	int at, tight;

	for (tight = 0; tight < 4; tight++)
		x->node[tight] = jrule_may_end(x, tight, JRULE_MAX_DIGITS) ? GRAMMAR_END : never;
	for (at = JRULE_MAX_DIGITS - 1; at >= 0 && !x->integer; at--) {
		for (tight = 0; tight < 4; tight++) {
			int db = x->b ? jrule_digit(x->b->fraction, at) : 9;

			now[tight] = jrule_one(x, tight, jrule_digit(x->a->fraction, at), db, 0);
			if (at > 0 && jrule_may_end(x, tight, at))
				now[tight] = grammar_either(x->g, now[tight], GRAMMAR_END);
		}
		memcpy(x->node, now, sizeof now);
	}
	for (tight = 0; tight < 4; tight++) {
		uint32_t point = x->integer ? never : grammar_str(x->g, ".", x->node[tight]);

		x->node[tight] = jrule_may_end(x, tight, 0) ? grammar_either(x->g, point, GRAMMAR_END) : point;
	}
}

/* All x whose whole part has n digits. */
static uint32_t jrule_length(const struct jrule_between *x, int n, const uint32_t after[4])
{
	struct jrule_between y = *x;
	uint32_t now[4];
	int tight = 0, at, i, n_a = (int)strlen(x->a->whole), n_b = x->b ? (int)strlen(x->b->whole) : 0;

	memcpy(y.node, after, sizeof y.node);
	for (at = n - 1; at >= 0; at--) {
		int least = at == 0 && n > 1;

		for (i = 0; i < 4; i++)
			now[i] = jrule_one(&y, i, jrule_digit(x->a->whole, at),
					   x->b ? jrule_digit(x->b->whole, at) : 9, least);
		memcpy(y.node, now, sizeof now);
	}
	tight |= n == n_a ? JRULE_TIGHT_A : 0;
	tight |= n == n_b ? JRULE_TIGHT_B : 0;
	return y.node[tight];
}

static uint32_t jrule_magnitudes(struct jrule_between *x)
{
	uint32_t all = grammar_bytes(x->g, NULL, 0), after[4];
	int n = (int)strlen(x->a->whole), most = x->b ? (int)strlen(x->b->whole) : n;

	jrule_fraction(x);
	memcpy(after, x->node, sizeof after);
	for (; n <= most; n++)
		all = grammar_either(x->g, jrule_length(x, n, after), all);
	if (!x->b && most < JRULE_MAX_DIGITS) {
		/* All that have more digits than a. */
		uint32_t more = jrule_digits(x->g, most, JRULE_MAX_DIGITS - 1, after[0]);

		all = grammar_either(x->g, grammar_byte(x->g, '1', '9', more), all);
	}
	return all;
}

uint32_t jrule_range(struct grammar *g, const struct jrule_range *r)
{
	static const struct jrule_decimal zero = { .whole = "0" }, one = { .whole = "1" };
	bool lo_below = !r->lo || r->lo->negative, hi_below = r->hi && r->hi->negative;
	uint32_t all = grammar_bytes(g, NULL, 0);
	struct jrule_between x = { .g = g, .integer = r->integer };

	if (!hi_below) {
		x.a = lo_below ? &zero : r->lo;
		x.a_open = !lo_below && r->lo_open;
		x.b = r->hi;
		x.b_open = r->hi_open;
		all = jrule_magnitudes(&x);
	}
	if (lo_below) {
		/* No integer is written -0. */
		x.a = hi_below ? r->hi : r->integer ? &one : &zero;
		x.a_open = r->hi && r->hi_open && (hi_below || (!r->integer && jrule_is_zero(r->hi)));
		x.b = r->lo;
		x.b_open = r->lo_open;
		all = grammar_either(g, all, grammar_str(g, "-", jrule_magnitudes(&x)));
	}
	return all;
}
