/* SPDX-License-Identifier: MIT
 * jsonprefix.c - says of growing text whether it is still the beginning of one JSON value.
 * Threads: one at a time per object. Locks: none. */
#include "engine/text/jsonprefix.h"

#include <string.h>

/* What may come next. */
enum jsonprefix_state {
	JSONPREFIX_VALUE,
	JSONPREFIX_FIRST_ITEM,   /* after '[': a value or ']' */
	JSONPREFIX_FIRST_MEMBER, /* after '{': a name or '}' */
	JSONPREFIX_MEMBER,       /* after ',' in an object: a name */
	JSONPREFIX_COLON,
	JSONPREFIX_AFTER,        /* a value is complete */
	JSONPREFIX_STRING,
	JSONPREFIX_WORD,
	JSONPREFIX_NUMBER,
	JSONPREFIX_BAD
};

/* Inside a string: 0, or after a backslash, or how many hex digits are to come. */
#define JSONPREFIX_ESCAPE 5

enum jsonprefix_number {
	JSONPREFIX_MINUS, JSONPREFIX_ZERO, JSONPREFIX_INT, JSONPREFIX_POINT, JSONPREFIX_FRACTION,
	JSONPREFIX_E, JSONPREFIX_E_SIGN, JSONPREFIX_EXPONENT
};

static bool jsonprefix_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool jsonprefix_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool jsonprefix_go(struct jsonprefix *s, enum jsonprefix_state state)
{
	s->state = (uint8_t)state;
	s->sub = 0;
	return true;
}

static bool jsonprefix_in_object(const struct jsonprefix *s)
{
	return s->depth > 0 && (s->objects >> (s->depth - 1) & 1);
}

static bool jsonprefix_open(struct jsonprefix *s, bool object)
{
	if (s->depth == JSONPREFIX_MAX_DEPTH)
		return false;
	s->objects &= ~((uint64_t)1 << s->depth);
	s->objects |= (uint64_t)object << s->depth;
	s->depth++;
	return jsonprefix_go(s, object ? JSONPREFIX_FIRST_MEMBER : JSONPREFIX_FIRST_ITEM);
}

static bool jsonprefix_close(struct jsonprefix *s, char c)
{
	if (s->depth == 0 || jsonprefix_in_object(s) != (c == '}'))
		return false;
	s->depth--;
	return jsonprefix_go(s, JSONPREFIX_AFTER);
}

static bool jsonprefix_begin(struct jsonprefix *s, char c)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i;

	if (c == '"') {
		s->key = s->state == JSONPREFIX_FIRST_MEMBER || s->state == JSONPREFIX_MEMBER;
		return jsonprefix_go(s, JSONPREFIX_STRING);
	}
	if (s->state == JSONPREFIX_FIRST_MEMBER || s->state == JSONPREFIX_MEMBER)
		return s->state == JSONPREFIX_FIRST_MEMBER && c == '}' && jsonprefix_close(s, c);
	if (c == '{' || c == '[')
		return jsonprefix_open(s, c == '{');
	if (c == ']')
		return s->state == JSONPREFIX_FIRST_ITEM && jsonprefix_close(s, c);
	if (c == '-' || jsonprefix_digit(c)) {
		jsonprefix_go(s, JSONPREFIX_NUMBER);
		s->sub = c == '-' ? JSONPREFIX_MINUS : c == '0' ? JSONPREFIX_ZERO : JSONPREFIX_INT;
		return true;
	}
	for (i = 0; i < 3; i++)
		if (words[i][0] == c) {
			jsonprefix_go(s, JSONPREFIX_WORD);
			s->word = words[i] + 1;
			return true;
		}
	return false;
}

static bool jsonprefix_after(struct jsonprefix *s, char c)
{
	if (c == ',' && s->depth > 0)
		return jsonprefix_go(s, jsonprefix_in_object(s) ? JSONPREFIX_MEMBER : JSONPREFIX_VALUE);
	return (c == '}' || c == ']') && jsonprefix_close(s, c);
}

