/* SPDX-License-Identifier: MIT
 * grep.h - the lines of a text that a regular expression (PCRE2's) matches: how many, and a piece of the first.
 * Threads: any, one at a time per struct grep. Locks: none.
 *
 * Whoever may ask chooses the pattern, so each line may cost so many steps and no more; lines that would cost more
 * are counted. */
#ifndef DAEMON_GREP_H
#define DAEMON_GREP_H

#include "engine/base/buf.h"

#include <stdbool.h>

#define GREP_MAX_REGEX 4096
#define GREP_EXCERPT 160 /* bytes of a line that are shown, without the dots where it is cut */

struct grep;

/* What was found in one or more texts; start from {0}. */
struct grep_found {
	long long lines;       /* that match */
	long long unread;      /* given up on: too many steps */
	long long looked;      /* lines so far */
	long long first;       /* number of the first that matches, from 1 */
	struct buf excerpt;    /* of the first */
};

/* RC_INVALID: why says what is wrong with the pattern, and where. -ENOMEM. */
int grep_new(const char *regex, bool ignore_case, struct grep **ret_g, struct buf *why);
/* NULL is fine. */
void grep_free(struct grep **g);
/* Adds the text's lines to *f. Asks stop before each (NULL: never); true ends it. */
void grep_text(struct grep *g, const char *text, size_t len, bool (*stop)(void *arg), void *arg, struct grep_found *f);
void grep_found_fini(struct grep_found *f);

#endif
