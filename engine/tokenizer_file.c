/* SPDX-License-Identifier: MIT
 * tokenizer_file.c - reads tokenizer.json; what is not implemented is refused by name, never ignored.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/tokenizer.h"
#include "engine/tokenizer_impl.h"

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

int tokenizer_file_scanned(struct tokenizer_file *f, const struct json_scan *j, const char *field)
{
	if (!j->error)
		return 0;
	return tokenizer_file_bad(f, "%s: expected %s at byte %zu", field, j->error, j->error_at);
}

bool tokenizer_file_absent(struct json_scan j)
{
	return !j.text || json_scan_kind(&j) == 'n';
}

int tokenizer_file_flag(struct tokenizer_file *f, struct json_scan j, const char *field, bool *ret_value)
{
	*ret_value = false;
	if (tokenizer_file_absent(j))
		return 0;
	json_scan_bool(&j, ret_value);
	return tokenizer_file_scanned(f, &j, field);
}

/* A flag that may only be absent, null or false. */
static int tokenizer_file_no(struct tokenizer_file *f, struct json_scan j, const char *field)
{
	bool set;
	int rc = tokenizer_file_flag(f, j, field, &set);

	return rc == 0 && set ? tokenizer_file_bad(f, "%s: true is not supported", field) : rc;
}

/* A string; refused unless it is `only` (when given). */
static int tokenizer_file_string(struct tokenizer_file *f, struct json_scan j, const char *field, const char *only,
				 struct json_text *ret_text)
{
	if (!j.text)
		return tokenizer_file_bad(f, "%s: missing", field);
	if (!json_scan_string(&j, ret_text))
		return tokenizer_file_scanned(f, &j, field);
	if (only && !json_text_is(ret_text, only))
		return tokenizer_file_bad(f, "%s: only \"%s\" is supported", field, only);
	return 0;
}

/* null, or a sequence of nothing. */
static int tokenizer_file_normalizer(struct tokenizer_file *f, struct json_scan j)
{
	struct json_scan type, list;
	const struct json_member m[] = { { "type", &type }, { "normalizers", &list } };
	struct json_text t;
	int rc;

	if (tokenizer_file_absent(j))
		return 0;
	json_scan_pick(&j, m, mem_countof(m));
	rc = tokenizer_file_scanned(f, &j, "normalizer");
	if (rc == 0)
		rc = tokenizer_file_string(f, type, "normalizer.type", "Sequence", &t);
	if (rc < 0)
		return rc;
	if (!list.text)
		return tokenizer_file_bad(f, "normalizer.normalizers: missing");
	if (json_scan_array(&list) && json_scan_element(&list))
		return tokenizer_file_bad(f, "normalizer.normalizers: normalizing is not supported");
	return tokenizer_file_scanned(f, &list, "normalizer.normalizers");
}

static int tokenizer_file_decoder(struct tokenizer_file *f, struct json_scan j)
{
	struct json_scan type;
	const struct json_member m[] = { { "type", &type } };
	struct json_text t;

	if (tokenizer_file_absent(j))
		return tokenizer_file_bad(f, "decoder: only ByteLevel is supported");
	if (!json_scan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "decoder");
	return tokenizer_file_string(f, type, "decoder.type", "ByteLevel", &t);
}

/* ---- pre_tokenizer ---- */

static int tokenizer_file_pattern(struct tokenizer_file *f, const struct json_text *t, bool literal, const char *field)
{
	struct buf what = { 0 };
	int rc = pretok_add(&f->t->pretok, t->s, t->len, literal, &what);

	if (rc == RC_MODEL)
		tokenizer_file_bad(f, "%s: %s", field, buf_str(&what));
	buf_fini(&what);
	return rc;
}

