/* SPDX-License-Identifier: MIT
 * jrule.c - the rules of JSON text, each made when it is first asked for.
 * Threads: who builds the grammar. Locks: none. */
#include "engine/constrain/jrule.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <string.h>

/* ---- white space ---- */

static uint32_t jrule_make_space(struct grammar *g)
{
	uint32_t again = grammar_hole(g), one = grammar_count(g, JRULE_MAX_INDENT, again), line;
	const struct grammar_edge blank[] = { { '\t', '\t', one }, { ' ', ' ', one } };

	grammar_fill(g, again, grammar_either(g, grammar_below(g, JRULE_MAX_INDENT,
							       grammar_bytes(g, blank, mem_countof(blank))),
					      GRAMMAR_END));
	line = grammar_either(g, grammar_str(g, "\n", again), grammar_str(g, "\r\n", again));
	return grammar_either(g, grammar_either(g, line, grammar_str(g, " ", GRAMMAR_END)), GRAMMAR_END);
}

uint32_t jrule_space(struct grammar *g, struct jrules *j, uint32_t next)
{
	return grammar_call(g, jrule_get(g, j, JRULE_SPACE), next);
}

/* ---- strings ---- */

static uint32_t jrule_hex(struct grammar *g, int n, uint32_t next)
{
	while (n-- > 0) {
		const struct grammar_edge e[] = { { '0', '9', next }, { 'A', 'F', next }, { 'a', 'f', next } };

		next = grammar_bytes(g, e, mem_countof(e));
	}
	return next;
}

/* After "\u0": three digits that are not all zero. */
static uint32_t jrule_hex_not_zero(struct grammar *g, uint32_t next)
{
	uint32_t zero = grammar_bytes(g, NULL, 0);
	int left;

	for (left = 0; left < 3; left++) {
		uint32_t any = jrule_hex(g, left, next);
		const struct grammar_edge e[] = { { '0', '0', zero }, { '1', '9', any }, { 'A', 'F', any },
						  { 'a', 'f', any } };

		zero = grammar_bytes(g, e, mem_countof(e));
	}
	return zero;
}

/* After "\ud" or "\uD": a pair's first half wants its second, and a second half cannot stand here. */
static uint32_t jrule_surrogates(struct grammar *g, uint32_t next)
{
	uint32_t tail = jrule_hex(g, 2, next), low, high;
	const struct grammar_edge second[] = { { 'C', 'F', tail }, { 'c', 'f', tail } };

	low = grammar_bytes(g, second, mem_countof(second));
	{
		const struct grammar_edge d[] = { { 'D', 'D', low }, { 'd', 'd', low } };

		high = jrule_hex(g, 2, grammar_str(g, "\\u", grammar_bytes(g, d, mem_countof(d))));
	}
	{
		const struct grammar_edge first[] = { { '0', '7', tail }, { '8', '9', high }, { 'A', 'B', high },
						      { 'a', 'b', high } };

		return grammar_bytes(g, first, mem_countof(first));
	}
}

/* After a backslash. */
static uint32_t jrule_escape(struct grammar *g, uint32_t next)
{
	uint32_t any = jrule_hex(g, 3, next), pair = jrule_surrogates(g, next), zero = jrule_hex_not_zero(g, next), u;
	const struct grammar_edge hex[] = { { '0', '0', zero }, { '1', '9', any }, { 'A', 'C', any },
					    { 'D', 'D', pair }, { 'E', 'F', any }, { 'a', 'c', any },
					    { 'd', 'd', pair }, { 'e', 'f', any } };

	u = grammar_bytes(g, hex, mem_countof(hex));
	{
		const struct grammar_edge e[] = {
			{ '"', '"', next }, { '/', '/', next }, { '\\', '\\', next }, { 'b', 'b', next },
			{ 'f', 'f', next }, { 'n', 'n', next }, { 'r', 'r', next }, { 't', 't', next },
			{ 'u', 'u', u },
		};

		return grammar_bytes(g, e, mem_countof(e));
	}
}

/* One character inside a string, then next; and, with `close`, the closing quote, which ends the rule. */
static uint32_t jrule_char(struct grammar *g, bool close, uint32_t next)
{
	struct grammar_edge e[5 + GRAMMAR_UTF8_EDGES] = { { ' ', '!', next } };
	size_t n = 1;

	if (close)
		e[n++] = (struct grammar_edge){ '"', '"', GRAMMAR_END };
	e[n++] = (struct grammar_edge){ '#', '[', next };
	e[n++] = (struct grammar_edge){ '\\', '\\', jrule_escape(g, next) };
	e[n++] = (struct grammar_edge){ ']', 0x7f, next };
	grammar_utf8(g, next, e + n);
	return grammar_bytes(g, e, n + GRAMMAR_UTF8_EDGES);
}

