/* SPDX-License-Identifier: MIT
 * repetition.h - how often a growing text says the same: runs of one word, and one line again and again.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef BASE_REPETITION_H
#define BASE_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line is near its last occurrence when at most so many lines later it comes again. */
#define REPETITION_NEAR 16

/* What ctl/probe/probe_text.awk says of the same text, which is the definition. Words are what stands between white
 * space (of the C locale), in any line. Lines without a letter, a digit or a byte above 0x7F, such as rules, braces and
 * empty ones, do not count. */
struct repetition_figures {
	uint64_t words, lines;
	uint64_t maxrun;     /* longest run of one word */
	uint64_t maxline;    /* occurrences of the most frequent line */
	/* Not awk's: the longest chain of occurrences of one line, each near the one before. A phrase that a long
	 * sound text has here and there makes no chain. */
	uint64_t maxchain;
};

/* Words and lines are known by hashes of 128 bits. */
struct repetition_hash { uint64_t a, b; };

struct repetition_line {
	struct repetition_hash hash;
	uint64_t count, chain, last; /* of its occurrences, of those in the chain; number of the latest line; 0: free */
};

struct repetition {
	struct repetition_figures settled;
	struct repetition_hash word, word_before, line;
	uint64_t run;            /* of the word before */
	bool in_word, line_counts;
	uint64_t n_line;         /* all of them, for `last` */
	struct repetition_line *table; /* [n_slot], a power of two */
	size_t n_slot, n_used, max_used;
};

/* Keeps at most max_lines (at least 2 * REPETITION_NEAR) lines apart, 80 bytes each: with more, those that have not
 * come for longest are forgotten and begin anew, and maxline may be too small. */
void repetition_init(struct repetition *r, size_t max_lines);
void repetition_fini(struct repetition *r);
/* The next piece of the text; it may end anywhere. Time as its length. */
void repetition_put(struct repetition *r, const char *text, size_t len);
/* Of the text as if it ended here: the word and the line that it ends in are whole. */
void repetition_now(const struct repetition *r, struct repetition_figures *ret_f);
/* Of its whole words and lines, so that they can only grow: what the last ones will be is not known yet. */
const struct repetition_figures *repetition_settled(const struct repetition *r);

#endif
