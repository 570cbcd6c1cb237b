/* SPDX-License-Identifier: MIT
 * tokenizer_tables.c - the large parts of tokenizer.json: vocabulary, added tokens and merges.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/text/tokenizer_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TOKENIZER_TABLES_MAX_MERGES (1 << 21)

/* A token as the file gives it: a member of model.vocab, or an element of added_tokens. */
struct tokenizer_entry {
	int64_t id;
	const char *text;
	size_t len;
	int index; /* in added_tokens; -1: of the vocabulary */
	bool special, normalized;
};

/* Two passes over the same entries: sizes first, then the tables. */
struct tokenizer_tables {
	struct tokenizer_file *f;
	int (*entry)(struct tokenizer_tables *s, const struct tokenizer_entry *e);
	int64_t max_id;
	size_t n_bytes;
};

static int tokenizer_tables_count(struct tokenizer_tables *s, const struct tokenizer_entry *e)
{
	if (e->id < 0 || e->id >= VOCAB_MAX)
		return tokenizer_file_bad(s->f, "%s: id %lld (limit %d)",
					  e->index < 0 ? "model.vocab" : "added_tokens", (long long)e->id,
					  VOCAB_MAX - 1);
	if (e->index >= 0 && (e->len == 0 || e->len > ADDED_MAX_LEN || e->index >= ADDED_MAX))
		return tokenizer_file_bad(s->f,
					  "added_tokens[%d].content: %zu bytes (limit %d, and %d tokens)",
					  e->index, e->len, ADDED_MAX_LEN, ADDED_MAX);
	s->n_bytes += e->len;
	if (e->id > s->max_id)
		s->max_id = e->id;
	return 0;
}

/* An added token may repeat one of the vocabulary, under its id. */
static int tokenizer_tables_fill_added(struct tokenizer_tables *s, const struct tokenizer_entry *e)
{
	struct tokenizer *t = s->f->t;
	unsigned flags = VOCAB_ADDED | (e->special ? VOCAB_SPECIAL : 0);
	int32_t id = (int32_t)e->id, known = vocab_find(&t->vocab, e->text, e->len);

	if (known < 0 && vocab_add(&t->vocab, id, e->text, e->len, flags) < 0)
		return tokenizer_file_bad(s->f, "added_tokens[%d].id: %d is the id of another token",
					  e->index, id);
	if (known >= 0 && (known != id || (t->vocab.token[id].flags & VOCAB_ADDED)))
		return tokenizer_file_bad(s->f, "added_tokens[%d].content: the token has id %d already",
					  e->index, known);
	t->vocab.token[id].flags |= (uint8_t)flags;
	added_add(&t->added[e->normalized ? TOKENIZER_NORMALIZED : TOKENIZER_RAW], e->text, e->len, id);
	return 0;
}

static int tokenizer_tables_fill(struct tokenizer_tables *s, const struct tokenizer_entry *e)
{
	if (e->index >= 0)
		return tokenizer_tables_fill_added(s, e);
	if (vocab_add(&s->f->t->vocab, (int32_t)e->id, e->text, e->len, 0) < 0)
		return tokenizer_file_bad(s->f, "model.vocab: id %lld or its token is there twice",
					  (long long)e->id);
	return 0;
}

static int tokenizer_tables_vocab(struct tokenizer_tables *s, struct jscan j)
{
	struct tokenizer_entry e = { .text = s->f->text, .index = -1 };
	int rc = 0;

	for (jscan_enter(&j, '{'); rc == 0 && jscan_key(&j, s->f->text, sizeof s->f->text, &e.len);)
		if (jscan_count(&j, &e.id))
			rc = s->entry(s, &e);
	return rc < 0 ? rc : tokenizer_file_scanned(s->f, &j, "model.vocab");
}

/* A member of added_tokens[i], for messages. */
static const char *tokenizer_tables_field(char out[64], int index, const char *member)
{
	snprintf(out, 64, "added_tokens[%d].%s", index, member);
	return out;
}

static int tokenizer_tables_added_one(struct tokenizer_tables *s, struct jscan *j, int index)
{
	struct jscan id, content, special, normalized, strict[3];
	const struct jscan_member m[] = {
		{ "id", &id },
		{ "content", &content },
		{ "special", &special },
		{ "normalized", &normalized },
		{ "single_word", &strict[0] },
		{ "lstrip", &strict[1] },
		{ "rstrip", &strict[2] },
	};
	struct tokenizer_entry e = { .text = s->f->text, .index = index };
	char field[64];
	bool set = false;
	int rc;

	if (!jscan_pick(j, m, mem_countof(m)))
		return tokenizer_file_scanned(s->f, j, tokenizer_tables_field(field, index, "*"));
	if (!id.text || !content.text)
		return tokenizer_file_bad(s->f, "added_tokens[%d].%s: missing", index,
					  id.text ? "content" : "id");
	rc = tokenizer_file_flag(s->f, special, tokenizer_tables_field(field, index, "special"), &e.special);
	if (rc == 0)
		rc = tokenizer_file_flag(s->f, normalized, tokenizer_tables_field(field, index, "normalized"),
					 &e.normalized);
	for (int i = 0; i < 3 && rc == 0 && !set; i++)
		rc = tokenizer_file_flag(s->f, strict[i], tokenizer_tables_field(field, index, m[4 + i].name),
					 &set);
	if (rc == 0 && set)
		rc = tokenizer_file_bad(s->f, "%s: true is not supported", field);
	if (rc == 0 && !jscan_count(&id, &e.id))
		rc = tokenizer_file_scanned(s->f, &id, tokenizer_tables_field(field, index, "id"));
	if (rc == 0 && !jscan_string(&content, s->f->text, sizeof s->f->text, &e.len))
		rc = tokenizer_file_scanned(s->f, &content, tokenizer_tables_field(field, index, "content"));
	return rc < 0 ? rc : s->entry(s, &e);
}

