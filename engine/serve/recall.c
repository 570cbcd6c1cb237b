/* SPDX-License-Identifier: MIT
 * recall.c - what the server itself still knows of answers that a client gives back incompletely: their reasoning.
 * Threads: one at a time per object. Locks: record, while it is made and asked. */
#include "engine/serve/recall.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/serve/recall_put.h"
#include "engine/serve/record.h"
#include "engine/text/completion.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct recall {
	const struct tokenizer *tokenizer;
	struct record **record;   /* [n] */
	int n;
	json_t *calls;            /* id: index of its record */
};

static void recall_add(struct recall *r, int index)
{
	struct buf ids = { 0 };

	record_calls(r->record[index], &ids);
	for (size_t at = 0; at < ids.len; at += strlen(ids.data + at) + 1)
		must_zero(json_object_set_new(r->calls, ids.data + at, json_integer(index)));
	buf_fini(&ids);
}

struct recall *recall_new(struct ring *ring, const struct tokenizer *t)
{
	struct recall *r = mem_new(sizeof *r);
	int max = ring_count(ring);

	r->tokenizer = t;
	r->record = mem_grow(NULL, (size_t)max + 1, sizeof(struct record *));
	r->n = ring_list(ring, r->record, max);
	r->calls = json_object();
	must(r->calls);
	for (int i = 0; i < r->n; i++)
		recall_add(r, i);
	return r;
}

void recall_free(struct recall **pr)
{
	struct recall *r = *pr;

	if (!r)
		return;
	*pr = NULL;
	for (int i = 0; i < r->n; i++)
		record_unref(&r->record[i]);
	json_decref(r->calls);
	free(r->record);
	free(r);
}

static void recall_event(void *arg, const struct completion_event *ev)
{
	if (ev->kind == COMPLETION_REASONING)
		buf_add(arg, ev->text, ev->len);
}

/* Parsed again from its tokens, which say what is a marker and what only spells one. */
static void recall_parse(const struct tokenizer *t, const int32_t *id, int n, struct buf *out)
{
	struct completion_options o = { .mode = COMPLETION_THINKING, .emit = recall_event, .arg = out };
	struct completion_verdict v;
	struct completion *c = NULL;

	must_zero(completion_new(&o, &c, NULL));
	for (int i = 0; i < n; i++) {
		struct completion_token ct = { .added = tokenizer_is_added(t, id[i]),
					       .special = tokenizer_is_special(t, id[i]) };

		ct.bytes = tokenizer_bytes(t, id[i], &ct.len);
		completion_put(c, &ct);
	}
	completion_end(c, COMPLETION_CANCELLED, &v);
	completion_free(&c);
}

bool recall_reasoning(struct recall *r, const char *call_id, struct buf *out)
{
	const json_t *index = json_object_get(r->calls, call_id);
	int32_t *ids;
	int n, n_prompt;

	if (!index)
		return false;
	n = record_tokens(r->record[json_integer_value(index)], &ids, &n_prompt);
	/* An answer that was not asked to reason has none. */
	if (n_prompt > 0 && ids[n_prompt - 1] == tokenizer_added(r->tokenizer, "<think>"))
		recall_parse(r->tokenizer, ids + n_prompt, n - n_prompt, out);
	free(ids);
	return true;
}
