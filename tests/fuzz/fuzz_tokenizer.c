/* SPDX-License-Identifier: MIT
 * fuzz_tokenizer.c - an input that begins with { is a tokenizer.json; any other is text to encode.
 * Threads: main only. Locks: none. */
#include "engine/base/must.h"
#include "engine/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What comes back must be the text, repaired; plain text must hold no added token. */
static void fuzz_round_trip(const struct tokenizer *t, const char *text, size_t len, bool added)
{
	struct token_ids ids = { 0 };
	struct buf back = { 0 }, want = { 0 };
	int rc = tokenizer_encode(t, text, len, added, &ids);

	if (rc == 0 && !added)
		for (int i = 0; i < ids.n; i++)
			must(!tokenizer_is_added(t, ids.id[i]));
	tokenizer_decode(t, ids.id, ids.n, false, &back);
	utf8_repair(text, len, &want);
	must(added || rc < 0 ||
	     (back.len == want.len && memcmp(buf_str(&back), buf_str(&want), want.len) == 0));
	token_ids_fini(&ids);
	buf_fini(&back);
	buf_fini(&want);
}

/* Any cut gives what the whole gives. */
static void fuzz_stream(const char *text, size_t len)
{
	size_t cut = len > 0 ? (unsigned char)text[0] % len : 0;
	struct utf8_stream s = { { 0 }, 0 };
	struct buf got = { 0 }, want = { 0 };

	utf8_repair(text, len, &want);
	utf8_stream_put(&s, text, cut, &got);
	utf8_stream_put(&s, text + cut, len - cut, &got);
	utf8_stream_end(&s, &got);
	must(got.len == want.len && strcmp(buf_str(&got), buf_str(&want)) == 0);
	buf_fini(&got);
	buf_fini(&want);
}

static struct tokenizer *fuzz_tiny(void)
{
	static struct tokenizer *t;
	const char *top = getenv("top_srcdir");
	struct buf path = { 0 };

	buf_printf(&path, "%s/etc/tiny/tokenizer.json", top ? top : ".");
	if (!t)
		must_zero(tokenizer_open(buf_str(&path), &t, NULL));
	buf_fini(&path);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char sample[] = "aB 12\n\xE4\xB8\xAD <x";
	const char *text = (const char *)data;
	struct tokenizer *t = NULL;
	struct buf why = { 0 };

	if (size > 0 && text[0] == '{') {
		if (tokenizer_parse(text, size, "fuzz", &t, &why) == 0) {
			fuzz_round_trip(t, sample, sizeof sample - 1, false);
			fuzz_round_trip(t, sample, sizeof sample - 1, true);
		} else {
			must(why.len > 0);
		}
		tokenizer_free(&t);
		buf_fini(&why);
		return 0;
	}
	fuzz_round_trip(fuzz_tiny(), text, size, false);
	fuzz_round_trip(fuzz_tiny(), text, size, true);
	fuzz_stream(text, size);
	return 0;
}
