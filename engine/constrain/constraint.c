/* SPDX-License-Identifier: MIT
 * constraint.c - what the rest of an answer must be: where it is now, and the tokens that may come next.
 * Threads: constraint_new by who submits, then the engine thread. Locks: none. */
#include "engine/constrain/constraint.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/constrain/calls.h"
#include "engine/constrain/constraint_grammar.h"
#include "engine/constrain/constraint_vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Masks kept, by the state's number; a power of two. Texts come back to few states: in a string, after a comma. */
#define CONSTRAINT_MASKS 64
/* How many ways are followed to make a mask, and what that may cost: some of what costs more, in the end one. */
static const struct { uint32_t ways, work; } constraint_tries[] = {
	{ AUTOMATON_MAX_WAYS, CONSTRAINT_MAX_WORK },
	{ 16, CONSTRAINT_MAX_WORK / 4 },
	{ 1, CONSTRAINT_MAX_WORK / 2 },
};
/* After a mask that cost too much so many have less to spend. */
#define CONSTRAINT_DEAR 16
/* How far a text is looked ahead where only one can come. */
#define CONSTRAINT_AHEAD 256

struct constraint_kept {
	uint32_t state;
	uint64_t *mask;        /* NULL: nothing kept yet */
	bool valid;
};

struct constraint {
	const struct constraint_vocab *v;
	struct grammar grammar;
	struct automaton *automaton;
	uint32_t state;
	bool thinking;         /* before </think>: it has not begun */
	bool watching;         /* for a block of calls, before which anything may come */
	int dear;              /* masks that are given less from the beginning, since one cost too much */
	bool one_way;          /* states have one way each: to be forgotten, since more of them may do by now */
	bool may_open;         /* watching, and the text ends in "<": the marker would open the block */
	struct constraint_kept kept[CONSTRAINT_MASKS];
};

int constraint_new(const struct constraint_vocab *v, const struct constraint_options *o, struct constraint **ret_c,
		   struct buf *why)
{
	struct constraint *c;
	int rc;

	if (!constraint_grammar_wanted(o)) {
		*ret_c = NULL;
		return 0;
	}
	c = mem_new(sizeof *c);
	c->v = v;
	c->thinking = o->thinking;
	c->watching = constraint_grammar_watches(o);
	grammar_init(&c->grammar);
	rc = constraint_grammar(v, o, &c->grammar, why);
	if (rc) {
		constraint_free(&c);
		return rc;
	}
	c->automaton = automaton_new(&c->grammar);
	c->state = automaton_start(c->automaton);
	must(c->state != AUTOMATON_DEAD && c->state != AUTOMATON_FULL);
	*ret_c = c;
	return 0;
}

void constraint_free(struct constraint **pc)
{
	struct constraint *c = *pc;
	size_t i;

	if (!c)
		return;
	*pc = NULL;
	for (i = 0; i < CONSTRAINT_MASKS; i++)
		free(c->kept[i].mask);
	automaton_free(&c->automaton);
	grammar_fini(&c->grammar);
	free(c);
}

/* ---- where only one text can come ---- */

/* Appends what must come next, up to the next tag marker; true when it ends at one, so that no token reaches over
 * the end. */
static bool constraint_ahead(struct constraint *c, struct buf *out)
{
	uint32_t state = c->state;
	int byte;

	while (out->len < CONSTRAINT_AHEAD && (byte = automaton_only(c->automaton, state)) >= 0) {
		if (byte == GRAMMAR_DSML)
			return true;
		buf_addc(out, (char)byte);
		state = automaton_step(c->automaton, state, (uint8_t)byte);
		if (state == AUTOMATON_FULL)
			break;
	}
	return false;
}

/* The token that the tokenizer itself would write there, so that the model reads what it was taught rather than the
 * same text in other pieces; -1 when that is open. The last token of a stretch may reach beyond it. */
static int32_t constraint_forced(struct constraint *c)
{
	struct token_ids ids = { 0 };
	struct buf text = { 0 };
	bool whole = constraint_ahead(c, &text);
	int32_t token = -1;
	size_t len;

	if (whole && text.len == 0) {
		token = c->v->dsml;
	} else if (text.len && tokenizer_encode(c->v->tokenizer, buf_str(&text), text.len, false, &ids) == 0 &&
		   ids.n > !whole) {
		const char *bytes = tokenizer_bytes(c->v->tokenizer, ids.id[0], &len);

		/* What is no whole character comes back as another. */
		if (len <= text.len && memcmp(bytes, text.data, len) == 0)
			token = ids.id[0];
	}
	token_ids_fini(&ids);
	buf_fini(&text);
	return token;
}

/* ---- masks ---- */

static bool constraint_fill(struct constraint *c, uint64_t *mask)
{
	int32_t forced = constraint_forced(c);

	if (forced >= 0) {
		tokentrie_allow(mask, forced);
		return true;
	}
	if (automaton_may_end(c->automaton, c->state))
		tokentrie_allow(mask, c->v->eos);
	return automaton_must_end(c->automaton, c->state) ||
	       tokentrie_mask(c->v->trie, c->automaton, c->state, mask);
}

