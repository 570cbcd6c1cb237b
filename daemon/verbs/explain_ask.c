/* SPDX-License-Identifier: MIT
 * explain_ask.c - what io.dsv4.Kernels.Explain is asked: which tokens, where the text is in them, which of them asks.
 * Threads: control. Locks: none. */
#include "daemon/verbs/explain_ask.h"
#include "daemon/daemon.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the request ---- */

/* Output token N is computed from the position before its own. */
static uint64_t explain_ask_generation(struct record *rec, int position, int n_prompt)
{
	struct record_set *set;
	int n = record_sets(rec, &set), output = position < n_prompt ? 0 : position - n_prompt + 1;
	uint64_t generation = set[0].generation;

	for (int i = 0; i < n; i++)
		if (set[i].prompt <= position && set[i].output <= output)
			generation = set[i].generation;
	free(set);
	return generation;
}

/* ---- where a text is ---- */

/* What may help who did not find it. */
static void explain_ask_hint(const struct explain_ask *a, const struct tokenizer *t, const char *text,
			     struct buf *why)
{
	struct token_span first;
	int found = 0;

	if (token_find(t, a->id, a->n_prompt, text, strlen(text), TOKEN_FIND_LIKE, &first, 1, &found) == 0 && found)
		buf_printf(why, "; with other white space or case it is there, %d time%s, first from token %d on",
			   found, found == 1 ? "" : "s", first.begin);
	else if (token_find(t, a->id + a->n_prompt, a->n - a->n_prompt, text, strlen(text), TOKEN_FIND_BYTES, &first, 1,
			    &found) == 0 && found)
		buf_adds(why, "; it is in the output");
}

/* All places in the prompt, at least one; a malloc'd array, caller frees. */
static int explain_ask_places(const struct explain_ask *a, const struct tokenizer *t, const char *name,
			      const char *text, struct token_span **ret_span, int *ret_n, struct buf *why)
{
	size_t len = strlen(text);
	int r;

	if (len < 1 || len > EXPLAIN_MAX_TEXT)
		return buf_why(why, RC_INVALID, "%s: %zu bytes, must be 1 to %d", name, len, EXPLAIN_MAX_TEXT);
	r = token_find(t, a->id, a->n_prompt, text, len, TOKEN_FIND_BYTES, NULL, 0, ret_n);
	if (r == 0 && *ret_n == 0) {
		r = buf_why(why, RC_NOT_FOUND, "%s: not in the prompt", name);
		explain_ask_hint(a, t, text, why);
	}
	if (r)
		return r;
	*ret_span = mem_try((size_t)*ret_n, sizeof **ret_span);
	if (!*ret_span)
		return -ENOMEM;
	return token_find(t, a->id, a->n_prompt, text, len, TOKEN_FIND_BYTES, *ret_span, *ret_n, ret_n);
}

/* ---- who asks ---- */

/* "prompt": its last token, from which the first output token is computed; "output:N": from which output token N is, as
 * it is counted in RequestTokens and in Compare; "end": from which the last one is; "best":
 * one of these, whichever has the text ranked best. */
static int explain_ask_at(struct explain_ask *a, const char *at, struct buf *why)
{
	int n_out = a->n - a->n_prompt;
	char *end;
	long n;

	a->position = a->n_prompt - 1;
	if (!strcmp(at, "prompt"))
		return 0;
	a->best = !strcmp(at, "best");
	if (a->best || !strcmp(at, "end")) {
		a->position = n_out ? a->n - 2 : a->position;
		if (a->best && n_out > EXPLAIN_MAX_BEST)
			a->position = a->n_prompt - 2 + EXPLAIN_MAX_BEST;
		return 0;
	}
	if (strncmp(at, "output:", 7) != 0)
		return buf_why(why, RC_INVALID, "at: \"%.32s\" is none of prompt, output:N, end, best", at);
	errno = 0;
	n = strtol(at + 7, &end, 10);
	if (errno || end == at + 7 || *end || n < 0 || n >= (n_out ? n_out : 1))
		return buf_why(why, RC_INVALID, "at: \"%.32s\": there are %d output tokens, counted from 0", at, n_out);
	a->position = a->n_prompt - 1 + (int)n;
	return 0;
}

static int explain_ask_who(struct explain_ask *a, const struct call *c, struct buf *why)
{
	const char *at = call_string(c, "at", NULL), *asking = call_string(c, "asking", NULL);
	struct token_span *span = NULL;
	int n, r;

	if (at && asking)
		return buf_why(why, RC_INVALID, "at, asking: one of the two");
	if (!asking)
		return explain_ask_at(a, at ? at : "prompt", why);
	r = explain_ask_places(a, engine_tokenizer(c->daemon->engine), "asking", asking, &span, &n, why);
	if (r == 0)
		a->position = span[n - 1].end - 1;
	free(span);
	return r;
}

/* ---- the whole ---- */

/* Those that the asking token can have seen, or the one that is named. */
static int explain_ask_choose(struct explain_ask *a, const struct token_span *span, long long only, struct buf *why)
{
	if (only < 0 || only > a->n_found)
		return buf_why(why, RC_INVALID, "occurrence: must be within 1 to %d", a->n_found);
	for (int i = 0; i < a->n_found && a->n_place < EXPLAIN_MAX_PLACES; i++)
		if (span[i].begin <= a->position && (!only || only == i + 1)) {
			a->place[a->n_place] = span[i];
			if (span[i].end > a->position + 1)
				a->place[a->n_place].end = a->position + 1;
			a->number[a->n_place++] = i + 1;
		}
	if (!a->n_place)
		return buf_why(why, RC_INVALID, "text: it stands behind the position that asks, token %d", a->position);
	return 0;
}

static int explain_ask_text(struct explain_ask *a, const struct call *c, struct buf *why)
{
	struct token_span *span = NULL;
	int r = explain_ask_places(a, engine_tokenizer(c->daemon->engine), "text", call_string(c, "text", ""), &span,
				   &a->n_found, why);

	if (r == 0)
		r = explain_ask_choose(a, span, call_int(c, "occurrence", 0), why);
	free(span);
	return r;
}

int explain_ask_fill(struct explain_ask *a, const struct call *c, struct buf *why)
{
	const char *id = call_string(c, "request", NULL);
	struct record *rec;
	struct record_view v;
	int r;

	if (!id || !call_string(c, "text", NULL))
		return buf_why(why, RC_INVALID, "request, text: both are needed");
	rec = engine_record(c->daemon->engine, id);
	if (!rec)
		return buf_why(why, RC_NOT_FOUND, "no request '%.96s': unknown, or no longer kept", id);
	record_view(rec, &v);
	a->numerics = v.numerics;
	a->n = record_tokens(rec, &a->id, &a->n_prompt);
	r = a->n_prompt ? explain_ask_who(a, c, why) : buf_why(why, RC_INVALID, "request: its prompt is empty");
	r = r ? r : explain_ask_text(a, c, why);
	if (r == 0)
		a->generation = explain_ask_generation(rec, a->position, a->n_prompt);
	record_unref(&rec);
	return r;
}

void explain_ask_fini(struct explain_ask *a)
{
	free(a->id);
	*a = (struct explain_ask){ 0 };
}
