/* SPDX-License-Identifier: MIT
 * mtp.c - the draft block of V4-Flash: logits of the token after next (doc/format.md 5.1).
 * Threads: as forward.h. Locks: none. */
#include "engine/model/mtp.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

#include <errno.h>
#include <string.h>

static int mtp_plan(struct forward *f, const struct mtp_batch *b)
{
	int rc;

	must(b->n_item > 0);
	f->n_tok = f->n_want = 0;
	f->n_part = b->n_item;
	rc = forward_grow(f, FORWARD_B_part, (size_t)b->n_item, sizeof *f->part);
	for (int i = 0; i < b->n_item && rc == 0; i++) {
		const struct mtp_item *t = &b->item[i];

		must(t->n > 0 && t->n_logits >= 0 && t->n_logits <= t->n);
		f->part[i] = (struct forward_part){ t->seq, f->n_tok, t->n, t->n_logits,
			sequence_mtp_pos(t->seq) };
		f->n_tok += t->n;
		f->n_want += t->n_logits;
		rc = forward_check_tokens(f, t->next, t->n, f->why);
		if (rc == 0 && sequence_mtp_reserve(t->seq, t->n) < 0)
			rc = buf_why(f->why, -ENOMEM, "no memory for %d more tokens of the draft block",
				t->n);
	}
	return rc;
}

/* f->y gets e_proj(enorm(embed(next))). */
static int mtp_embed(struct forward *f, const struct weights_mtp *w)
{
	size_t dim = (size_t)f->m->config->hidden_size;
	int rc;

	for (size_t t = 0; t < (size_t)f->n_tok; t++)
		forward_embed(f, f->token[t], f->x + t * dim);
	rc = forward_norm(f, f->x, f->n_tok, (int)dim, w->enorm);
	return rc < 0 ? rc : forward_matrix(f, &w->e_proj, FORWARD_ACT, f->x, f->y);
}

/* Stream j becomes f->y + h_proj(hnorm(stream j)). */
static int mtp_stream(struct forward *f, const struct weights_mtp *w, size_t j)
{
	size_t dim = (size_t)f->m->config->hidden_size, row = dim * (size_t)f->m->config->hc_mult;
	float *normed = f->x, *out = f->draft;
	int rc;

	for (size_t t = 0; t < (size_t)f->n_tok; t++)
		memcpy(normed + t * dim, f->streams + t * row + j * dim, dim * sizeof *normed);
	rc = forward_norm(f, normed, f->n_tok, (int)dim, w->hnorm);
	if (rc == 0)
		rc = forward_matrix(f, &w->h_proj, FORWARD_ACT, normed, out);
	for (size_t t = 0; t < (size_t)f->n_tok && rc == 0; t++)
		for (size_t i = 0; i < dim; i++)
			f->streams[t * row + j * dim + i] = f->y[t * dim + i] + out[t * dim + i];
	return rc;
}

static int mtp_layers(struct forward *f, const struct mtp_batch *b)
{
	const struct weights_mtp *w = f->m->weights->mtp;
	size_t row = (size_t)f->m->config->hc_mult * (size_t)f->m->config->hidden_size;
	int rc;

	for (int i = 0; i < b->n_item; i++) {
		size_t tok0 = (size_t)f->part[i].tok0, n = (size_t)b->item[i].n;

		memcpy(f->token + tok0, b->item[i].next, n * sizeof *f->token);
		memcpy(f->streams + tok0 * row, b->item[i].streams, n * row * sizeof *f->streams);
	}
	rc = mtp_embed(f, w);
	for (int j = 0; j < f->m->config->hc_mult && rc == 0; j++)
		rc = mtp_stream(f, w, (size_t)j);
	if (rc == 0)
		rc = forward_block(f, &w->layer);
	return rc < 0 ? rc : forward_logits(f, &w->hc_head, w->norm, b->logits);
}

int mtp_run(struct forward *f, const struct mtp_batch *b, struct buf *why)
{
	int rc;

	if (!f->m->weights->mtp)
		return buf_why(why, RC_UNSUPPORTED,
			"the checkpoint has no draft block that this engine runs");
	f->kset = b->kset;
	f->generation = kset_generation(b->kset);
	f->num = b->numerics;
	f->phase = b->phase;
	f->tap = b->tap;
	f->watch = NULL;
	f->why = why;
	f->layer = f->m->config->n_layers;
	rc = mtp_plan(f, b);
	if (rc == 0)
		rc = forward_prepare(f);
	running_begin(f->running, NULL);
	if (rc == 0)
		rc = mtp_layers(f, b);
	running_end(f->running);
	for (int i = 0; i < b->n_item && rc == 0; i++)
		sequence_mtp_commit(b->item[i].seq, b->item[i].n);
	return rc;
}