/* But for the state, of which at most so many ways are kept. */
static void constraint_forget(struct constraint *c, uint32_t ways)
{
	size_t i;

	c->state = automaton_trim(c->automaton, c->state, ways);
	for (i = 0; i < CONSTRAINT_MASKS; i++)
		c->kept[i].valid = false;
}

static int constraint_make(struct constraint *c, struct constraint_kept *k, struct buf *why)
{
	size_t words = tokentrie_mask_words(c->v->vocab), i;
	uint64_t any = 0;

	k->valid = false;
	if (!k->mask)
		k->mask = mem_try(words, sizeof *k->mask);
	if (!k->mask)
		return buf_why(why, -ENOMEM, "no memory for a mask of %d tokens", c->v->vocab);
	memset(k->mask, 0, words * sizeof *k->mask);
	if (!constraint_fill(c, k->mask))
		return RC_TOO_LARGE;
	for (i = 0; i < words; i++)
		any |= k->mask[i];
	if (!any)
		return buf_why(why, RC_MODEL, "no token of the vocabulary fits what the answer must be");
	k->state = c->state;
	k->valid = true;
	return 0;
}

int constraint_mask(struct constraint *c, const uint64_t **ret_mask, struct buf *why)
{
	struct constraint_kept *k;
	size_t try;
	int rc = 0;

	if (c->thinking || c->watching) {
		*ret_mask = c->watching ? NULL : c->v->thinking;
		return 0;
	}
	if (c->one_way || automaton_crowded(c->automaton))
		constraint_forget(c, AUTOMATON_MAX_WAYS);
	for (try = 0; try < mem_countof(constraint_tries); try++) {
		/* From what is known to begin with, then from nothing. */
		if (try)
			constraint_forget(c, constraint_tries[try].ways);
		c->one_way = constraint_tries[try].ways == 1;
		if (c->one_way)
			automaton_one_way(c->automaton);
		automaton_budget(c->automaton, constraint_tries[try || !c->dear ? try : 1].work);
		k = &c->kept[c->state & (CONSTRAINT_MASKS - 1)];
		rc = k->valid && k->state == c->state ? 0 : constraint_make(c, k, why);
		if (rc != RC_TOO_LARGE)
			break;
	}
	c->dear = try ? CONSTRAINT_DEAR : c->dear ? c->dear - 1 : 0;
	automaton_budget(c->automaton, UINT64_MAX);
	if (rc == RC_TOO_LARGE)
		buf_why(why, rc, "what the answer must be has too many possibilities to follow");
	if (rc == 0)
		*ret_mask = k->mask;
	return rc;
}

/* One byte that may come. */
static void constraint_step(struct constraint *c, uint8_t byte)
{
	uint32_t next = automaton_step(c->automaton, c->state, byte);

	if (next == AUTOMATON_FULL) {
		constraint_forget(c, AUTOMATON_MAX_WAYS);
		next = automaton_step(c->automaton, c->state, byte);
	}
	must(next != AUTOMATON_DEAD && next != AUTOMATON_FULL);
	c->state = next;
}

/* The block begins with the marker that has just come, however much white space the model wrote before it. */
static void constraint_open(struct constraint *c)
{
	static const char begin[] = CALLS_BEGIN;
	size_t i;

	for (i = 0; i < sizeof begin - 1; i++)
		constraint_step(c, (uint8_t)begin[i]);
	c->watching = false;
}

static void constraint_watch(struct constraint *c, int32_t token)
{
	const char *bytes;
	size_t len;

	if (token == c->v->dsml && c->may_open) {
		constraint_open(c);
		return;
	}
	bytes = tokenizer_bytes(c->v->tokenizer, token, &len);
	c->may_open = len > 0 && bytes[len - 1] == '<';
}

void constraint_take(struct constraint *c, int32_t token)
{
	const char *bytes;
	size_t len, i;

	if (c->thinking) {
		c->thinking = token != c->v->think_end;
		return;
	}
	if (c->watching) {
		constraint_watch(c, token);
		return;
	}
	if (token == c->v->eos)
		return;
	bytes = tokenizer_bytes(c->v->tokenizer, token, &len);
	if (token == c->v->dsml)
		constraint_step(c, GRAMMAR_DSML);
	for (i = 0; i < len && token != c->v->dsml; i++)
		constraint_step(c, (uint8_t)bytes[i]);
}

bool constraint_complete(const struct constraint *c)
{
	return constraint_holds(c) && automaton_must_end(c->automaton, c->state);
}

bool constraint_holds(const struct constraint *c)
{
	return !c->thinking && !c->watching;
}

uint64_t constraint_work(const struct constraint *c)
{
	return automaton_work(c->automaton);
}

bool constraint_watches(const struct constraint *c)
{
	return c->watching;
}