uint32_t jrule_string(struct grammar *g, uint32_t min, uint32_t max)
{
	uint32_t rule = grammar_rule(g), again = grammar_hole(g);
	uint32_t most = max == JRULE_NO_MAX ? min : max;

	if (most == 0 && max == JRULE_NO_MAX) {
		uint32_t inside = jrule_char(g, true, again);

		grammar_plain(g, inside, GRAMMAR_NO_LIMIT);
		grammar_fill(g, again, inside);
	} else {
		uint32_t one = jrule_char(g, false, grammar_count(g, most, again));
		uint32_t close = grammar_from(g, min, grammar_str(g, "\"", GRAMMAR_END));

		grammar_plain(g, one, max);
		if (max != JRULE_NO_MAX)
			one = grammar_below(g, max, one);
		grammar_fill(g, again, grammar_either(g, one, close));
	}
	grammar_define(g, rule, grammar_str(g, "\"", again), false);
	return rule;
}

/* ---- numbers ---- */

uint32_t jrule_digits(struct grammar *g, int least, int most, uint32_t next)
{
	uint32_t node = next;

	for (; most > 0; most--) {
		node = grammar_byte(g, '0', '9', node);
		if (most > least)
			node = grammar_either(g, node, next);
	}
	return node;
}

/* Without leading zeros, then next. */
static uint32_t jrule_whole(struct grammar *g, bool zero, uint32_t next)
{
	uint32_t more = jrule_digits(g, 0, JRULE_MAX_DIGITS - 1, next);
	const struct grammar_edge e[] = { { '0', '0', next }, { '1', '9', more } };

	return grammar_bytes(g, e + !zero, zero ? 2 : 1);
}

static uint32_t jrule_make_integer(struct grammar *g)
{
	return grammar_either(g, jrule_whole(g, true, GRAMMAR_END),
			      grammar_str(g, "-", jrule_whole(g, false, GRAMMAR_END)));
}

static uint32_t jrule_make_number(struct grammar *g)
{
	uint32_t digits = jrule_digits(g, 1, JRULE_MAX_EXPONENT, GRAMMAR_END), exponent, fraction, whole;
	const struct grammar_edge sign[] = { { '+', '+', digits }, { '-', '-', digits } };

	exponent = grammar_either(g, digits, grammar_bytes(g, sign, mem_countof(sign)));
	{
		const struct grammar_edge e[] = { { 'E', 'E', exponent }, { 'e', 'e', exponent } };

		exponent = grammar_either(g, grammar_bytes(g, e, mem_countof(e)), GRAMMAR_END);
	}
	fraction = grammar_str(g, ".", jrule_digits(g, 1, JRULE_MAX_DIGITS, exponent));
	whole = jrule_whole(g, true, grammar_either(g, fraction, exponent));
	return grammar_either(g, whole, grammar_str(g, "-", whole));
}

/* ---- words, arrays, objects ---- */

static uint32_t jrule_make_boolean(struct grammar *g)
{
	return grammar_either(g, grammar_str(g, "true", GRAMMAR_END), grammar_str(g, "false", GRAMMAR_END));
}

/* What follows an element: the end, or another. `again` is where the next one begins; `rest` elements are
 * counted. */
static uint32_t jrule_array_more(struct grammar *g, struct jrules *j, uint32_t min, uint32_t max, uint32_t again)
{
	uint32_t more = grammar_str(g, ",", jrule_space(g, j, again));
	uint32_t close = grammar_str(g, "]", GRAMMAR_END);

	if (max != JRULE_NO_MAX)
		more = grammar_below(g, max, more);
	if (min)
		close = grammar_from(g, min, close);
	return grammar_either(g, more, close);
}

/* The elements after the prefix, min to max of them, the first without a comma; then the end. */
static uint32_t jrule_array_rest(struct grammar *g, struct jrules *j, uint32_t rule, uint32_t min, uint32_t max)
{
	uint32_t again = grammar_hole(g), after = jrule_array_more(g, j, min, max, again);
	uint32_t most = max == JRULE_NO_MAX ? min : max;

	if (most)
		after = grammar_count(g, most, after);
	grammar_fill(g, again, grammar_call(g, rule, jrule_space(g, j, after)));
	return again;
}

