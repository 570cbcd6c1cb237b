/* SPDX-License-Identifier: MIT
 * verb.h - the verb table (verbs.def) and the two readings of its argument column: command line and parameters.
 * Threads: any. Locks: none. */
#ifndef CTL_VERB_H
#define CTL_VERB_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

#define VERB_MAX_ARGS 12
#define VERB_NAME_MAX 32
#define VERB_CHOICES_MAX 128

enum verb_level { VERB_MONITOR, VERB_OPERATE, VERB_ADMIN };
/* BRIEF: a reply that does not come soon is a failure. LASTS: as long as its work does. TELLS: the same, and tells how
 * far it is; its reply may have a verdict. */
enum verb_lasts { VERB_BRIEF, VERB_LASTS, VERB_TELLS };

struct verb {
	const char *id, *words, *method; /* method: fully qualified */
	enum verb_level level;
	enum verb_lasts lasts;
	const char *args, *text;
};
extern const struct verb verb_table[];
extern const int verb_count;

enum verb_type { VERB_STRING, VERB_SECRET, VERB_FILE, VERB_CHOICE, VERB_INT, VERB_FLOAT, VERB_BOOL, VERB_STRINGS,
		 VERB_MAP };

/* One word of the argument column. */
struct verb_arg {
	char name[VERB_NAME_MAX];        /* of the parameter; an option's dashes are underscores here */
	char choices[VERB_CHOICES_MAX];  /* VERB_CHOICE: "a|b|c" */
	enum verb_type type;
	bool option, required;
	bool here;                       /* dsv4ctl's own; no parameter of the method */
};

/* Fills out[VERB_MAX_ARGS]; returns how many. A malformed column is a programming error. */
int verb_args(const struct verb *v, struct verb_arg *out);
const char *verb_level_name(enum verb_level l);

/* NULL when unknown. */
const struct verb *verb_find_method(const char *method);
/* The verb whose words begin argv; *ret_used says how many words they are. NULL when none. */
const struct verb *verb_find_words(int argc, char *const *argv, int *ret_used);

/* Checks a call's parameters against the column. RC_INVALID: bad (VERB_NAME_MAX bytes) has the field's
 * name. */
int verb_check(const struct verb *v, json_t *params, char *bad);
/* Makes parameters of the words after the verb, dsv4ctl's own included. RC_INVALID; why says what is wrong. */
int verb_parse(const struct verb *v, int argc, char *const *argv, json_t **ret_params, struct buf *why);
/* "request list [--max N]" */
void verb_usage(const struct verb *v, struct buf *out);

#endif
