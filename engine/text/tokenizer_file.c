/* SPDX-License-Identifier: MIT
 * tokenizer_file.c - reads tokenizer.json; what is not implemented is refused by name, never ignored.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_priv.h"

#include <stdarg.h>
#include <string.h>

/* What the ByteLevel pre-tokenizer cuts at when it is told to use its own pattern. */
#define TOKENIZER_FILE_GPT2 \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

int tokenizer_file_bad(struct tokenizer_file *f, const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	buf_why(f->why, RC_MODEL, "%s: %s", f->name, buf_str(&text));
	buf_fini(&text);
	return RC_MODEL;
}

int tokenizer_file_scanned(struct tokenizer_file *f, const struct jscan *j, const char *field)
{
	if (!j->error)
		return 0;
	return tokenizer_file_bad(f, "%s: %s (byte %zu)", field, j->error, jscan_at(j));
}

bool tokenizer_file_absent(struct jscan j)
{
	return !j.text || jscan_peek(&j) == 'n';
}

int tokenizer_file_flag(struct tokenizer_file *f, struct jscan j, const char *field, bool *ret_value)
{
	*ret_value = false;
	if (tokenizer_file_absent(j))
		return 0;
	jscan_bool(&j, ret_value);
	return tokenizer_file_scanned(f, &j, field);
}

/* A flag that may only be absent, null or false. */
static int tokenizer_file_no(struct tokenizer_file *f, struct jscan j, const char *field)
{
	bool set;
	int rc = tokenizer_file_flag(f, j, field, &set);

	return rc == 0 && set ? tokenizer_file_bad(f, "%s: true is not supported", field) : rc;
}

/* Reads a string into f->text; refused unless it is `only` (when given). */
static int tokenizer_file_string(struct tokenizer_file *f, struct jscan j, const char *field,
				 const char *only)
{
	if (!j.text)
		return tokenizer_file_bad(f, "%s: missing", field);
	if (!jscan_string(&j, f->text, sizeof f->text, &f->text_len))
		return tokenizer_file_scanned(f, &j, field);
	if (only && strcmp(f->text, only) != 0)
		return tokenizer_file_bad(f, "%s: only \"%s\" is supported", field, only);
	return 0;
}

/* null, or a sequence of nothing. */
static int tokenizer_file_normalizer(struct tokenizer_file *f, struct jscan j)
{
	struct jscan type, list;
	const struct jscan_member m[] = { { "type", &type }, { "normalizers", &list } };
	int rc;

	if (tokenizer_file_absent(j))
		return 0;
	jscan_pick(&j, m, mem_countof(m));
	rc = tokenizer_file_scanned(f, &j, "normalizer");
	if (rc == 0)
		rc = tokenizer_file_string(f, type, "normalizer.type", "Sequence");
	if (rc < 0)
		return rc;
	if (!list.text)
		return tokenizer_file_bad(f, "normalizer.normalizers: missing");
	if (jscan_enter(&list, '[') && jscan_next(&list))
		return tokenizer_file_bad(f, "normalizer.normalizers: normalizing is not supported");
	return tokenizer_file_scanned(f, &list, "normalizer.normalizers");
}

static int tokenizer_file_decoder(struct tokenizer_file *f, struct jscan j)
{
	struct jscan type;
	const struct jscan_member m[] = { { "type", &type } };

	if (tokenizer_file_absent(j))
		return tokenizer_file_bad(f, "decoder: only ByteLevel is supported");
	if (!jscan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "decoder");
	return tokenizer_file_string(f, type, "decoder.type", "ByteLevel");
}

/* ---- pre_tokenizer ---- */

static int tokenizer_file_pattern(struct tokenizer_file *f, const char *pattern, bool literal,
				  const char *field)
{
	struct buf what = { 0 };
	int rc = pretok_add(&f->t->pretok, pattern, strlen(pattern), literal, &what);

	if (rc == RC_MODEL)
		tokenizer_file_bad(f, "%s: %s", field, buf_str(&what));
	buf_fini(&what);
	return rc;
}

/* {"type": "Split", "pattern": {"Regex": ...}, "behavior": "Isolated"}; "invert" changes nothing when all
 * pieces stay. */
