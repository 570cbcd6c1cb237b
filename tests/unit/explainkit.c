/* SPDX-License-Identifier: MIT
 * explainkit.c - explain on the tiny model: one prompt, two layers that have an indexer, top 8.
 * Threads: the test's. Locks: none. */
#include "tests/unit/explainkit.h"

void explainkit_begin(struct explainkit *f, struct provider **all, const char *spec, uint32_t seed)
{
	*f = (struct explainkit){ 0 };
	tinykit_init(&f->k, 2);
	tinykit_tokens(&f->k, seed, f->token, N_TOK);
	f->set = spec ? oddplug_set(all, spec) : NULL;
	f->o = (struct explain_options){
		.model = f->k.model,
		.pool = f->k.pool,
		.side = { f->set ? f->set : f->k.ref, f->k.native },
		.tokens = f->token,
		.n_tokens = N_TOK,
		.n_prompt = N_TOK,
	};
	f->o.side.numerics.index_topk = 8;
}

void explainkit_run(struct explainkit *f)
{
	explain_result_fini(&f->r);
	if (explain_run(&f->o, &f->r, &f->k.why))
		fail_msg("%s", buf_str(&f->k.why));
	assert_int_equal(f->r.n_layer, LAYERS);
	assert_int_equal(f->r.layer[0].layer, 2);
	assert_int_equal(f->r.layer[1].layer, 4);
}

void explainkit_end(struct explainkit *f)
{
	explain_result_fini(&f->r);
	kset_unpin(&f->set);
	tinykit_fini(&f->k);
}

void explainkit_same(const struct explain_result *a, const struct explain_result *b)
{
	assert_int_equal(a->position, b->position);
	for (int i = 0; i < LAYERS; i++) {
		const struct explain_layer *x = &a->layer[i], *y = &b->layer[i];

		assert_int_equal(x->n_row, y->n_row);
		assert_memory_equal(x->score, y->score, (size_t)x->n_row * sizeof *x->score);
		assert_memory_equal(x->rank, y->rank, (size_t)x->n_row * sizeof *x->rank);
		assert_memory_equal(x->selected, y->selected, (size_t)x->n_row * sizeof *x->selected);
	}
}
