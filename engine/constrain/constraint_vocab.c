/* SPDX-License-Identifier: MIT
 * constraint_vocab.c - what all constraints of an engine share: the vocabulary's tree, the tokens of the protocol.
 * Threads: any, read-only once made. Locks: none. */
#include "engine/constrain/constraint_vocab.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <stdlib.h>

static void constraint_vocab_masks(struct constraint_vocab *v)
{
	for (int32_t t = 0; t < tokenizer_vocab(v->tokenizer); t++)
		if (t != v->eos && t != v->think && t != v->dsml && !tokenizer_is_special(v->tokenizer, t))
			tokentrie_allow(v->thinking, t);
	if (v->think_end >= 0)
		tokentrie_allow(v->close, v->think_end);
}

int constraint_vocab_new(const struct tokenizer *t, int vocab, int32_t eos, struct constraint_vocab **ret_v)
{
	struct constraint_vocab *v = mem_new(sizeof *v);
	size_t words = tokentrie_mask_words(vocab);
	int rc = tokentrie_new(t, vocab, &v->trie);

	if (rc == 0) {
		v->thinking = mem_try(words, sizeof *v->thinking);
		v->close = mem_try(words, sizeof *v->close);
	}
	if (rc || !v->thinking || !v->close) {
		constraint_vocab_free(&v);
		return -ENOMEM;
	}
	v->tokenizer = t;
	v->vocab = vocab;
	v->eos = eos;
	v->think = tokenizer_added(t, "<think>");
	v->think_end = tokenizer_added(t, "</think>");
	v->dsml = tokentrie_dsml(v->trie);
	constraint_vocab_masks(v);
	*ret_v = v;
	return 0;
}

void constraint_vocab_free(struct constraint_vocab **v)
{
	if (!*v)
		return;
	tokentrie_free(&(*v)->trie);
	free((*v)->thinking);
	free((*v)->close);
	free(*v);
	*v = NULL;
}

size_t constraint_vocab_bytes(const struct constraint_vocab *v)
{
	return tokentrie_bytes(v->trie) + 2 * tokentrie_mask_words(v->vocab) * sizeof *v->close;
}

const uint64_t *constraint_vocab_close(const struct constraint_vocab *v)
{
	return v->think_end >= 0 ? v->close : NULL;
}
