/* SPDX-License-Identifier: MIT
 * pattern_read.c - reads a pattern into a graph.
 * Threads: one at a time per object. Locks: none. */
#include "engine/constrain/pattern_priv.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A piece of the graph: where it is entered, and the node without a way out that it is left by. */
struct pattern_piece {
	int in, out;
};

static struct pattern_piece pattern_any_of(struct pattern *p);

static void pattern_bad(struct pattern *p, int rc, const char *what)
{
	if (p->rc == 0)
		p->rc = buf_why(p->why, rc, "%s", what);
}

static int pattern_node(struct pattern *p, int a, int b)
{
	if (p->n == PATTERN_MAX_NODES) {
		pattern_bad(p, RC_TOO_LARGE, "needs too many nodes");
		return 0;
	}
	p->node[p->n] = (struct pattern_node){ .out = { a, b } };
	return p->n++;
}

static struct pattern_piece pattern_nothing(struct pattern *p)
{
	int n = pattern_node(p, -1, -1);

	return (struct pattern_piece){ n, n };
}

static struct pattern_piece pattern_one(struct pattern *p, const struct pattern_set *set)
{
	int out = pattern_node(p, -1, -1), in = pattern_node(p, out, -1);

	p->node[in].takes = true;
	p->node[in].set = *set;
	return (struct pattern_piece){ in, out };
}

static struct pattern_piece pattern_then(struct pattern *p, struct pattern_piece a, struct pattern_piece b)
{
	p->node[a.out].out[0] = b.in;
	return (struct pattern_piece){ a.in, b.out };
}

static struct pattern_piece pattern_maybe(struct pattern *p, struct pattern_piece a)
{
	int out = pattern_node(p, -1, -1), in = pattern_node(p, a.in, out);

	p->node[a.out].out[0] = out;
	return (struct pattern_piece){ in, out };
}

static struct pattern_piece pattern_often(struct pattern *p, struct pattern_piece a)
{
	int out = pattern_node(p, -1, -1), in = pattern_node(p, a.in, out);

	p->node[a.out].out[0] = in;
	return (struct pattern_piece){ in, out };
}

/* ---- characters ---- */

static void pattern_range(struct pattern_set *s, int from, int to)
{
	for (; from <= to; from++)
		pattern_add(s, from);
}

static void pattern_not(struct pattern_set *s)
{
	s->bits[0] = ~s->bits[0];
	s->bits[1] = ~s->bits[1];
	s->bits[2] = ~s->bits[2] & 1;
}

/* The letter after a backslash, when it stands for a class; adds that. */
static bool pattern_class_letter(char c, struct pattern_set *ret_s)
{
	struct pattern_set s = { 0 };

	switch (tolower((unsigned char)c)) {
	case 'd':
		pattern_range(&s, '0', '9');
		break;
	case 'w':
		pattern_range(&s, '0', '9');
		pattern_range(&s, 'A', 'Z');
		pattern_range(&s, 'a', 'z');
		pattern_add(&s, '_');
		break;
	case 's':
		pattern_range(&s, '\t', '\r');
		pattern_add(&s, ' ');
		break;
	default:
		return false;
	}
	if (isupper((unsigned char)c))
		pattern_not(&s);
	for (int i = 0; i < 3; i++)
		ret_s->bits[i] |= s.bits[i];
	return true;
}

/* One character, perhaps after a backslash; -1 when it is a class, which is added to s, or bad. */
static int pattern_char(struct pattern *p, struct pattern_set *s)
{
	static const char letters[] = "tnrfv", stand_for[] = "\t\n\r\f\v";
	unsigned char c = (unsigned char)*p->p++;
	const char *at;

	if (c >= 0x80) {
		pattern_bad(p, RC_UNSUPPORTED, "characters that are not ASCII are not supported");
		return -1;
	}
	if (c != '\\')
		return c;
	c = (unsigned char)*p->p;
	if (c == '\0') {
		pattern_bad(p, RC_INVALID, "ends in a backslash");
		return -1;
	}
	p->p++;
	at = strchr(letters, c);
	if (at)
		return stand_for[at - letters];
	if (pattern_class_letter((char)c, s))
		return -1;
	if (isalnum(c) || c >= 0x80)
		pattern_bad(p, RC_UNSUPPORTED, "this escape is not supported");
	return c;
}

static void pattern_class_item(struct pattern *p, struct pattern_set *s)
{
	int from = pattern_char(p, s), to = from;

	if (*p->p == '-' && p->p[1] != ']' && p->p[1] && from >= 0) {
		p->p++;
		to = pattern_char(p, s);
		if (to < from)
			pattern_bad(p, RC_INVALID, "a range ends before it begins");
	}
	if (from >= 0)
		pattern_range(s, from, to);
}

/* After '['. */
static struct pattern_piece pattern_class(struct pattern *p)
{
	struct pattern_set s = { 0 };
	bool negated = *p->p == '^';

	p->p += negated;
	while (*p->p && *p->p != ']' && p->rc == 0)
		pattern_class_item(p, &s);
	if (*p->p != ']')
		pattern_bad(p, RC_INVALID, "a class has no end");
	else
		p->p++;
	if (negated)
		pattern_not(&s);
	return pattern_one(p, &s);
}

/* ---- structure ---- */

/* After '('. */
static struct pattern_piece pattern_group(struct pattern *p)
{
	struct pattern_piece a = { 0, 0 };