/* {"type": "Split", "pattern": {"Regex": ...}, "behavior": "Isolated"}; "invert" changes nothing when all pieces stay. */
static int tokenizer_file_split(struct tokenizer_file *f, struct json_scan pattern, struct json_scan behavior)
{
	struct json_scan regex, string;
	const struct json_member m[] = { { "Regex", &regex }, { "String", &string } };
	struct json_text t;
	int rc = tokenizer_file_string(f, behavior, "pre_tokenizer.behavior", "Isolated", &t);

	if (rc < 0)
		return rc;
	if (!pattern.text)
		return tokenizer_file_bad(f, "pre_tokenizer.pattern: missing");
	if (!json_scan_pick(&pattern, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &pattern, "pre_tokenizer.pattern");
	rc = tokenizer_file_string(f, string.text ? string : regex, "pre_tokenizer.pattern.Regex", NULL, &t);
	return rc < 0 ? rc : tokenizer_file_pattern(f, &t, string.text != NULL, "pre_tokenizer.pattern");
}

/* One step; *byte_level tells whether it, the last one, was ByteLevel. */
static int tokenizer_file_step(struct tokenizer_file *f, struct json_scan *j, bool *byte_level)
{
	struct json_scan type, pattern, behavior, prefix, regex;
	const struct json_member m[] = {
		{ "type", &type }, { "pattern", &pattern }, { "behavior", &behavior },
		{ "add_prefix_space", &prefix }, { "use_regex", &regex },
	};
	const struct json_text gpt2 = { TOKENIZER_FILE_GPT2, strlen(TOKENIZER_FILE_GPT2) };
	struct json_text t;
	bool use = true;
	int rc;

	if (*byte_level)
		return tokenizer_file_bad(f, "pre_tokenizer: a step after ByteLevel is not supported");
	json_scan_pick(j, m, mem_countof(m));
	rc = tokenizer_file_scanned(f, j, "pre_tokenizer");
	if (rc == 0)
		rc = tokenizer_file_string(f, type, "pre_tokenizer.type", NULL, &t);
	if (rc < 0)
		return rc;
	if (json_text_is(&t, "Split"))
		return tokenizer_file_split(f, pattern, behavior);
	if (!json_text_is(&t, "ByteLevel"))
		return tokenizer_file_bad(f, "pre_tokenizer.type: only Split and ByteLevel are supported");
	*byte_level = true;
	rc = tokenizer_file_no(f, prefix, "pre_tokenizer.add_prefix_space");
	if (rc == 0 && regex.text) /* absent, it is true */
		rc = tokenizer_file_flag(f, regex, "pre_tokenizer.use_regex", &use);
	return rc < 0 || !use ? rc : tokenizer_file_pattern(f, &gpt2, false, "pre_tokenizer.use_regex");
}

/* One step, or a sequence of them that ends with ByteLevel. */
static int tokenizer_file_pre_tokenizer(struct tokenizer_file *f, struct json_scan j)
{
	struct json_scan list, whole = j;
	const struct json_member m[] = { { "pretokenizers", &list } };
	bool byte_level = false;
	int rc = 0;

	if (tokenizer_file_absent(j))
		return tokenizer_file_bad(f, "pre_tokenizer: missing");
	if (!json_scan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "pre_tokenizer");
	if (!list.text) {
		rc = tokenizer_file_step(f, &whole, &byte_level);
	} else {
		for (json_scan_array(&list); rc == 0 && json_scan_element(&list);)
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
static int tokenizer_file_empty(struct tokenizer_file *f, struct json_scan j, const char *field)
{
	struct json_text t;

	return tokenizer_file_absent(j) ? 0 : tokenizer_file_string(f, j, field, "", &t);
}

/* With every byte in the vocabulary, unk_token, fuse_unk and byte_fallback have nothing to do. */
static int tokenizer_file_model(struct tokenizer_file *f, struct json_scan j, const struct json_scan *added)
{
	struct json_scan type, vocab, merges, dropout, whole, prefix, suffix;
	const struct json_member m[] = {
		{ "type", &type }, { "vocab", &vocab }, { "merges", &merges }, { "dropout", &dropout },
		{ "ignore_merges", &whole }, { "continuing_subword_prefix", &prefix }, { "end_of_word_suffix", &suffix },
	};
	struct json_text t;
	int rc = 0;

	if (!j.text)
		return tokenizer_file_bad(f, "model: missing");
	if (!json_scan_pick(&j, m, mem_countof(m)))
		return tokenizer_file_scanned(f, &j, "model");
	if (!vocab.text || !merges.text)
		return tokenizer_file_bad(f, "model.%s: missing", vocab.text ? "merges" : "vocab");
	if (!tokenizer_file_absent(dropout))
		return tokenizer_file_bad(f, "model.dropout: not supported");
	if (type.text)
		rc = tokenizer_file_string(f, type, "model.type", "BPE", &t);
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
	struct tokenizer_file f = { .t = t, .name = name, .why = why };
	struct json_scan root, added, normalizer, pre_tokenizer, decoder, model;
	const struct json_member m[] = {
		{ "added_tokens", &added }, { "normalizer", &normalizer }, { "pre_tokenizer", &pre_tokenizer },
		{ "decoder", &decoder }, { "model", &model },
	};
	int rc;

	json_scan_init(&root, json, len, &f.scratch);
	if (len > TOKENIZER_MAX_FILE)
		rc = tokenizer_file_bad(&f, "%zu bytes (limit %zu)", len, TOKENIZER_MAX_FILE);
	else if (!json_scan_pick(&root, m, mem_countof(m)) || !json_scan_end(&root))
		rc = tokenizer_file_scanned(&f, &root, "JSON");
	else
		rc = tokenizer_file_normalizer(&f, normalizer);
	if (rc == 0)
		rc = tokenizer_file_decoder(&f, decoder);
	if (rc == 0)
		rc = tokenizer_file_pre_tokenizer(&f, pre_tokenizer);
	if (rc == 0)
		rc = tokenizer_file_model(&f, model, &added);
	buf_fini(&f.scratch);
	return rc;
}
