/* SPDX-License-Identifier: MIT
 * schema_number.c - numbers by schemas: their bounds, and what they are multiples of.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"
#include "engine/text/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct schema_bound {
	struct jrule_decimal d;
	bool there, open;
	bool far;              /* beyond what can be written, which has no exponent where there is a bound */
};

/* Beyond what numbers can be written here without an exponent, a bound says no more. */
#define SCHEMA_FAR 1e18
/* Up to there, each integer is a double. */
#define SCHEMA_EXACT 9007199254740992.0

/* The shortest digits that are that number, without an exponent. */
static void schema_decimal(double x, struct buf *out)
{
	struct buf text = { 0 };
	const char *p, *digits;
	int exponent = 0, point;

	if (floor(x) == x) {
		buf_printf(out, "%.0f", x);
		return;
	}
	pyjson_float(x, &text);
	p = buf_str(&text);
	if (*p == '-')
		buf_addc(out, *p++);
	digits = strchr(p, 'e');
	if (digits)
		exponent = atoi(digits + 1);
	point = (int)strcspn(p, ".e") + exponent;
	/* No fraction has digits enough for an exponent above zero. */
	if (point <= 0)
		buf_adds(out, "0.");
	for (int i = point; i < 0; i++)
		buf_addc(out, '0');
	for (; *p && *p != 'e'; p++)
		if (*p != '.' || exponent == 0)
			buf_addc(out, *p);
	buf_fini(&text);
}

/* Cuts the fraction to the digits that numbers are written with; true when that took something away. */
static bool schema_cut(struct buf *text)
{
	const char *point = memchr(buf_str(text), '.', text->len);
	size_t most = point ? (size_t)(point - text->data) + 1 + JRULE_MAX_DIGITS : text->len;
	bool cut = false;

	for (; text->len > most; text->data[text->len] = '\0')
		cut |= text->data[--text->len] != '0';
	return cut;
}

/* Readers take numbers for doubles, and many that differ for the same. So an open bound becomes the next double inside
 * of it, and a shut one that is no double the next that is: what is written from its digits on is read as that, or as
 * one further inside. Then *open is false. The bounds of integers stay as long as every integer is a double. True when
 * *x is the bound. */
static bool schema_inside(const json_t *v, bool integer, int side, double *x, bool *open)
{
	bool whole = json_is_integer(v) && fabs(*x) < 2 * SCHEMA_FAR;
	json_int_t read = whole ? (json_int_t)*x : 0, told = json_integer_value(v);
	bool outside = whole && (side < 0 ? read < told : read > told);

	if (integer && (!*open || fabs(*x) < SCHEMA_EXACT))
		return false;
	if (*open || outside)
		*x = nextafter(*x, side < 0 ? HUGE_VAL : -HUGE_VAL);
	*open = false;
	return true;
}

/* side: -1 for a lower bound, 1 for an upper one. */
static int schema_bound(struct schema *s, int at, const char *key, bool open, bool integer, int side,
			struct schema_bound *b)
{
	const json_t *v = json_object_get(s->item[at].schema, key);
	double x = json_number_value(v);
	struct buf text = { 0 };
	bool fits;

	if (!v)
		return 0;
	if (!json_is_number(v))
		return schema_bad(s, at, RC_INVALID, key, "must be a number");
	b->far = x * side > SCHEMA_FAR || (x * side == SCHEMA_FAR && !open);
	if (b->far)
		return 0;
	if (integer && floor(x) != x) {
		x = side < 0 ? ceil(x) : floor(x);
		open = false;
	}
	if (!schema_inside(v, integer, side, &x, &open) && json_is_integer(v))
		buf_printf(&text, "%lld", (long long)json_integer_value(v));
	else
		schema_decimal(x, &text);
	if (schema_cut(&text))
		open = side < 0 ? x > 0 : x < 0; /* between two numbers that can be written: beyond
						  * the inner one, or up to it */
	fits = jrule_decimal(buf_str(&text), &b->d);
	buf_fini(&text);
	if (!fits)
		return schema_bad(s, at, RC_UNSUPPORTED, key, "not supported: too many digits");
	b->there = true;
	b->open = open;
	return 0;
}

/* The tighter of two keywords. */
static int schema_bounds(struct schema *s, int at, const char *shut, const char *open, bool integer, int side,
			 struct schema_bound *b)
{
	const json_t *x = json_object_get(s->item[at].schema, shut), *y = json_object_get(s->item[at].schema, open);
	bool both = json_is_number(x) && json_is_number(y);
	bool open_wins = both && (json_number_value(y) - json_number_value(x)) * side <= 0;
	int rc = both && open_wins ? 0 : schema_bound(s, at, shut, false, integer, side, b);

	return rc || (both && !open_wins) ? rc : schema_bound(s, at, open, true, integer, side, b);
}

/* As unit / 10^scale. */
static int schema_multiple(struct schema *s, int at, struct jrule_range *r)
{
	const json_t *v = json_object_get(s->item[at].schema, "multipleOf");
	struct buf text = { 0 };
	const char *p;
	uint64_t unit = 0;
	bool cut;

	if (!v)
		return 0;
	if (!json_is_number(v) || !(json_number_value(v) > 0))
		return schema_bad(s, at, RC_INVALID, "multipleOf", "must be a number above 0");
	schema_decimal(json_number_value(v), &text);
	cut = schema_cut(&text);
	for (p = buf_str(&text); *p && *p != '.' && unit <= JRULE_MAX_UNIT; p++)
		unit = unit * 10 + (uint64_t)(*p - '0');
	for (p += *p == '.'; *p && unit <= JRULE_MAX_UNIT; p++, r->scale++)
		unit = unit * 10 + (uint64_t)(*p - '0');
	buf_fini(&text);
	r->unit = (uint32_t)unit;
	if (cut || unit > JRULE_MAX_UNIT)
		return schema_bad(s, at, RC_UNSUPPORTED, "multipleOf",
				  "not supported: only of numbers up to %d, the point left away, like 5 or 0.25",
				  JRULE_MAX_UNIT);
	return 0;
}

int schema_number(struct schema *s, int at, bool integer, uint32_t *ret_node)
{
	struct schema_bound lo = { 0 }, hi = { 0 };
	struct jrule_range r = { .integer = integer };
	uint32_t rule;
	int rc = schema_bounds(s, at, "minimum", "exclusiveMinimum", integer, -1, &lo);

	rc = rc ? rc : schema_bounds(s, at, "maximum", "exclusiveMaximum", integer, 1, &hi);
	rc = rc ? rc : schema_multiple(s, at, &r);
	if (rc)
		return rc;
	if (!lo.there && !hi.there && !lo.far && !hi.far && !r.unit) {
		rule = jrule_get(s->g, s->j, integer ? JRULE_INTEGER : JRULE_NUMBER);
		*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
		return 0;
	}
	r.lo = lo.there ? &lo.d : NULL;
	r.lo_open = lo.open;
	r.hi = hi.there ? &hi.d : NULL;
	r.hi_open = hi.open;
	*ret_node = jrule_range(s->g, &r);
	return 0;
}
