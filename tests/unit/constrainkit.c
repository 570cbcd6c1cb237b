/* SPDX-License-Identifier: MIT
 * constrainkit.c - what the tests of constraints share: vocabularies, texts against a grammar, random answers.
 * Threads: main. Locks: none. */
#include "tests/unit/constrainkit.h"
#include "engine/base/must.h"
#include "engine/constrain/constraint_grammar.h"
#include "tests/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIT_EOS 1

static struct constrainkit kit_tiny, kit_flash;

static const struct constrainkit *kit_read(struct constrainkit *k, const char *file)
{
	const char *top = getenv("top_srcdir");
	struct buf path = { 0 }, text = { 0 }, why = { 0 };

	if (k->vocab)
		return k;
	buf_printf(&path, "%s/%s", top ? top : ".", file);
	assert_int_equal(vectors_read(buf_str(&path), &text), 0);
	if (tokenizer_parse(buf_str(&text), text.len, file, &k->tokenizer, &why))
		fail_msg("%s", buf_str(&why));
	k->n = tokenizer_vocab(k->tokenizer);
	assert_int_equal(constraint_vocab_new(k->tokenizer, k->n, KIT_EOS, &k->vocab), 0);
	buf_fini(&path);
	buf_fini(&text);
	return k;
}

const struct constrainkit *constrainkit_tiny(void)
{
	return kit_read(&kit_tiny, "etc/tiny/tokenizer.json");
}

const struct constrainkit *constrainkit_flash(void)
{
	return kit_read(&kit_flash, "tests/data/tokenizer/deepseek_v4_tokenizer.json.gz");
}

static void kit_drop(struct constrainkit *k)
{
	constraint_vocab_free(&k->vocab);
	tokenizer_free(&k->tokenizer);
}

void constrainkit_done(void)
{
	kit_drop(&kit_tiny);
	kit_drop(&kit_flash);
}

