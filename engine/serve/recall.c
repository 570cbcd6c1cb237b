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

struct recall_answer {
	struct record *record;
	struct buf reasoning;     /* once it is parsed */
	int tokens;               /* of the answer; -1: not parsed yet */
};

struct recall {
	const struct tokenizer *tokenizer;
	struct recall_answer *answer; /* [n] */
	int n;
	int64_t room;             /* tokens of answers that may still be given out */
	json_t *calls;            /* id: index of its answer */
};

static void recall_add(struct recall *r, int index)
{
	struct buf ids = { 0 };

	record_calls(r->answer[index].record, &ids);
	for (size_t at = 0; at < ids.len; at += strlen(ids.data + at) + 1)
		must_zero(json_object_set_new(r->calls, ids.data + at, json_integer(index)));
	buf_fini(&ids);
}

struct recall *recall_new(struct ring *ring, const struct tokenizer *t, const char *label, int max_context)
{
	struct recall *r = mem_new(sizeof *r);
	int max = ring_count(ring), n;
	struct record **all = mem_grow(NULL, (size_t)max + 1, sizeof *all);

	r->tokenizer = t;
	r->room = max_context;
	r->answer = mem_grow(NULL, (size_t)max + 1, sizeof *r->answer);
	r->calls = json_object();
	must(r->calls);
	n = ring_list(ring, all, max);
	for (int i = 0; i < n; i++) {
		if (!record_is_of(all[i], label)) {
			record_unref(&all[i]);
			continue;
		}
		r->answer[r->n] = (struct recall_answer){ .record = all[i], .tokens = -1 };
		recall_add(r, r->n++);
	}
	free(all);
	return r;
}

void recall_free(struct recall **pr)
{
	struct recall *r = *pr;

	if (!r)
		return;
	*pr = NULL;
	for (int i = 0; i < r->n; i++) {
		record_unref(&r->answer[i].record);
		buf_fini(&r->answer[i].reasoning);
	}
	json_decref(r->calls);
	free(r->answer);
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

/* Once for each answer: it may have made many calls, and is as long as it likes. */
static void recall_read(struct recall *r, struct recall_answer *a)
{
	int32_t *ids;
	int n, n_prompt;

	if (a->tokens >= 0)
		return;
	n = record_tokens(a->record, &ids, &n_prompt);
	a->tokens = 0;
	/* An answer that was not asked to reason has none. */
	if (n_prompt > 0 && ids[n_prompt - 1] == tokenizer_added(r->tokenizer, "<think>")) {
		a->tokens = n - n_prompt;
		if (a->tokens <= r->room)
			recall_parse(r->tokenizer, ids + n_prompt, a->tokens, &a->reasoning);
	}
	free(ids);
}

bool recall_reasoning(struct recall *r, const char *call_id, struct buf *out)
{
	const json_t *index = json_object_get(r->calls, call_id);
	struct recall_answer *a;

	if (!index)
		return false;
	a = &r->answer[json_integer_value(index)];
	must_zero(json_object_del(r->calls, call_id));
	recall_read(r, a);
	if (a->tokens > r->room)
		return false;
	r->room -= a->tokens;
	buf_add(out, buf_str(&a->reasoning), a->reasoning.len);
	return true;
}
