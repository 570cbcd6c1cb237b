/* SPDX-License-Identifier: MIT
 * jrule.h - the rules of JSON text, each made when it is first asked for.
 * Threads: who builds the grammar. Locks: none. */
#ifndef ENGINE_JRULE_H
#define ENGINE_JRULE_H

#include "engine/constrain/grammar.h"

/* RFC 8259, but for what would let a text go on for ever or some readers refuse it: white space is one space, or a line
 * end and at most JRULE_MAX_INDENT spaces or tabs, and none before or after the whole; numbers have at most
 * JRULE_MAX_DIGITS digits before and after the point and JRULE_MAX_EXPONENT in the exponent; of escapes there is no
 * \u0000 and no half of a surrogate pair. */
#define JRULE_MAX_INDENT 64
#define JRULE_MAX_DIGITS 18
#define JRULE_MAX_EXPONENT 2

#define JRULE_NO_MAX UINT32_MAX

enum jrule {
	JRULE_SPACE, JRULE_STRING, JRULE_INTEGER, JRULE_NUMBER, JRULE_BOOLEAN, JRULE_NULL, JRULE_OBJECT, JRULE_ARRAY,
	JRULE_VALUE,
	JRULE_NOT_STRING, /* any other value */
	JRULE_N_RULES
};

/* The rules made so far, as numbers + 1; start from {0}. */
struct jrules {
	uint32_t made[JRULE_N_RULES];
};

uint32_t jrule_get(struct grammar *g, struct jrules *j, enum jrule which);
/* A rule: a string of min to max characters. */
uint32_t jrule_string(struct grammar *g, uint32_t min, uint32_t max);
/* Optional white space, then next. */
uint32_t jrule_space(struct grammar *g, struct jrules *j, uint32_t next);

/* A rule: an array. The first elements' rules, then the others'; `rest` NULL: there are none. */
struct jrule_array {
	const uint32_t *prefix;
	size_t n_prefix;
	const uint32_t *rest;
	uint32_t min, max;
};
uint32_t jrule_array(struct grammar *g, struct jrules *j, const struct jrule_array *x);

/* Digits `least` to `most`, then next. */
uint32_t jrule_digits(struct grammar *g, int least, int most, uint32_t next);

/* ---- jrule_range.c ---- */

/* A bound as its digits: whole.fraction. */
struct jrule_decimal {
	bool negative;
	char whole[JRULE_MAX_DIGITS + 1], fraction[JRULE_MAX_DIGITS + 1];
};

/* From text like -12.5, without an exponent. False when it has more digits than there is room for, or is none. */
bool jrule_decimal(const char *text, struct jrule_decimal *ret_d);

#define JRULE_MAX_UNIT 1024
#define JRULE_MAX_UNITS (2 * JRULE_MAX_UNIT) /* in a whole grammar; each is some 36 nodes of ten edges */

/* A number from lo to hi, each NULL for none, `open`: without the bound itself; `integer`: without a fraction; with
 * `unit`, 1 to JRULE_MAX_UNIT, a multiple of unit / 10^scale, of which it has no more digits. Then the rule ends.
 * Nothing passes it when no such number can be written. */
struct jrule_range {
	const struct jrule_decimal *lo, *hi;
	bool lo_open, hi_open, integer;
	uint32_t unit;         /* 0: any number */
	int scale;             /* at most JRULE_MAX_DIGITS */
};
uint32_t jrule_range(struct grammar *g, const struct jrule_range *r);

#endif
