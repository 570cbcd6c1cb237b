/* SPDX-License-Identifier: MIT
 * fuzz_prompt.c - any JSON as messages and tools: rendered, tokenized, and read back from the tokens.
 * Threads: one. Locks: none. */
#include "engine/base/must.h"
#include "engine/text/prompt.h"
#include "engine/text/pyjson.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tokenizer *tokenizer(void)
{
	static struct tokenizer *t;
	struct buf path = { 0 }, why = { 0 };

	if (!t) {
		buf_printf(&path, "%s/etc/tiny/tokenizer.json",
			getenv("top_srcdir") ? getenv("top_srcdir") : ".");
		must_zero(tokenizer_open(buf_str(&path), &t, &why));
	}
	buf_fini(&path);
	buf_fini(&why);
	return t;
}

/* The text of the tokens is the text of the prompt, and as much of it is control with evil content as without. */
static void check_tokens(const struct prompt *p)
{
	struct token_ids ids = { 0 };
	struct buf text = { 0 }, back = { 0 };

	must_zero(prompt_tokens(p, tokenizer(), &ids, NULL));
	prompt_text(p, &text);
	tokenizer_decode(tokenizer(), ids.id, ids.n, false, &back);
	must(text.len == back.len && memcmp(buf_str(&text), buf_str(&back), text.len) == 0);
	must(prompt_in_thinking(p) <= (text.len >= 7 && memcmp(text.data + text.len - 7, "<think>", 7) == 0));
	token_ids_fini(&ids);
	buf_fini(&text);
	buf_fini(&back);
}

/* `choice` varies what both modes have in common. */
static void check_render(json_t *in, size_t choice)
{
	json_t *messages = json_is_object(in) ? json_object_get(in, "messages") : in;
	struct buf why = { 0 };
	int i;

	for (i = 0; i < 2; i++) {
		struct prompt_options o = { .thinking = i, .drop_thinking = (enum prompt_drop)(choice % 3),
			.effort = choice & 4 ? GEN_EFFORT_MAX : GEN_EFFORT_DEFAULT };
		struct prompt *p = NULL;

		if (prompt_render(messages, json_object_get(in, "tools"), &o, &p, &why))
			must(why.len > 0);
		else
			check_tokens(p);
		prompt_free(&p);
	}
	buf_fini(&why);
}

/* What was written is read back, and written the same. */
static void check_json(const char *text, size_t len)
{
	struct buf once = { 0 }, twice = { 0 };
	json_t *v = NULL;

	if (pyjson_load(text, len, &v, NULL))
		return;
	must_zero(pyjson_dump(v, &once));
	json_decref(v);
	must_zero(pyjson_load(buf_str(&once), once.len, &v, NULL));
	must_zero(pyjson_dump(v, &twice));
	json_decref(v);
	must(once.len == twice.len && memcmp(buf_str(&once), buf_str(&twice), once.len) == 0);
	buf_fini(&once);
	buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *in = json_loadb((const char *)data, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

	check_json((const char *)data, size);
	if (in)
		check_render(in, size);
	json_decref(in);
	return 0;
}
