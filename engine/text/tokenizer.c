/* SPDX-License-Identifier: MIT
 * tokenizer.c - text to ids and back, by the parts that tokenizer_file.c read.
 * Threads: any, read-only after loading. Locks: none. */
#include "engine/text/tokenizer.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/text/tokenizer_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int token_ids_try(struct token_ids *t, int32_t id)
{
	if (t->n == t->cap) {
		int cap = t->cap ? t->cap * 2 : 64;
		int32_t *p = t->cap <= INT32_MAX / 2 ? realloc(t->id, (size_t)cap * sizeof *p) : NULL;

		if (!p)
			return -ENOMEM;
		t->id = p;
		t->cap = cap;
	}
	t->id[t->n++] = id;
	return 0;
}

void token_ids_add(struct token_ids *t, int32_t id)
{
	must_zero(token_ids_try(t, id));
}

void token_ids_fini(struct token_ids *t)
{
	free(t->id);
	*t = (struct token_ids){ 0 };
}

/* ---- loading ---- */

int tokenizer_parse(const char *json, size_t len, const char *name, struct tokenizer **ret_t, struct buf *why)
{
	struct tokenizer *t = mem_new(sizeof *t);
	int rc = tokenizer_file_parse(t, json, len, name, why);

	if (rc < 0)
		tokenizer_free(&t);
	else
		*ret_t = t;
	return rc;
}

int tokenizer_open(const char *path, struct tokenizer **ret_t, struct buf *why)
{
	struct mapfile m;
	int rc = mapfile_open(&m, path, why);

	if (rc < 0)
		return rc;
	if (m.size > TOKENIZER_MAX_FILE)
		rc = buf_why(why, RC_MODEL, "%s: %zu bytes (limit %zu)", path, m.size, TOKENIZER_MAX_FILE);
	else
		rc = tokenizer_parse(m.data ? m.data : "", m.size, path, ret_t, why);
	mapfile_close(&m);
	return rc;
}

void tokenizer_free(struct tokenizer **t)
{
	if (!*t)
		return;
	vocab_fini(&(*t)->vocab);
	bpe_fini(&(*t)->bpe);
	pretok_fini(&(*t)->pretok);
	for (int i = 0; i < TOKENIZER_ROUNDS; i++)
		added_fini(&(*t)->added[i]);
	free(*t);
	*t = NULL;
}

/* ---- looking at tokens ---- */

int tokenizer_vocab(const struct tokenizer *t)
{
	return t->vocab.n;
}

int32_t tokenizer_added(const struct tokenizer *t, const char *text)
{
	int32_t id = -1;

	for (int i = 0; i < TOKENIZER_ROUNDS && id < 0; i++)
		id = added_id(&t->added[i], text, strlen(text));
	return id;
}

static unsigned tokenizer_flags(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && id < t->vocab.n ? t->vocab.token[id].flags : 0;
}

bool tokenizer_is_added(const struct tokenizer *t, int32_t id)
{
	return (tokenizer_flags(t, id) & VOCAB_ADDED) != 0;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
	return (tokenizer_flags(t, id) & VOCAB_SPECIAL) != 0;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *ret_len)
{
	bool used = (tokenizer_flags(t, id) & VOCAB_USED) != 0;

	*ret_len = used ? t->vocab.token[id].len : 0;
	return used ? t->vocab.bytes + t->vocab.token[id].at : "";
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *id, int n, bool skip_special, struct buf *out)
{
	struct utf8_stream s = { 0 };
	size_t len;

	for (int i = 0; i < n; i++) {
		const char *bytes = tokenizer_bytes(t, id[i], &len);

		if (!skip_special || !tokenizer_is_special(t, id[i]))
			utf8_stream_put(&s, bytes, len, out);
	}
	utf8_stream_end(&s, out);
}

/* ---- encoding ---- */

struct tokenizer_call {
	const struct tokenizer *t;
	struct pretok_run *run;
	struct bpe_work work;
	struct token_ids *out;
};

static int tokenizer_word(void *arg, const char *word, size_t len)
{
	struct tokenizer_call *c = arg;

	return bpe_encode(&c->t->bpe, &c->work, word, len, c->out);
}

/* Cuts at the added tokens of this round; what lies between goes to the next, and after the last to the
 * words. */
static int tokenizer_cut(struct tokenizer_call *c, enum tokenizer_round round, const char *text, size_t len)
{
	const struct added_token *found;
	size_t from = 0, at;
	int rc;

	if (round == TOKENIZER_ROUNDS)
		return pretok_split(&c->t->pretok, c->run, text, len, tokenizer_word, c);
	do {
		found = added_search(&c->t->added[round], text, len, from, &at);
		rc = tokenizer_cut(c, round + 1, text + from, (found ? at : len) - from);
		if (rc < 0 || !found)
			return rc;
		from = at + found->len;
	} while ((rc = token_ids_try(c->out, found->id)) == 0);
	return rc;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool added,
		     struct token_ids *out)
{
	struct tokenizer_call c = { .t = t, .run = pretok_run_new(), .out = out };
	struct buf repaired = { 0 };
	int n = out->n, rc = c.run ? 0 : -ENOMEM;

	if (len > TOKENIZER_MAX_TEXT)
		rc = RC_TOO_LARGE;
	if (rc == 0 && utf8_valid(text, len) < len) {
		utf8_repair(text, len, &repaired);
		text = buf_str(&repaired);
		len = repaired.len;
	}
	if (rc == 0) {
		bpe_work_init(&c.work, len);
		rc = tokenizer_cut(&c, added ? TOKENIZER_RAW : TOKENIZER_ROUNDS, text, len);
	}
	if (rc < 0)
		out->n = n;
	bpe_work_fini(&c.work);
	pretok_run_free(&c.run);
	buf_fini(&repaired);
	return rc;
}
