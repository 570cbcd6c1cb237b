/* SPDX-License-Identifier: MIT
 * pretok.h - the pre-tokenizer: cuts text into words by the patterns that tokenizer.json lists, in turn.
 * Threads: any; a pretok is read-only after loading, a pretok_run belongs to one call. Locks: none. */
#ifndef ENGINE_PRETOK_H
#define ENGINE_PRETOK_H

#include "engine/base/buf.h"

#include <stdbool.h>

#define PRETOK_MAX_STEPS 8
#define PRETOK_MAX_PATTERN 4096 /* bytes */

struct pretok_step {
	struct pcre2_real_code_8 *code;
	bool jit;
};

/* Start from {0}. */
struct pretok {
	struct pretok_step step[PRETOK_MAX_STEPS];
	int n;
};

void pretok_fini(struct pretok *p);
/* Adds a step: every piece so far is cut at the pattern's matches, which stay as pieces of their own
 * ("Isolated"). `literal`: the pattern is plain text, not a regular expression. RC_MODEL; why says what is
 * wrong with it. */
int pretok_add(struct pretok *p, const char *pattern, size_t len, bool literal, struct buf *why);

/* Gets each word in order; not 0 stops and is returned. */
typedef int pretok_word_f(void *arg, const char *word, size_t len);

struct pretok_run;
struct pretok_run *pretok_run_new(void); /* NULL when memory is short */
void pretok_run_free(struct pretok_run **r);
/* text must be valid UTF-8. RC_TOO_LARGE when a match takes more memory or steps than PCRE2 may use. */
int pretok_split(const struct pretok *p, struct pretok_run *r, const char *text, size_t len,
		 pretok_word_f *word, void *arg);

/* pretok_regex.c: from the syntax of the Hugging Face library (Oniguruma) to PCRE2's. RC_MODEL. */
int pretok_regex(const char *pattern, size_t len, struct buf *out, struct buf *why);

#endif
