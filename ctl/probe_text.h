/* SPDX-License-Identifier: MIT
 * probe_text.h - figures of one text that show repetition.
 * Threads: any. Locks: none. */
#ifndef CTL_PROBE_TEXT_H
#define CTL_PROBE_TEXT_H

#include <stddef.h>

struct probe_text {
	int words, lines;
	int maxrun;   /* longest run of one word, words split at white space */
	int maxline;  /* occurrences of the most frequent line; lines without a letter or digit do not count */
	double gzip;  /* bytes of `gzip -6` over raw bytes; 1 for an empty text */
};

void probe_text_measure(const char *text, size_t len, struct probe_text *ret_t);

#endif
