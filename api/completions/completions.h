/* SPDX-License-Identifier: MIT
 * completions.h - text completions as OpenAI's legacy protocol tells them, whole and streamed.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_COMPLETIONS_H
#define API_COMPLETIONS_H

#include "api/request/answer.h"
#include "api/request/openai_json.h"

/* Start from {.head, .n, .each, .include_usage}; echo is filled in by its owner. */
struct completions {
	struct openai_head head;
	int n;                                  /* choices */
	int each;                               /* of one prompt */
	bool include_usage;
	struct buf echo[ANSWER_MAX_CHOICES];    /* by prompt: what comes before the answer; empty for none */
	json_t *logprobs[ANSWER_MAX_CHOICES];   /* by choice: of tokens that were not told yet */
};

/* As in struct answer_form. */
void completions_begin(struct completions *s, struct buf *out);
void completions_event(struct completions *s, int choice, const struct gen_event *ev, struct buf *out);
void completions_end(struct completions *s, const struct gen_usage *usage, struct buf *out);
void completions_fail(struct completions *s, const struct error *err, struct buf *out);
json_t *completions_reply(struct completions *s, const struct collect *choice, int n, const struct gen_usage *usage);
void completions_fini(struct completions *s);

#endif
