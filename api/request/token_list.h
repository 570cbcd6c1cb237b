/* SPDX-License-Identifier: MIT
 * token_list.h - token ids that a client wrote: checked one by one, each by its place.
 * Threads: any. Locks: none. */
#ifndef API_TOKEN_LIST_H
#define API_TOKEN_LIST_H

#include "api/request/field.h"
#include "engine/engine.h"

/* Appends the ids of the array at at->NAME to *out. RC_INVALID names e.g. "NAME[3]"; -ENOMEM. */
int token_list_parse(const struct field_at *at, const char *name, const json_t *array, const struct tokenizer *t,
	struct token_ids *out, struct error *err);

#endif
