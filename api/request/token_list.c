/* SPDX-License-Identifier: MIT
 * token_list.c - token ids that a client wrote: checked one by one, each by its place.
 * Threads: any. Locks: none. */
#include "api/request/token_list.h"
#include "engine/base/rc.h"

#include <stdio.h>

int token_list_parse(const struct field_at *at, const char *name, const json_t *array, const struct tokenizer *t,
	struct token_ids *out, struct error *err)
{
	int vocab = tokenizer_vocab(t), rc;
	const json_t *v;
	size_t i;

	json_array_foreach (array, i, v) {
		char one[64];

		snprintf(one, sizeof one, "%.40s[%zu]", name, i);
		if (!json_is_integer(v))
			return field_wrong_type(at, one, v, "an integer", err);
		if (json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
			return field_refuse(at, one, err, RC_INVALID, "%lld is not a token id below %d",
				(long long)json_integer_value(v), vocab);
		rc = token_ids_try(out, (int32_t)json_integer_value(v));
		if (rc)
			return field_refuse(at, name, err, rc, "no memory for %zu tokens", json_array_size(array));
	}
	return 0;
}
