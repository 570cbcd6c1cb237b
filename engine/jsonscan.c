/* SPDX-License-Identifier: MIT
 * jsonscan.c - says of growing text whether it is still the beginning of one JSON value.
 * Threads: one at a time per object. Locks: none. */
#include "engine/jsonscan.h"

#include <string.h>

/* What may come next. */
enum jsonscan_state {
	JSONSCAN_VALUE,
	JSONSCAN_FIRST_ITEM,   /* after '[': a value or ']' */
	JSONSCAN_FIRST_MEMBER, /* after '{': a name or '}' */
	JSONSCAN_MEMBER,       /* after ',' in an object: a name */
	JSONSCAN_COLON,
	JSONSCAN_AFTER,        /* a value is complete */
	JSONSCAN_STRING,
	JSONSCAN_WORD,
	JSONSCAN_NUMBER,
	JSONSCAN_BAD
};

/* Inside a string: 0, or after a backslash, or how many hex digits are to come. */
#define JSONSCAN_ESCAPE 5

enum jsonscan_number {
	JSONSCAN_MINUS, JSONSCAN_ZERO, JSONSCAN_INT, JSONSCAN_POINT, JSONSCAN_FRACTION,
	JSONSCAN_E, JSONSCAN_E_SIGN, JSONSCAN_EXPONENT
};

static bool jsonscan_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool jsonscan_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool jsonscan_go(struct jsonscan *s, enum jsonscan_state state)
{
	s->state = (uint8_t)state;
	s->sub = 0;
	return true;
}

static bool jsonscan_in_object(const struct jsonscan *s)
{
	return s->depth > 0 && (s->objects >> (s->depth - 1) & 1);
}

static bool jsonscan_open(struct jsonscan *s, bool object)
{
	if (s->depth == JSONSCAN_MAX_DEPTH)
		return false;
	s->objects &= ~((uint64_t)1 << s->depth);
	s->objects |= (uint64_t)object << s->depth;
	s->depth++;
	return jsonscan_go(s, object ? JSONSCAN_FIRST_MEMBER : JSONSCAN_FIRST_ITEM);
}

static bool jsonscan_close(struct jsonscan *s, char c)
{
	if (s->depth == 0 || jsonscan_in_object(s) != (c == '}'))
		return false;
	s->depth--;
	return jsonscan_go(s, JSONSCAN_AFTER);
}

static bool jsonscan_begin(struct jsonscan *s, char c)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i;

	if (c == '"') {
		s->key = s->state == JSONSCAN_FIRST_MEMBER || s->state == JSONSCAN_MEMBER;
		return jsonscan_go(s, JSONSCAN_STRING);
	}
	if (s->state == JSONSCAN_FIRST_MEMBER || s->state == JSONSCAN_MEMBER)
		return s->state == JSONSCAN_FIRST_MEMBER && c == '}' && jsonscan_close(s, c);
	if (c == '{' || c == '[')
		return jsonscan_open(s, c == '{');
	if (c == ']')
		return s->state == JSONSCAN_FIRST_ITEM && jsonscan_close(s, c);
	if (c == '-' || jsonscan_digit(c)) {
		jsonscan_go(s, JSONSCAN_NUMBER);
		s->sub = c == '-' ? JSONSCAN_MINUS : c == '0' ? JSONSCAN_ZERO : JSONSCAN_INT;
		return true;
	}
	for (i = 0; i < 3; i++)
		if (words[i][0] == c) {
			jsonscan_go(s, JSONSCAN_WORD);
			s->word = words[i] + 1;
			return true;
		}
	return false;
}

static bool jsonscan_after(struct jsonscan *s, char c)
{
	if (c == ',' && s->depth > 0)
		return jsonscan_go(s, jsonscan_in_object(s) ? JSONSCAN_MEMBER : JSONSCAN_VALUE);
	return (c == '}' || c == ']') && jsonscan_close(s, c);
}

static bool jsonscan_string(struct jsonscan *s, char c)
{
	if (s->sub == JSONSCAN_ESCAPE) {
		s->sub = c == 'u' ? 4 : 0;
		return c != '\0' && strchr("\"\\/bfnrtu", c) != NULL;
	}
	if (s->sub > 0) {
		s->sub--;
		return c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL;
	}
	if (c == '\\')
		s->sub = JSONSCAN_ESCAPE;
	else if (c == '"')
		jsonscan_go(s, s->key ? JSONSCAN_COLON : JSONSCAN_AFTER);
	return (unsigned char)c >= 0x20;
}

static bool jsonscan_number_done(const struct jsonscan *s)
{
	return s->sub == JSONSCAN_ZERO || s->sub == JSONSCAN_INT || s->sub == JSONSCAN_FRACTION ||
		s->sub == JSONSCAN_EXPONENT;
}

/* True when c continues the number. */
static bool jsonscan_number(struct jsonscan *s, char c)
{
	switch ((enum jsonscan_number)s->sub) {
	case JSONSCAN_MINUS:
		s->sub = c == '0' ? JSONSCAN_ZERO : JSONSCAN_INT;
		return jsonscan_digit(c);
	case JSONSCAN_ZERO:
	case JSONSCAN_INT:
	case JSONSCAN_FRACTION:
		if (c == 'e' || c == 'E')
			s->sub = JSONSCAN_E;
		else if (c == '.' && s->sub != JSONSCAN_FRACTION)
			s->sub = JSONSCAN_POINT;
		else
			return jsonscan_digit(c) && s->sub != JSONSCAN_ZERO;
		return true;
	case JSONSCAN_POINT:
		s->sub = JSONSCAN_FRACTION;
		return jsonscan_digit(c);
	case JSONSCAN_E:
		s->sub = c == '+' || c == '-' ? JSONSCAN_E_SIGN : JSONSCAN_EXPONENT;
		return jsonscan_digit(c) || s->sub == JSONSCAN_E_SIGN;
	case JSONSCAN_E_SIGN:
	case JSONSCAN_EXPONENT:
	default:
		s->sub = JSONSCAN_EXPONENT;
		return jsonscan_digit(c);
	}
}

static bool jsonscan_byte(struct jsonscan *s, char c)
{
	if (s->state == JSONSCAN_STRING)
		return jsonscan_string(s, c);
	if (s->state == JSONSCAN_WORD) {
		if (*s->word != c)
			return false;
		if (*++s->word == '\0')
			jsonscan_go(s, JSONSCAN_AFTER);
		return true;
	}
	if (s->state == JSONSCAN_NUMBER) {
		bool done = jsonscan_number_done(s);

		if (jsonscan_number(s, c))
			return true;
		if (!done)
			return false;
		jsonscan_go(s, JSONSCAN_AFTER);
	}
	if (jsonscan_space(c))
		return true;
	if (s->state == JSONSCAN_AFTER)
		return jsonscan_after(s, c);
	if (s->state == JSONSCAN_COLON)
		return c == ':' && jsonscan_go(s, JSONSCAN_VALUE);
	return jsonscan_begin(s, c);
}

bool jsonscan_put(struct jsonscan *s, const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len && s->state != JSONSCAN_BAD; i++)
		if (!jsonscan_byte(s, text[i]))
			s->state = JSONSCAN_BAD;
	return s->state != JSONSCAN_BAD;
}

bool jsonscan_end(const struct jsonscan *s)
{
	return s->depth == 0 && (s->state == JSONSCAN_AFTER || (s->state == JSONSCAN_NUMBER && jsonscan_number_done(s)));
}
