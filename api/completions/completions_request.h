/* SPDX-License-Identifier: MIT
 * completions_request.h - the body of a text completion to what the engine takes: raw prompts, as many as are given.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_COMPLETIONS_REQUEST_H
#define API_COMPLETIONS_REQUEST_H

#include "api/request/answer.h"
#include "api/request/settings.h"

struct completions_request {
	struct settings settings;      /* its spec is what those of the prompts share */
	struct generation_spec spec[ANSWER_MAX_CHOICES];
	struct token_ids ids[ANSWER_MAX_CHOICES];
	const char *text[ANSWER_MAX_CHOICES]; /* the body's; NULL for a prompt that was given as ids */
	int n_prompts;
	int logprobs;                  /* -1: none */
	bool echo, parse_special;
};

/* The prompt is a string, token ids, or a list of either; nothing is put before, between or after it, not even the
 * begin-of-sentence marker. Errors as chat_request_parse(); `body` must outlive *ret_r, which is to be finished. */
int completions_request_parse(const struct engine *e, json_t *body, struct completions_request *ret_r,
	struct error *err);
void completions_request_fini(struct completions_request *r);

#endif