static int tokenizer_tables_added(struct tokenizer_tables *s, struct jscan j)
{
	int rc = 0, n = 0;

	if (tokenizer_file_absent(j))
		return 0;
	for (jscan_enter(&j, '['); rc == 0 && jscan_next(&j); n++)
		rc = tokenizer_tables_added_one(s, &j, n);
	return rc < 0 ? rc : tokenizer_file_scanned(s->f, &j, "added_tokens");
}

int tokenizer_tables_tokens(struct tokenizer_file *f, const struct jscan *vocab, const struct jscan *added)
{
	struct tokenizer_tables s = { .f = f, .entry = tokenizer_tables_count, .max_id = -1 };
	struct tokenizer *t = f->t;
	int rc = tokenizer_tables_vocab(&s, *vocab);

	if (rc == 0)
		rc = tokenizer_tables_added(&s, *added);
	if (rc == 0)
		rc = vocab_init(&t->vocab, (int)s.max_id + 1, s.n_bytes);
	s.entry = tokenizer_tables_fill;
	if (rc == 0)
		rc = tokenizer_tables_vocab(&s, *vocab);
	if (rc == 0)
		rc = tokenizer_tables_added(&s, *added);
	for (int i = 0; i < TOKENIZER_ROUNDS; i++)
		added_sort(&t->added[i]);
	for (int b = 0; b < 256 && rc == 0; b++) {
		int32_t id = vocab_find_byte(&t->vocab, (unsigned char)b);

		if (id < 0 || (t->vocab.token[id].flags & VOCAB_ADDED))
			return tokenizer_file_bad(f, "model.vocab: no plain token for byte 0x%02X", b);
		t->bpe.byte_id[b] = id;
	}
	return rc;
}

/* ---- merges ---- */

/* "left right" or ["left", "right"]: reads both names into f->text, one after the other. */
static bool tokenizer_tables_pair(struct tokenizer_file *f, struct jscan *j, size_t *ret_left)
{
	char *space;
	size_t len = 0;
	int n;

	f->text_len = 0;
	if (jscan_peek(j) == '"') {
		if (!jscan_string(j, f->text, sizeof f->text, &f->text_len) ||
		    !(space = strchr(f->text, ' ')))
			return false;
		*ret_left = (size_t)(space - f->text);
		memmove(space, space + 1, f->text_len-- - *ret_left); /* with the NUL */
		return true;
	}
	for (n = 0, jscan_enter(j, '['); jscan_next(j); n++) {
		*ret_left = f->text_len;
		if (n == 2 || !jscan_string(j, f->text + f->text_len, sizeof f->text - f->text_len, &len))
			return false;
		f->text_len += len;
	}
	return n == 2 && !j->error;
}

static int tokenizer_tables_merge(struct tokenizer_file *f, struct jscan *j, int rank)
{
	const struct vocab *v = &f->t->vocab;
	struct bpe_merge m = { .rank = rank };
	size_t left;

	if (!tokenizer_tables_pair(f, j, &left))
		return tokenizer_file_bad(
			f, "model.merges[%d]: expected \"left right\" or [\"left\", \"right\"]", rank);
	m.left = vocab_find(v, f->text, left);
	m.right = vocab_find(v, f->text + left, f->text_len - left);
	m.id = vocab_find(v, f->text, f->text_len);
	if (m.left < 0 || m.right < 0 || m.id < 0)
		return tokenizer_file_bad(f, "model.merges[%d]: %s is not in the vocabulary", rank,
					  m.left < 0    ? "its left side"
					  : m.right < 0 ? "its right side"
							: "the result");
	/* Plain text must never become a control token, so no merge may end in one. */
	if (!(v->token[m.id].flags & VOCAB_ADDED))
		bpe_add(&f->t->bpe, &m);
	return 0;
}

int tokenizer_tables_merges(struct tokenizer_file *f, const struct jscan *merges)
{
	struct jscan j = *merges;
	int n = 0, rc;

	for (jscan_enter(&j, '['); jscan_next(&j); n++)
		jscan_skip(&j);
	rc = tokenizer_file_scanned(f, &j, "model.merges");
	if (rc == 0 && n > TOKENIZER_TABLES_MAX_MERGES)
		rc = tokenizer_file_bad(f, "model.merges: %d merges (limit %d)", n,
					TOKENIZER_TABLES_MAX_MERGES);
	if (rc == 0)
		rc = bpe_init(&f->t->bpe, n);
	j = *merges;
	n = 0;
	for (jscan_enter(&j, '['); rc == 0 && jscan_next(&j); n++)
		rc = tokenizer_tables_merge(f, &j, n);
	vocab_drop_names(&f->t->vocab);
	return rc;
}
