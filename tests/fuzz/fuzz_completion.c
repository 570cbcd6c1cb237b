/* SPDX-License-Identifier: MIT
 * fuzz_completion.c - any bytes as generated tokens: the split of the text must not matter, whole calls are JSON.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/text/completion.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input bytes 0, 1, ... stand for these added tokens. */
static const char *const tokens[] = { "｜DSML｜", "<think>", "</think>", "<｜User｜>", "<｜▁pad▁｜>" };

struct result {
	struct buf text[2]; /* by COMPLETION_REASONING, COMPLETION_CONTENT */
	struct buf calls, args;
	int n_whole, n_put, n_told;
	size_t character;
	bool open;
};

static void check_args(const struct buf *args)
{
	json_t *v = json_loadb(buf_str(args), args->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	json_error_t err;

	if (!v) {
		/* Integers and reals beyond the library's are JSON all the same, and so are
		 * doubled names inside a value. */
		v = json_loadb(buf_str(args), args->len, JSON_ALLOW_NUL, &err);
		must(v != NULL || json_error_code(&err) == json_error_numeric_overflow ||
			json_error_code(&err) == json_error_null_byte_in_key ||
			json_error_code(&err) == json_error_invalid_syntax); /* escaped lone surrogates */
	}
	json_decref(v);
}

static void event(void *arg, const struct completion_event *ev)
{
	struct result *r = arg;
	json_t *utf8;

	if (ev->kind == COMPLETION_TOKEN) {
		must(ev->told != COMPLETION_TOLD_OPEN && ++r->n_told <= r->n_put);
		must(ev->told != COMPLETION_TOLD_CONTENT || ev->character >= r->character);
		r->character = ev->told == COMPLETION_TOLD_CONTENT ? ev->character : r->character;
		return;
	}
	utf8 = json_stringn(ev->text, ev->len);
	must(utf8 != NULL);
	json_decref(utf8);
	must(ev->len > 0 || ev->kind == COMPLETION_TOOL_END);
	must((ev->kind != COMPLETION_TOOL_ARGS && ev->kind != COMPLETION_TOOL_END) || r->open);
	if (ev->kind <= COMPLETION_CONTENT) {
		buf_add(&r->text[ev->kind], ev->text, ev->len);
		return;
	}
	buf_add(&r->calls, ev->text, ev->len);
	if (ev->kind == COMPLETION_TOOL_ARGS) {
		buf_add(&r->args, ev->text, ev->len);
		return;
	}
	buf_addc(&r->calls, ev->kind == COMPLETION_TOOL_BEGIN ? '(' : ')');
	r->open = ev->kind == COMPLETION_TOOL_BEGIN;
	if (ev->kind == COMPLETION_TOOL_END) {
		r->n_whole++;
		check_args(&r->args);
	}
	buf_clear(&r->args);
}

static void put(struct completion *c, const char *bytes, size_t len, bool spelled, size_t chunk, struct result *r)
{
	size_t i, n;

	for (i = 0; i < len; i += n) {
		struct completion_token t = { .bytes = bytes + i };

		for (n = 0; n < chunk && i + n < len && (uint8_t)bytes[i + n] >= mem_countof(tokens); n++)
			;
		t.len = n;
		if (n == 0) {
			t.bytes = tokens[(uint8_t)bytes[i]];
			t.len = strlen(t.bytes);
			t.added = !spelled;
			t.special = !spelled && bytes[i] == 4;
			n = 1;
		}
		r->n_put++;
		if (completion_put(c, &t))
			return;
	}
}

static void run(const uint8_t *data, size_t size, size_t chunk, struct result *ret_r,
	struct completion_verdict *ret_v)
{
	static const char *const stops[] = { "ab", "b\n", "<" };
	struct completion_options o = { .mode = data[0] % 3, .spelled = data[0] & 4, .stop = stops,
		.n_stop = data[0] & 8 ? 3 : 0,
		.emit = event, .arg = ret_r, .tell = true };
	struct completion *c = NULL;

	must_zero(completion_new(&o, &c, NULL));
	put(c, (const char *)data + 1, size - 1, o.spelled, chunk, ret_r);
	completion_end(c, data[0] & 16 ? COMPLETION_MAX_TOKENS : COMPLETION_EOS, ret_v);
	completion_free(&c);
	must(ret_v->n_calls == ret_r->n_whole);
	must(ret_r->n_told == ret_r->n_put);
	must(ret_r->character <= ret_r->text[COMPLETION_CONTENT].len);
	must(ret_v->finish != GEN_TOOL_CALLS || (ret_r->n_whole > 0 && !ret_r->open));
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

static void result_fini(struct result *r)
{
	buf_fini(&r->text[0]);
	buf_fini(&r->text[1]);
	buf_fini(&r->calls);
	buf_fini(&r->args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result whole = { 0 }, pieces = { 0 };
	struct completion_verdict v, w;

	if (size == 0)
		return 0;
	run(data, size, SIZE_MAX, &whole, &v);
	run(data, size, (data[0] >> 5) + 1, &pieces, &w);
	must(same(&whole.text[0], &pieces.text[0]) && same(&whole.text[1], &pieces.text[1]));
	must(same(&whole.calls, &pieces.calls));
	must(v.flags == w.flags && v.finish == w.finish && v.detail == w.detail);
	result_fini(&whole);
	result_fini(&pieces);
	return 0;
}
