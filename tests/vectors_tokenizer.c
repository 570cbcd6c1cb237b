/* SPDX-License-Identifier: MIT
 * vectors_tokenizer.c - vectors tokenizer: ids and decoded texts as the Hugging Face library gives them.
 * Threads: main only. Locks: none. */
#include "engine/text/tokenizer.h"
#include "tests/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Are the ids those of the JSON array? An absent field is not checked. */
static bool vectors_ids_equal(const struct token_ids *got, const json_t *want)
{
	if (!want)
		return true;
	if (!json_is_array(want) || json_array_size(want) != (size_t)got->n)
		return false;
	for (int i = 0; i < got->n; i++)
		if (json_integer_value(json_array_get(want, (size_t)i)) != got->id[i])
			return false;
	return true;
}

static bool vectors_encodes(const struct tokenizer *t, const json_t *text, bool added, const json_t *want)
{
	struct token_ids got = { 0 };
	bool ok = tokenizer_encode(t, json_string_value(text), json_string_length(text), added, &got) == 0 &&
		  vectors_ids_equal(&got, want);

	token_ids_fini(&got);
	return ok;
}

static bool vectors_decodes(const struct tokenizer *t, const json_t *ids, bool skip_special,
			    const json_t *want)
{
	struct token_ids in = { 0 };
	struct buf got = { 0 };
	size_t i;
	json_t *id;
	bool ok;

	if (!want)
		return true;
	json_array_foreach(ids, i, id) token_ids_add(&in, (int32_t)json_integer_value(id));
	tokenizer_decode(t, in.id, in.n, skip_special, &got);
	ok = json_is_string(want) && json_string_length(want) == got.len &&
	     memcmp(json_string_value(want), buf_str(&got), got.len) == 0;
	token_ids_fini(&in);
	buf_fini(&got);
	return ok;
}

/* Checks one case; prints it with the fields that differ. */
static bool vectors_tokenizer_case(const struct tokenizer *t, const json_t *v, size_t index)
{
	const json_t *text = json_object_get(v, "text"), *ids = json_object_get(v, "ids");
	bool ok[4] = {
		json_is_string(text) && vectors_encodes(t, text, true, ids),
		json_is_string(text) && vectors_encodes(t, text, false, json_object_get(v, "plain")),
		vectors_decodes(t, ids, false, json_object_get(v, "decoded")),
		vectors_decodes(t, ids, true, json_object_get(v, "decoded_skip")),
	};
	static const char *const field[] = { "ids", "plain", "decoded", "decoded_skip" };
	bool all = ok[0] && ok[1] && ok[2] && ok[3];

	if (all)
		return true;
	printf("case %zu:", index);
	for (int i = 0; i < 4; i++)
		if (!ok[i])
			printf(" %s", field[i]);
	printf(" differ for text \"%.60s\"\n", json_is_string(text) ? json_string_value(text) : "(none)");
	return false;
}

int vectors_tokenizer(const char *tokenizer, const char *file)
{
	struct tokenizer *t = NULL;
	struct buf text = { 0 }, why = { 0 };
	json_t *cases = NULL, *v;
	int passed = 0, failed = 0, rc = vectors_read(tokenizer, &text);
	size_t i;

	if (rc == 0)
		rc = tokenizer_parse(buf_str(&text), text.len, tokenizer, &t, &why);
	if (why.len > 0)
		fprintf(stderr, "%s\n", buf_str(&why));
	if (rc == 0)
		cases = vectors_load(file);
	json_array_foreach(cases, i, v)
	{
		bool ok = vectors_tokenizer_case(t, v, i);

		passed += ok;
		failed += !ok;
	}
	tokenizer_free(&t);
	buf_fini(&text);
	buf_fini(&why);
	rc = json_is_array(cases) ? vectors_verdict(file, passed, failed) : 2;
	json_decref(cases);
	return rc;
}
