/* SPDX-License-Identifier: MIT
 * vectors_encoding.c - prompts and completions against a file of the official encoder's and parser's results.
 * Threads: main only. Locks: none. */
#include "engine/base/mem.h"
#include "engine/text/completion.h"
#include "engine/text/prompt.h"
#include "tests/vectors.h"

#include <stdio.h>
#include <string.h>

static const char *vectors_string(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static bool vectors_thinking(const json_t *c)
{
	return strcmp(vectors_string(c, "thinking_mode"), "thinking") == 0;
}

/* A refused case has no prompt; then any error will do. */
static bool vectors_encode(const json_t *c, struct buf *why)
{
	const json_t *want = json_object_get(c, "prompt"), *effort = json_object_get(c, "reasoning_effort");
	struct prompt_options o = {
		.thinking = vectors_thinking(c),
		.drop_thinking = json_is_false(json_object_get(c,
			"drop_thinking")) ? PROMPT_DROP_NEVER : PROMPT_DROP_AUTO,
	};
	bool refused = json_is_true(json_object_get(c, "refused")), good;
	struct prompt *p = NULL;
	struct buf text = { 0 };

	if (json_is_string(effort))
		o.effort = strcmp(json_string_value(effort), "max") == 0 ? GEN_EFFORT_MAX : GEN_EFFORT_HIGH;
	if (prompt_render(json_object_get(c, "messages"), NULL, &o, &p, why))
		return refused;
	prompt_text(p, &text);
	good = !refused && text.len == json_string_length(want) &&
		memcmp(buf_str(&text), json_string_value(want), text.len) == 0;
	buf_why(why, 0, "%s", refused ? "not refused" : "another prompt");
	buf_fini(&text);
	prompt_free(&p);
	return good;
}

/* What the official parser accepts comes out equal and without remark; what it refuses is noticed. */
static bool vectors_decode(const json_t *c, struct buf *why)
{
	static const size_t chunks[] = { 0, 1, 2, 3, 7 };
	const json_t *text = json_object_get(c, "text");
	bool refused = json_is_true(json_object_get(c, "official_parser_refuses")), good = true;
	size_t i;

	for (i = 0; i < mem_countof(chunks) && good; i++) {
		struct completion_verdict v;
		json_t *message = NULL;

		completion_parse_text(json_string_value(text), json_string_length(text), vectors_thinking(c),
			chunks[i],
			&message, &v);
		good = refused ? v.flags != 0 : v.flags == 0 && json_equal(message, json_object_get(c,
			"message"));
		buf_why(why, 0, "%s (flags %#x)", refused ? "not noticed" : "another message", v.flags);
		json_decref(message);
	}
	return good;
}

int vectors_encoding(const char *file)
{
	static const struct { const char *key; bool (*check)(const json_t *c, struct buf *why); } kinds[] = {
		{ "encode", vectors_encode }, { "decode", vectors_decode },
	};
	json_t *all = vectors_load(file);
	int passed = 0, failed = 0;
	struct buf why = { 0 };
	size_t k, i;

	if (!all)
		return 2;
	for (k = 0; k < mem_countof(kinds); k++) {
		const json_t *cases = json_object_get(all, kinds[k].key), *c;

		json_array_foreach(cases, i, c) {
			if (kinds[k].check(c, &why)) {
				passed++;
				continue;
			}
			failed++;
			printf("FAIL %s %s: %s\n", kinds[k].key, vectors_string(c, "name"), buf_str(&why));
		}
	}
	buf_fini(&why);
	json_decref(all);
	return vectors_verdict(file, passed, failed);
}