static uint32_t jrule_less(uint32_t a, size_t b)
{
	return a == JRULE_NO_MAX ? a : a > b ? a - (uint32_t)b : 0;
}

/* From element i of the prefix on: `comma` when one is before it. Where the array may end, it may. */
uint32_t jrule_array(struct grammar *g, struct jrules *j, const struct jrule_array *x)
{
	uint32_t rule = grammar_rule(g), close = grammar_str(g, "]", GRAMMAR_END), next;
	uint32_t max = jrule_less(x->max, x->n_prefix), min = jrule_less(x->min, x->n_prefix);
	size_t i = x->n_prefix;

	/* `next` begins element i. */
	next = x->rest && max ? jrule_array_rest(g, j, *x->rest, min, max) : grammar_bytes(g, NULL, 0);
	while (i-- > 0) {
		uint32_t after = grammar_str(g, ",", jrule_space(g, j, next));

		if (i + 1 >= x->max)
			after = close;
		else if (i + 1 >= x->min)
			after = grammar_either(g, after, close);
		next = grammar_call(g, x->prefix[i], jrule_space(g, j, after));
	}
	if (x->min == 0)
		next = x->max == 0 ? close : grammar_either(g, next, close);
	grammar_define(g, rule, grammar_str(g, "[", jrule_space(g, j, next)), true);
	return rule;
}

static uint32_t jrule_make_object(struct grammar *g, struct jrules *j)
{
	uint32_t member = grammar_hole(g), close = grammar_str(g, "}", GRAMMAR_END);
	uint32_t more = grammar_either(g, grammar_str(g, ",", jrule_space(g, j, member)), close);
	uint32_t value = jrule_space(g, j, grammar_call(g, jrule_get(g, j, JRULE_VALUE), jrule_space(g, j, more)));
	uint32_t colon = jrule_space(g, j, grammar_str(g, ":", value));

	grammar_fill(g, member, grammar_call(g, jrule_get(g, j, JRULE_STRING), colon));
	return grammar_str(g, "{", jrule_space(g, j, grammar_either(g, member, close)));
}

static uint32_t jrule_make_value(struct grammar *g, struct jrules *j, bool string)
{
	static const enum jrule any[] = { JRULE_NUMBER, JRULE_BOOLEAN, JRULE_NULL, JRULE_OBJECT, JRULE_ARRAY };
	uint32_t node = string ? grammar_call(g, jrule_get(g, j, JRULE_STRING), GRAMMAR_END) : 0;
	size_t i;

	for (i = 0; i < mem_countof(any); i++) {
		uint32_t one = grammar_call(g, jrule_get(g, j, any[i]), GRAMMAR_END);

		node = i || string ? grammar_either(g, one, node) : one;
	}
	return node;
}

static uint32_t jrule_make(struct grammar *g, struct jrules *j, enum jrule which)
{
	switch (which) {
	case JRULE_SPACE:
		return jrule_make_space(g);
	case JRULE_INTEGER:
		return jrule_make_integer(g);
	case JRULE_NUMBER:
		return jrule_make_number(g);
	case JRULE_BOOLEAN:
		return jrule_make_boolean(g);
	case JRULE_NULL:
		return grammar_str(g, "null", GRAMMAR_END);
	case JRULE_OBJECT:
		return jrule_make_object(g, j);
	case JRULE_VALUE:
		return jrule_make_value(g, j, true);
	case JRULE_NOT_STRING:
		return jrule_make_value(g, j, false);
	case JRULE_STRING:
	case JRULE_ARRAY:
	case JRULE_N_RULES:
	default:
		must(false);
		return 0;
	}
}

uint32_t jrule_get(struct grammar *g, struct jrules *j, enum jrule which)
{
	uint32_t rule, value;

	if (j->made[which])
		return j->made[which] - 1;
	if (which == JRULE_STRING) {
		rule = jrule_string(g, 0, JRULE_NO_MAX);
		j->made[which] = rule + 1;
		return rule;
	}
	if (which == JRULE_ARRAY) {
		value = jrule_get(g, j, JRULE_VALUE);
		if (!j->made[which]) {
			const struct jrule_array any = { .rest = &value, .max = JRULE_NO_MAX };

			j->made[which] = jrule_array(g, j, &any) + 1;
		}
		return j->made[which] - 1;
	}
	/* It has its number before it is defined: rules of values call each other. */
	rule = grammar_rule(g);
	j->made[which] = rule + 1;
	grammar_define(g, rule, jrule_make(g, j, which), which == JRULE_OBJECT);
	return rule;
}
