/* SPDX-License-Identifier: MIT
 * fuzz_schema.c - any JSON as a schema: refused with a reason, or followed by random tokens to an end that is JSON.
 * Threads: one. Locks: none. */
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/constrain/constraint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_EOS 1
#define FUZZ_TOKENS 60

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tokenizer *tokenizer;

static struct constraint_vocab *vocab(void)
{
	static struct constraint_vocab *v;
	struct buf path = { 0 }, why = { 0 };

	if (!v) {
		buf_printf(&path, "%s/etc/tiny/tokenizer.json", getenv("top_srcdir") ? getenv("top_srcdir") : ".");
		must_zero(tokenizer_open(buf_str(&path), &tokenizer, &why));
		must_zero(constraint_vocab_new(tokenizer, tokenizer_vocab(tokenizer), FUZZ_EOS, &v));
	}
	buf_fini(&path);
	buf_fini(&why);
	return v;
}

/* The first allowed token at or after a random one. */
static int32_t pick(const uint64_t *mask, uint32_t *seed)
{
	int32_t n = tokenizer_vocab(tokenizer), from, i;

	*seed = *seed * 1664525u + 1013904223u;
	from = (int32_t)(*seed >> 8) % n;
	for (i = 0; i < n; i++) {
		int32_t t = (from + i) % n;

		if (mask[t / 64] >> (t % 64) & 1)
			return t;
	}
	must(false);
}

/* What ended is JSON, whatever the schema was. */
static void follow(struct constraint *c, uint32_t seed, bool json)
{
	struct buf text = { 0 }, why = { 0 };
	const uint64_t *mask;
	int32_t t = 0;
	size_t len;

	for (int i = 0; i < FUZZ_TOKENS && t != FUZZ_EOS; i++) {
		int rc = constraint_mask(c, &mask, &why);

		if (rc) {
			must(rc == RC_TOO_LARGE && why.len > 0);
			break;
		}
		t = mask ? pick(mask, &seed) : 2 + (int32_t)(seed++ % 256);
		constraint_take(c, t);
		if (t != FUZZ_EOS) {
			const char *bytes = tokenizer_bytes(tokenizer, t, &len);

			buf_add(&text, bytes, len);
		}
	}
	if (t == FUZZ_EOS && json) {
		json_t *v = json_loadb(buf_str(&text), text.len, JSON_DECODE_ANY, NULL);

		must(v != NULL);
		json_decref(v);
	}
	buf_fini(&text);
	buf_fini(&why);
}

static void check(json_t *schema, json_t *tools, uint32_t seed)
{
	struct constraint_options o = { .calls = GEN_CALLS_NONE, .format = GEN_FORMAT_JSON_SCHEMA, .schema = schema };
	struct constraint *c = NULL;
	struct buf why = { 0 };
	int rc;

	if (tools)
		o = (struct constraint_options){ .calls = GEN_CALLS_REQUIRED, .tools = tools, .one_call = seed & 1 };
	rc = constraint_new(vocab(), &o, &c, &why);
	if (rc) {
		must(why.len > 0);
		must(rc == RC_INVALID || rc == RC_UNSUPPORTED || rc == RC_TOO_LARGE);
	} else {
		follow(c, seed, !tools);
	}
	constraint_free(&c);
	buf_fini(&why);
}

/* The schema as a tool's, strict or not. */
static void check_tool(json_t *schema, uint32_t seed)
{
	json_t *tools = json_pack("[{s:{s:s, s:b, s:O}}]", "function", "name", "f", "strict", seed >> 1 & 1,
		"parameters", schema);

	check(NULL, tools, seed);
	json_decref(tools);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *schema = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	uint32_t seed = (uint32_t)size;

	if (!schema)
		return 0;
	for (size_t i = 0; i < size; i++)
		seed = seed * 31 + data[i];
	check(schema, NULL, seed);
	check_tool(schema, seed);
	json_decref(schema);
	return 0;
}