	if (*p->p == '?') {
		if (p->p[1] != ':')
			pattern_bad(p, RC_UNSUPPORTED, "groups with (? are not supported, but for (?:");
		p->p += p->p[1] ? 2 : 1;
	}
	if (++p->depth > PATTERN_MAX_DEPTH)
		pattern_bad(p, RC_TOO_LARGE, "groups are nested too deep");
	if (p->rc == 0)
		a = pattern_any_of(p);
	p->depth--;
	if (*p->p == ')')
		p->p++;
	else
		pattern_bad(p, RC_INVALID, "a group has no end");
	return a;
}

static struct pattern_piece pattern_atom(struct pattern *p)
{
	struct pattern_set s = { 0 };
	int c;

	switch (*p->p) {
	case '(':
		p->p++;
		return pattern_group(p);
	case '[':
		p->p++;
		return pattern_class(p);
	case '.':
		p->p++;
		pattern_add(&s, '\n');
		pattern_add(&s, '\r');
		pattern_not(&s);
		return pattern_one(p, &s);
	case '^':
	case '$':
		pattern_bad(p, RC_UNSUPPORTED, "^ and $ are supported at the beginning and the end only");
		return pattern_nothing(p);
	case '?':
	case '*':
	case '+':
	case '{':
	case '}':
	case ']':
		pattern_bad(p, RC_INVALID, "a repetition of nothing, or a bracket that was not opened");
		return pattern_nothing(p);
	default:
		c = pattern_char(p, &s);
		if (c >= 0)
			pattern_add(&s, c);
		return pattern_one(p, &s);
	}
}

#define PATTERN_FOR_EVER (-1)

/* After '{'. */
static bool pattern_counts(struct pattern *p, int *ret_min, int *ret_max)
{
	char *end;
	long min = strtol(p->p, &end, 10), max = min;

	if (!isdigit((unsigned char)*p->p))
		return false;
	if (*end == ',') {
		p->p = end + 1;
		max = isdigit((unsigned char)*p->p) ? strtol(p->p, &end, 10) : PATTERN_FOR_EVER;
		end = max == PATTERN_FOR_EVER ? end + 1 : end;
	}
	if (*end != '}' || (max >= 0 && max < min))
		return false;
	p->p = end + 1;
	if (min > PATTERN_MAX_REPEAT || max > PATTERN_MAX_REPEAT)
		pattern_bad(p, RC_TOO_LARGE, "too many repetitions");
	*ret_min = (int)min;
	*ret_max = (int)max;
	return true;
}

/* How often; false: once. */
static bool pattern_quantifier(struct pattern *p, int *ret_min, int *ret_max)
{
	char c = *p->p;

	if (!c || !strchr("?*+{", c))
		return false;
	p->p++;
	*ret_min = c == '+';
	*ret_max = c == '?' ? 1 : PATTERN_FOR_EVER;
	if (c == '{' && !pattern_counts(p, ret_min, ret_max))
		pattern_bad(p, RC_INVALID, "a repetition is malformed");
	if (*p->p == '?')
		p->p++;
	return true;
}

/* An atom and how often: each copy is read anew. */
static struct pattern_piece pattern_repeated(struct pattern *p)
{
	const char *from = p->p, *end;
	struct pattern_piece all = pattern_nothing(p), a = pattern_atom(p);
	int min = 0, max = 0, i;

	if (p->rc || !pattern_quantifier(p, &min, &max))
		return pattern_then(p, all, a);
	end = p->p;
	for (i = 0; (i < min || i < max || (i == min && max == PATTERN_FOR_EVER)) && p->rc == 0; i++) {
		if (i > 0) {
			p->p = from;
			a = pattern_atom(p);
		}
		if (i >= min)
			a = max == PATTERN_FOR_EVER ? pattern_often(p, a) : pattern_maybe(p, a);
		all = pattern_then(p, all, a);
	}
	p->p = end;
	return all;
}

static struct pattern_piece pattern_sequence(struct pattern *p)
{
	struct pattern_piece all = pattern_nothing(p);

	while (*p->p && *p->p != '|' && *p->p != ')' && p->rc == 0) {
		if (p->depth == 0 && *p->p == '$' && (p->p[1] == '\0' || p->p[1] == '|'))
			break;
		all = pattern_then(p, all, pattern_repeated(p));
	}
	return all;
}

static struct pattern_piece pattern_anything(struct pattern *p)
{
	struct pattern_set s = { 0 };

	pattern_range(&s, ' ', '~');
	pattern_add(&s, PATTERN_OTHER);
	return pattern_often(p, pattern_one(p, &s));
}

/* One alternative; on the outermost level with its anchors, or with anything where they are missing. */
static struct pattern_piece pattern_anchored(struct pattern *p)
{
	bool begins = *p->p == '^', ends;
	struct pattern_piece all;

	if (p->depth > 0)
		return pattern_sequence(p);
	p->p += begins;
	all = begins ? pattern_nothing(p) : pattern_anything(p);
	all = pattern_then(p, all, pattern_sequence(p));
	ends = *p->p == '$';
	p->p += ends;
	return ends ? all : pattern_then(p, all, pattern_anything(p));
}

static struct pattern_piece pattern_any_of(struct pattern *p)
{
	struct pattern_piece all = pattern_anchored(p), one;
	int out;

	while (*p->p == '|' && p->rc == 0) {
		p->p++;
		one = pattern_anchored(p);
		out = pattern_node(p, -1, -1);
		p->node[all.out].out[0] = p->node[one.out].out[0] = out;
		all = (struct pattern_piece){ pattern_node(p, all.in, one.in), out };
	}
	return all;
}

int pattern_read(struct pattern *p)
{
	struct pattern_piece all = pattern_any_of(p);

	if (*p->p == ')')
		pattern_bad(p, RC_INVALID, "a bracket that was not opened");
	p->start = all.in;
	p->end = all.out;
	return p->rc;
}