static bool jsonprefix_string(struct jsonprefix *s, char c)
{
	if (s->sub == JSONPREFIX_ESCAPE) {
		s->sub = c == 'u' ? 4 : 0;
		return c != '\0' && strchr("\"\\/bfnrtu", c) != NULL;
	}
	if (s->sub > 0) {
		s->sub--;
		return c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL;
	}
	if (c == '\\')
		s->sub = JSONPREFIX_ESCAPE;
	else if (c == '"')
		jsonprefix_go(s, s->key ? JSONPREFIX_COLON : JSONPREFIX_AFTER);
	return (unsigned char)c >= 0x20;
}

static bool jsonprefix_number_done(const struct jsonprefix *s)
{
	return s->sub == JSONPREFIX_ZERO || s->sub == JSONPREFIX_INT || s->sub == JSONPREFIX_FRACTION ||
		s->sub == JSONPREFIX_EXPONENT;
}

/* True when c continues the number. */
static bool jsonprefix_number(struct jsonprefix *s, char c)
{
	switch ((enum jsonprefix_number)s->sub) {
	case JSONPREFIX_MINUS:
		s->sub = c == '0' ? JSONPREFIX_ZERO : JSONPREFIX_INT;
		return jsonprefix_digit(c);
	case JSONPREFIX_ZERO:
	case JSONPREFIX_INT:
	case JSONPREFIX_FRACTION:
		if (c == 'e' || c == 'E')
			s->sub = JSONPREFIX_E;
		else if (c == '.' && s->sub != JSONPREFIX_FRACTION)
			s->sub = JSONPREFIX_POINT;
		else
			return jsonprefix_digit(c) && s->sub != JSONPREFIX_ZERO;
		return true;
	case JSONPREFIX_POINT:
		s->sub = JSONPREFIX_FRACTION;
		return jsonprefix_digit(c);
	case JSONPREFIX_E:
		s->sub = c == '+' || c == '-' ? JSONPREFIX_E_SIGN : JSONPREFIX_EXPONENT;
		return jsonprefix_digit(c) || s->sub == JSONPREFIX_E_SIGN;
	case JSONPREFIX_E_SIGN:
	case JSONPREFIX_EXPONENT:
	default:
		s->sub = JSONPREFIX_EXPONENT;
		return jsonprefix_digit(c);
	}
}

static bool jsonprefix_byte(struct jsonprefix *s, char c)
{
	if (s->state == JSONPREFIX_STRING)
		return jsonprefix_string(s, c);
	if (s->state == JSONPREFIX_WORD) {
		if (*s->word != c)
			return false;
		if (*++s->word == '\0')
			jsonprefix_go(s, JSONPREFIX_AFTER);
		return true;
	}
	if (s->state == JSONPREFIX_NUMBER) {
		bool done = jsonprefix_number_done(s);

		if (jsonprefix_number(s, c))
			return true;
		if (!done)
			return false;
		jsonprefix_go(s, JSONPREFIX_AFTER);
	}
	if (jsonprefix_space(c))
		return true;
	if (s->state == JSONPREFIX_AFTER)
		return jsonprefix_after(s, c);
	if (s->state == JSONPREFIX_COLON)
		return c == ':' && jsonprefix_go(s, JSONPREFIX_VALUE);
	return jsonprefix_begin(s, c);
}

bool jsonprefix_put(struct jsonprefix *s, const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len && s->state != JSONPREFIX_BAD; i++)
		if (!jsonprefix_byte(s, text[i]))
			s->state = JSONPREFIX_BAD;
	return s->state != JSONPREFIX_BAD;
}

bool jsonprefix_end(const struct jsonprefix *s)
{
	if (s->state == JSONPREFIX_NUMBER && !jsonprefix_number_done(s))
		return false;
	return s->depth == 0 && (s->state == JSONPREFIX_AFTER || s->state == JSONPREFIX_NUMBER);
}
