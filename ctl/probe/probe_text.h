/* SPDX-License-Identifier: MIT
 * probe_text.h - figures of one text that show repetition, while it grows.
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_TEXT_H
#define CTL_PROBE_TEXT_H

#include "engine/base/buf.h"
#include "engine/base/repetition.h"

#include <stddef.h>

struct probe_figures {
	struct repetition_figures said; /* words, lines, maxrun, maxline: as ctl/probe/probe_text.awk has them */
	double gzip;                    /* bytes of `gzip -6 -c` over raw bytes; 1 for an empty text */
};

struct probe_text {
	struct buf text;
	struct repetition said;
};

void probe_text_init(struct probe_text *t);
void probe_text_fini(struct probe_text *t);
void probe_text_put(struct probe_text *t, const char *text, size_t len);
/* All of them, of the text as if it ended here. */
void probe_text_figures(const struct probe_text *t, struct probe_figures *ret_f);
/* Compressed over raw bytes of the part [from, to). */
double probe_text_gzip(const struct probe_text *t, size_t from, size_t to);

#endif
