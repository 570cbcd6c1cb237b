/* SPDX-License-Identifier: MIT
 * request_input.h - what a spec's messages, text or tokens are to the model.
 * Threads: any. Locks: none. */
#ifndef ENGINE_REQUEST_INPUT_H
#define ENGINE_REQUEST_INPUT_H

#include "engine/serve/request.h"

/* What is made of the spec before there is a request. */
struct request_input {
	struct buf messages, text; /* for the record */
	struct token_ids ids;
};

/* Fills `in`, which is zeroed, under these numerics. RC_INVALID, -ENOMEM; why names the field. */
int request_input_read(const struct request_env *env, const struct generation_spec *spec, const struct numerics *n,
		       struct request_input *in, struct buf *why);
void request_input_fini(struct request_input *in);

#endif
