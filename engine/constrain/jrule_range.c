/* SPDX-License-Identifier: MIT
 * jrule_range.c - numbers between two bounds, and multiples of one, digit by digit.
 * Threads: who builds the grammar. Locks: none. */
#include "engine/constrain/jrule.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

/* Magnitudes a <= x <= b while x is being written. As long as its digits are those of a bound, x is tight to it and
 * the bound's next digit counts; after the first that differs the bound is met whatever follows. A bound goes on with
 * zeros where its digits end. All along, the number that the digits make so far is known modulo x->unit. */
struct jrule_between {
	struct grammar *g;
	const struct jrule_decimal *a, *b; /* b NULL: any */
	bool a_open, b_open;
	uint32_t unit;         /* x times 10^scale is a multiple of it */
	int scale, fraction;   /* digits of the fraction at most */
	uint32_t *known;       /* [JRULE_N_KNOWN][unit] nodes + 1 of places that are tight to nothing */
	uint32_t never;
};

/* A place in x: where its next character comes. */
struct jrule_place {
	bool point;            /* the point is written */
	int at;                /* digits since the beginning, or since the point */
	int left, more;        /* of the whole part: digits that must come, that may come after these */
	int tight;
	uint32_t rest;         /* modulo unit */
};

#define JRULE_N_KNOWN (3 * (JRULE_MAX_DIGITS + 1))
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

/* May x end where `at` digits of the fraction are written? Being tight to both means that so far they agree. */
static bool jrule_may_end(const struct jrule_between *x, int tight, int at)
{
	bool a_done = at >= (int)strlen(x->a->fraction);
	bool b_done = !x->b || at >= (int)strlen(x->b->fraction);

	if (tight & JRULE_TIGHT_A && (!a_done || x->a_open))
		return false;
	return !(tight & JRULE_TIGHT_B && b_done && x->b_open);
}

static uint32_t jrule_place(const struct jrule_between *x, const struct jrule_place *p);

/* One digit. Equal neighbours become one edge. */
static uint32_t jrule_one(const struct jrule_between *x, const struct jrule_place *p)
{
	int da = jrule_digit(p->point ? x->a->fraction : x->a->whole, p->at);
	int db = x->b ? jrule_digit(p->point ? x->b->fraction : x->b->whole, p->at) : 9;
	int lo = p->tight & JRULE_TIGHT_A ? da : 0, hi = p->tight & JRULE_TIGHT_B ? db : 9, d;
	struct grammar_edge e[10];
	size_t n = 0;

	if (!p->point && p->at == 0 && p->left + p->more > 1 && lo == 0)
		lo = 1;
	for (d = lo; d <= hi && !x->g->full; d++) {
		struct jrule_place after = *p;
		uint32_t next;

		after.at++;
		after.left -= p->left > 0;
		after.more -= p->left == 0 && !p->point;
		after.tight = (d == da ? p->tight & JRULE_TIGHT_A : 0) | (d == db ? p->tight & JRULE_TIGHT_B : 0);
		after.rest = (p->rest * 10 + (uint32_t)d) % x->unit;
		next = jrule_place(x, &after);
		if (n && e[n - 1].next == next)
			e[n - 1].hi = (uint8_t)('0' + d);
		else
			e[n++] = (struct grammar_edge){ (uint8_t)('0' + d), (uint8_t)('0' + d), next };
	}
	return n ? grammar_bytes(x->g, e, n) : x->never;
}

/* Is x a multiple when it ends there? What is missing of its fraction are zeros. */
static bool jrule_fits(const struct jrule_between *x, const struct jrule_place *p)
{
	uint32_t rest = p->rest;

	for (int at = p->point ? p->at : 0; at < x->scale && rest; at++)
		rest = rest * 10 % x->unit;
	return rest == 0;
}

/* What may come where no digit must: the end, the point, one more digit. */
static uint32_t jrule_may(const struct jrule_between *x, const struct jrule_place *p)
{
	struct jrule_place fraction = { .point = true, .tight = p->tight, .rest = p->rest };
	uint32_t node = x->never;

	if (p->point ? p->at < x->fraction : p->more > 0)
		node = jrule_one(x, p);
	if (!p->point && x->fraction > 0)
		node = grammar_either(x->g, grammar_str(x->g, ".", jrule_one(x, &fraction)), node);
	if (jrule_fits(x, p) && jrule_may_end(x, p->tight, p->point ? p->at : 0))
		node = grammar_either(x->g, node, GRAMMAR_END);
	return node;
}

/* Recursion is as deep as a number is long. */
static uint32_t jrule_place(const struct jrule_between *x, const struct jrule_place *p)
{
	int which = p->point ? 2 * (JRULE_MAX_DIGITS + 1) + p->at : p->more ? JRULE_MAX_DIGITS + 1 + p->left + p->more
									    : p->left;
	uint32_t *known = p->tight ? NULL : &x->known[(uint32_t)which * x->unit + p->rest], node;

	if (known && *known)
		return *known - 1;
	node = p->left > 0 ? jrule_one(x, p) : jrule_may(x, p);
	if (known)
		*known = node + 1;
	return node;
}

static uint32_t jrule_magnitudes(const struct jrule_between *x)
{
	int n_a = (int)strlen(x->a->whole), n_b = x->b ? (int)strlen(x->b->whole) : n_a, n;
	uint32_t all = x->never;

	for (n = n_a; n <= n_b; n++) {
		struct jrule_place p = { .left = n };

		p.tight = (n == n_a ? JRULE_TIGHT_A : 0) | (x->b && n == n_b ? JRULE_TIGHT_B : 0);
		all = grammar_either(x->g, jrule_one(x, &p), all);
	}
	if (!x->b && n_a < JRULE_MAX_DIGITS) {
		/* All that have more digits than a. */
		struct jrule_place p = { .left = n_a + 1, .more = JRULE_MAX_DIGITS - n_a - 1 };

		all = grammar_either(x->g, jrule_one(x, &p), all);
	}
	return all;
}

uint32_t jrule_range(struct grammar *g, const struct jrule_range *r)
{
	static const struct jrule_decimal zero = { .whole = "0" }, one = { .whole = "1" };
	bool lo_below = !r->lo || r->lo->negative, hi_below = r->hi && r->hi->negative;
	struct jrule_between x = { .g = g, .unit = r->unit ? r->unit : 1, .scale = r->scale };
	uint32_t all;

	must(x.unit <= JRULE_MAX_UNIT && x.scale <= JRULE_MAX_DIGITS);
	x.fraction = r->integer ? 0 : r->unit ? r->scale : JRULE_MAX_DIGITS;
	grammar_work(g, (x.unit - 1) * (GRAMMAR_MAX_WORK / JRULE_MAX_UNITS));
	x.known = mem_new(JRULE_N_KNOWN * x.unit * sizeof *x.known);
	all = x.never = grammar_bytes(g, NULL, 0);
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
	free(x.known);
	return all;
}
