/* SPDX-License-Identifier: MIT
 * schema_priv.h - what the parts of the schema compiler share: the schemas to do, and the rules they become.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_SCHEMA_PRIV_H
#define ENGINE_SCHEMA_PRIV_H

#include "engine/constrain/schema.h"

#include <stdbool.h>

/* A schema and a way of writing, to become a rule. Those inside it are put behind it rather than done at once, so
 * that nesting costs no stack. */
struct schema_item {
	json_t *schema;
	enum schema_mode mode;
	uint32_t rule, node;   /* node: the first that was made for it */
	int parent;            /* the item it stands in, -1: none */
	const char *key;       /* where in it: a keyword, and then perhaps */
	const char *member;    /* a member's name, or */
	size_t index;          /* an element */
	bool has_index;
};

struct schema {
	struct grammar *g;
	struct jrules *j;
	const struct schema_source *src;
	struct schema_item *item;
	int n, cap;
	int *slot;             /* items by schema and mode; -1: empty */
	int n_slot;
	json_t *made;          /* an array that holds merged schemas */
	uint32_t text, params; /* rules + 1 of any text, of any parameters */
	bool none;             /* the last refusal was schema_none's */
	struct buf *why;
};

/* The rule of a schema that stands in item `at`, at key, or key and member, or key and index. */
uint32_t schema_want(struct schema *s, int at, json_t *schema, enum schema_mode mode, const char *key,
		     const char *member);
uint32_t schema_want_at(struct schema *s, int at, json_t *schema, enum schema_mode mode, const char *key, size_t index);
/* rc, with why "PATH.KEY: ..."; key may be NULL. */
int schema_bad(struct schema *s, int at, int rc, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* RC_INVALID, as schema_bad: a valid schema that nothing satisfies. Only if it is the whole is that an error; else it
 * is a branch that is never taken. */
#define schema_none(s, at, key, ...) \
	((void)schema_bad(s, at, RC_INVALID, key, __VA_ARGS__), (s)->none = true, RC_INVALID)
/* The rule of any value in that way of writing. */
uint32_t schema_any(struct schema *s, enum schema_mode mode);
/* ---- keywords: schema_words.c ---- */

enum schema_type {
	SCHEMA_STRING = 1, SCHEMA_INTEGER = 2, SCHEMA_NUMBER = 4, SCHEMA_BOOLEAN = 8, SCHEMA_NULL = 16,
	SCHEMA_OBJECT = 32, SCHEMA_ARRAY = 64, SCHEMA_ALL_TYPES = 127
};

/* Are all keywords understood? Conditions of one type without `type` set that type; *ret_types 0: nothing. */
int schema_words_check(struct schema *s, int at);
int schema_words_types(struct schema *s, int at, json_t *schema, unsigned *ret_types);
/* Does the keyword say nothing about which values are valid? */
bool schema_words_is_note(const char *key);
/* A count from 0 on, or what *ret_v was. */
int schema_words_count(struct schema *s, int at, const char *key, uint32_t *ret_v);

/* ---- merging and references: schema_merge.c ---- */

/* References that only lead to references. */
#define SCHEMA_MAX_CHAIN 64

/* The schema that a reference means. */
int schema_ref(struct schema *s, int at, json_t *ref, json_t **ret_schema);
/* The schema without a reference at its top. */
int schema_plain(struct schema *s, int at, json_t *schema, json_t **ret_schema);
/* All that both say, as a new schema that s keeps. */
int schema_merge(struct schema *s, int at, json_t *a, json_t *b, json_t **ret_schema);
/* The keywords beside `without` that say anything, as a new schema; NULL when there are none. */
json_t *schema_beside(struct schema *s, json_t *schema, const char *without);

/* ---- lists of values: schema_constants.c; new references ---- */

/* The types that a value has, a whole number two. */
unsigned schema_constant_types(const json_t *v);
/* The values of a that are in b too, each once; 1 and 1.0 are the same. */
json_t *schema_constants_both(struct schema *s, json_t *a, json_t *b);
/* What enum and const leave, each once; NULL when there is neither, or the enum is no array. */
json_t *schema_constants(struct schema *s, json_t *schema);
/* All that satisfies the items of an array of which none may come twice; *ret_values stays when that is no list. */
int schema_constants_of(struct schema *s, int at, json_t *schema, json_t **ret_values);

/* ---- values of one type, or constants, as the keywords of item `at` want them ----
 *
 * Each gives the node that begins them; behind them the rule ends. Errors as schema_bad() and schema_none(). */

/* Of enum and const those that have one of `types`; in mode PARAMS RC_UNSUPPORTED. */
int schema_enum(struct schema *s, int at, unsigned types, uint32_t *ret_node);
int schema_string(struct schema *s, int at, uint32_t *ret_node);
int schema_number(struct schema *s, int at, bool integer, uint32_t *ret_node);
int schema_array(struct schema *s, int at, uint32_t *ret_node);
/* In mode PARAMS: as parameters. */
int schema_object(struct schema *s, int at, uint32_t *ret_node);
/* As schema_object would make {}: a rule of any parameters. */
uint32_t schema_any_params(struct schema *s);

/* ---- how objects and parameters are written: schema_members.c ---- */

/* One member: its name, and the rules of its value; in JSON there is only `value`, a parameter that is a string is
 * `text`. */
struct schema_member {
	const char *name;      /* NULL: any but those of the others */
	uint32_t value, text;
	bool required;
	/* Of additional ones, where no other member has a name: the rule + 1 of their names, as JSON strings; and how
	 * many there are, JRULE_NO_MAX for any number. */
	uint32_t names, min, max;
};

/* The members in their order, and the additional ones, NULL for none; to the end of the rule. */
uint32_t schema_members(struct schema *s, bool params, const struct schema_member *member, size_t n,
			const struct schema_member *more);
#define SCHEMA_MAX_NAME 512 /* bytes, of any member */
#define SCHEMA_MAX_REQUIRED 4096

#endif
