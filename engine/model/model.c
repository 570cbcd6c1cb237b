/* SPDX-License-Identifier: MIT
 * model.c - a checkpoint made ready to run: weights, the shape of sequences, rotary frequencies.
 * Threads: one opens and frees, any read in between. Locks: none. */
#include "engine/model/model.h"
#include "engine/base/mem.h"

#include <stdlib.h>

int model_open(const char *dir, struct model **ret_m, struct buf *why)
{
	struct model *m = mem_new(sizeof *m);
	const struct model_config *c;
	struct rope_yarn yarn;
	int rc = weights_open(dir, &m->weights, why);

	if (rc < 0) {
		free(m);
		return rc;
	}
	c = m->config = &m->weights->config;
	yarn = (struct rope_yarn){ c->yarn_factor, c->yarn_beta_fast, c->yarn_beta_slow,
		c->yarn_original_context };
	sequence_layout_init(&m->layout, c);
	rope_table_init(&m->rope_window, c->rope_dim, c->rope_theta, NULL);
	rope_table_init(&m->rope_compress, c->rope_dim, c->compress_rope_theta, &yarn);
	*ret_m = m;
	return 0;
}

void model_free(struct model **pm)
{
	struct model *m = *pm;

	*pm = NULL;
	if (!m)
		return;
	model_unplace_ranks(m);
	model_unplace(m);
	weights_close(&m->weights);
	free(m);
}