static int tokenizer_file_split(struct tokenizer_file *f, struct jscan pattern, struct jscan behavior)
{
	struct jscan regex, string;
	const struct jscan_member m[] = { { "Regex", &regex }, { "String", &string } };
	int rc = tokenizer_file_string(f, behavior, "pre_tokenizer.behavior", "Isolated");

	if (rc < 0)
		return rc;
	if (!pattern.text)
		return tokenizer_file_bad(f, "pre_tokenizer.pattern: missing");
	if (!jscan_pick(&pattern, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &pattern, "pre_tokenizer.pattern");
	rc = tokenizer_file_string(f, string.text ? string : regex, "pre_tokenizer.pattern.Regex", NULL);
	return rc < 0 ? rc : tokenizer_file_pattern(f, f->text, string.text != NULL, "pre_tokenizer.pattern");
}

/* One step; *byte_level tells whether it, the last one, was ByteLevel. */
static int tokenizer_file_step(struct tokenizer_file *f, struct jscan *j, bool *byte_level)
{
	struct jscan type, pattern, behavior, prefix, regex;
	const struct jscan_member m[] = {
		{ "type", &type },         { "pattern", &pattern },
		{ "behavior", &behavior }, { "add_prefix_space", &prefix },
		{ "use_regex", &regex },
	};
	bool use = true;
	int rc;

	if (*byte_level)
		return tokenizer_file_bad(f, "pre_tokenizer: a step after ByteLevel is not supported");
	jscan_pick(j, m, mem_countof(m));
	rc = tokenizer_file_scanned(f, j, "pre_tokenizer");
	if (rc == 0)
		rc = tokenizer_file_string(f, type, "pre_tokenizer.type", NULL);
	if (rc < 0)
		return rc;
	if (strcmp(f->text, "Split") == 0)
		return tokenizer_file_split(f, pattern, behavior);
	if (strcmp(f->text, "ByteLevel") != 0)
		return tokenizer_file_bad(f, "pre_tokenizer.type: only Split and ByteLevel are supported");
	*byte_level = true;
	rc = tokenizer_file_no(f, prefix, "pre_tokenizer.add_prefix_space");
	if (rc == 0 && regex.text) /* absent, it is true */
		rc = tokenizer_file_flag(f, regex, "pre_tokenizer.use_regex", &use);
	if (rc == 0 && use)
		rc = tokenizer_file_pattern(f, TOKENIZER_FILE_GPT2, false, "pre_tokenizer.use_regex");
	return rc;
}

/* One step, or a sequence of them that ends with ByteLevel. */
static int tokenizer_file_pre_tokenizer(struct tokenizer_file *f, struct jscan j)
{
	struct jscan list, whole = j;
	const struct jscan_member m[] = { { "pretokenizers", &list } };
	bool byte_level = false;
	int rc = 0;

	if (tokenizer_file_absent(j))
		return tokenizer_file_bad(f, "pre_tokenizer: missing");
	if (!jscan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "pre_tokenizer");
	if (!list.text) {
		rc = tokenizer_file_step(f, &whole, &byte_level);
	} else {
		for (jscan_enter(&list, '['); rc == 0 && jscan_next(&list);)
			rc = tokenizer_file_step(f, &list, &byte_level);
		if (rc == 0)
			rc = tokenizer_file_scanned(f, &list, "pre_tokenizer.pretokenizers");
	}
	if (rc == 0 && !byte_level)
		return tokenizer_file_bad(f, "pre_tokenizer: only byte-level tokenizers are supported");
	return rc;
}

/* ---- the whole ---- */

/* null or "". */
static int tokenizer_file_empty(struct tokenizer_file *f, struct jscan j, const char *field)
{

	return tokenizer_file_absent(j) ? 0 : tokenizer_file_string(f, j, field, "");
}

/* With every byte in the vocabulary, unk_token, fuse_unk and byte_fallback have nothing to do. */
static int tokenizer_file_model(struct tokenizer_file *f, struct jscan j, const struct jscan *added)
{
	struct jscan type, vocab, merges, dropout, whole, prefix, suffix;
	const struct jscan_member m[] = {
		{ "type", &type },
		{ "vocab", &vocab },
		{ "merges", &merges },
		{ "dropout", &dropout },
		{ "ignore_merges", &whole },
		{ "continuing_subword_prefix", &prefix },
		{ "end_of_word_suffix", &suffix },
	};
	int rc = 0;

	if (!j.text)
		return tokenizer_file_bad(f, "model: missing");
	if (!jscan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "model");
	if (!vocab.text || !merges.text)
		return tokenizer_file_bad(f, "model.%s: missing", vocab.text ? "merges" : "vocab");
	if (!tokenizer_file_absent(dropout))
		return tokenizer_file_bad(f, "model.dropout: not supported");
	if (type.text)
		rc = tokenizer_file_string(f, type, "model.type", "BPE");
	if (rc == 0)
		rc = tokenizer_file_no(f, whole, "model.ignore_merges");
	if (rc == 0)
		rc = tokenizer_file_empty(f, prefix, "model.continuing_subword_prefix");
	if (rc == 0)
		rc = tokenizer_file_empty(f, suffix, "model.end_of_word_suffix");
	if (rc == 0)
		rc = tokenizer_tables_tokens(f, &vocab, added);
	return rc < 0 ? rc : tokenizer_tables_merges(f, &merges);
}

int tokenizer_file_parse(struct tokenizer *t, const char *json, size_t len, const char *name, struct buf *why)
{
	struct tokenizer_file f = { .t = t, .name = name, .why = why, .text_len = 0 };
	struct jscan root, added, normalizer, pre_tokenizer, decoder, model;
	const struct jscan_member m[] = {
		{ "added_tokens", &added },
		{ "normalizer", &normalizer },
		{ "pre_tokenizer", &pre_tokenizer },
		{ "decoder", &decoder },
		{ "model", &model },
	};
	int rc;

	jscan_init(&root, json, len);
	if (len > TOKENIZER_MAX_FILE)
		rc = tokenizer_file_bad(&f, "%zu bytes (limit %zu)", len, TOKENIZER_MAX_FILE);
	else if (!jscan_pick(&root, m, mem_countof(m)) || !jscan_done(&root))
		rc = tokenizer_file_scanned(&f, &root, "JSON");
	else
		rc = tokenizer_file_normalizer(&f, normalizer);
	if (rc == 0)
		rc = tokenizer_file_decoder(&f, decoder);
	if (rc == 0)
		rc = tokenizer_file_pre_tokenizer(&f, pre_tokenizer);
	if (rc == 0)
		rc = tokenizer_file_model(&f, model, &added);
	return rc;
}