json_t *constrainkit_json(const char *text)
{
	char *copy = strdup(text), *p;
	json_error_t e;
	json_t *v;

	for (p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	v = json_loads(copy, JSON_DECODE_ANY, &e);
	if (!v)
		fail_msg("%s: %s", text, e.text);
	free(copy);
	return v;
}

struct constraint_options constrainkit_schema(json_t *schema)
{
	return (struct constraint_options){ .calls = GEN_CALLS_NONE, .format = GEN_FORMAT_JSON_SCHEMA,
					    .schema = schema };
}

size_t constrainkit_follow(const struct constraint_options *o, const char *text, size_t len, bool *ret_end)
{
	static const char dsml[] = "｜DSML｜";
	struct grammar g;
	struct buf why = { 0 };
	struct automaton *a;
	uint32_t state, next;
	size_t i = 0;

	grammar_init(&g);
	if (constraint_grammar((const struct constraint_vocab *)constrainkit_tiny()->vocab, o, &g, &why))
		fail_msg("%s", buf_str(&why));
	a = automaton_new(&g);
	state = automaton_start(a);
	while (i < len) {
		bool tag = len - i >= strlen(dsml) && memcmp(text + i, dsml, strlen(dsml)) == 0;

		next = automaton_step(a, state, tag ? GRAMMAR_DSML : (uint8_t)text[i]);
		if (next == AUTOMATON_DEAD && tag) {
			tag = false;
			next = automaton_step(a, state, (uint8_t)text[i]);
		}
		/* The byte itself is none of any text: the marker comes as its token only. */
		if (next == AUTOMATON_DEAD || (!tag && (uint8_t)text[i] == GRAMMAR_DSML))
			break;
		state = next;
		i += tag ? strlen(dsml) : 1;
		if (automaton_crowded(a))
			state = automaton_trim(a, state, AUTOMATON_MAX_WAYS);
	}
	*ret_end = automaton_may_end(a, state);
	automaton_free(&a);
	grammar_fini(&g);
	buf_fini(&why);
	return i;
}

/* ---- random answers ---- */

unsigned constrainkit_rand(unsigned *seed, unsigned below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

static bool kit_allowed(const uint64_t *mask, int32_t t)
{
	return mask[t / 64] >> (t % 64) & 1;
}

/* Where an answer is: in a JSON string, in a parameter's text, after the "<" of a tag, or elsewhere. */
enum kit_place { KIT_JSON, KIT_STRING, KIT_TEXT, KIT_OPEN };

static enum kit_place kit_place(const struct buf *text)
{
	const char *from = buf_str(text), *p;
	bool in = false;

	while ((p = strstr(from, "｜DSML｜")) != NULL)
		from = p + 1;
	p = strstr(from, "string=\"true\">");
	if (p)
		return text->data[text->len - 1] == '<' ? KIT_OPEN : KIT_TEXT;
	p = strstr(from, "string=\"false\">");
	for (from = p ? p + 15 : from; *from; from++)
		if (in && *from == '\\' && from[1])
			from++;
		else
			in ^= *from == '"';
	if (!in && text->len && text->data[text->len - 1] == '<')
		return KIT_OPEN;
	return in ? KIT_STRING : KIT_JSON;
}

/* What is wanted at a place when the answer is to end, the most wanted first: a token's first byte. */
static const char *const kit_wanted[] = {
	[KIT_JSON] = "}]<", [KIT_STRING] = "\"", [KIT_TEXT] = "<", [KIT_OPEN] = "/",
};

/* How much a token is wanted when the answer is to end: it closes what is open, and is short. */
static int kit_rank(const struct constrainkit *k, int32_t t, enum kit_place place)
{
	size_t len;
	const char *b = tokenizer_bytes(k->tokenizer, t, &len), *at;

	if (t == KIT_EOS || tokenizer_is_added(k->tokenizer, t))
		return t == KIT_EOS ? 10000 : place == KIT_OPEN ? 8000 : 9500;
	at = len && *b ? strchr(kit_wanted[place], *b) : NULL;
	if (at)
		return 9000 - 100 * (int)(at - kit_wanted[place]) - (int)len;
	/* Else not what opens something. */
	if (len && *b && strchr(" \t\r\n", *b))
		return 3000 - (int)len;
	return (len && *b && strchr("\"[{,:", *b) ? 4000 : 5000) - (int)len;
}

static int32_t kit_pick(const struct constrainkit *k, const uint64_t *mask, unsigned *seed, bool ending,
			const struct buf *text)
{
	int32_t t, from = (int32_t)constrainkit_rand(seed, (unsigned)k->n), best = -1;
	enum kit_place place;
	int i;

	ending |= constrainkit_rand(seed, 4) == 0;
	place = ending ? kit_place(text) : KIT_JSON;
	for (i = 0; i < k->n; i++) {
		t = (from + i) % k->n;
		if (!kit_allowed(mask, t))
			continue;
		if (!ending)
			return t;
		if (best < 0 || kit_rank(k, t, place) > kit_rank(k, best, place))
			best = t;
	}
	must(best >= 0);
	return best;
}

void constrainkit_random(const struct constrainkit *k, const struct constraint_options *o, unsigned *seed, int n,
	struct buf *out, struct token_ids *ids)
{
	struct constraint *c = NULL;
	struct buf why = { 0 };
	const uint64_t *mask;
	size_t len;
	int i;

	if (constraint_new(k->vocab, o, &c, &why))
		fail_msg("%s", buf_str(&why));
	for (i = 0; i < n + 3000; i++) {
		int32_t t;
		const char *bytes;

		if (constraint_mask(c, &mask, &why))
			fail_msg("%s", buf_str(&why));
		t = kit_pick(k, mask, seed, i > n, out);
		constraint_take(c, t);
		if (t == KIT_EOS)
			break;
		assert_false(constraint_complete(c) && constraint_mask(c, &mask, &why) == 0 &&
			!kit_allowed(mask, KIT_EOS));
		bytes = tokenizer_bytes(k->tokenizer, t, &len);
		buf_add(out, bytes, len);
		if (ids)
			token_ids_add(ids, t);
	}
	if (i == n + 3000)
		fail_msg("no end: %.300s", buf_str(out));
	constraint_free(&c);
	buf_fini(&why);
}
