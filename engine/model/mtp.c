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
	int rc, skip = b->ahead ? b->ahead - 1 : 0; /* positions between the committed ones and the item's */

	must(b->n_item > 0 && skip >= 0);
	f->n_tok = f->n_want = 0;
	f->n_part = b->n_item;
	rc = forward_grow(f, FORWARD_B_part, (size_t)b->n_item, sizeof *f->part);
	for (int i = 0; i < b->n_item && rc == 0; i++) {
		const struct mtp_item *t = &b->item[i];

		must(t->n > 0 && t->n_logits >= 0 && t->n_logits <= t->n && (!b->ahead || t->n == 1));
		f->part[i] = (struct forward_part){ sequence_rank(t->seq, f->rank), f->n_tok, t->n, t->n_logits,
			sequence_mtp_pos(t->seq) + skip };
		f->n_tok += t->n;
		f->n_want += t->n_logits;
		rc = forward_check_tokens(f, t->next, t->n, f->why);
		if (rc == 0 && sequence_mtp_reserve(f->part[i].seq, skip + t->n, f->queue) < 0)
			rc = buf_why(f->why, -ENOMEM, "no memory for %d more tokens of the draft block",
				t->n);
	}
	return rc;
}

/* The tokens, their embeddings in f->x, and the streams they go on from, where ops read them. */
static int mtp_start(struct forward *f, const struct mtp_batch *b)
{
	size_t dim = (size_t)f->m->config->hidden_size, row = (size_t)f->m->config->hc_mult * dim,
		n_tok = (size_t)f->n_tok;
	int32_t *token = forward_stage_tokens(f);
	float *x = queue_stage(f->queue, f->x, n_tok * dim * sizeof *x);
	float *streams = queue_stage(f->queue, f->streams, n_tok * row * sizeof *streams);

	if (!token || !x || !streams)
		return buf_why(f->why, -ENOMEM, "no memory to stage a step");
	for (int i = 0; i < b->n_item; i++) {
		size_t tok0 = (size_t)f->part[i].tok0, n = (size_t)b->item[i].n;

		memcpy(token + tok0, b->item[i].next, n * sizeof *token);
		memcpy(streams + tok0 * row, b->item[i].streams, n * row * sizeof *streams);
	}
	for (size_t t = 0; t < n_tok; t++)
		forward_embed(f, token[t], x + t * dim);
	queue_put(f->queue, f->token, token, n_tok * sizeof *token);
	queue_put(f->queue, f->x, x, n_tok * dim * sizeof *x);
	queue_put(f->queue, f->streams, streams, n_tok * row * sizeof *streams);
	return 0;
}

/* f->y gets e_proj(enorm(f->x)). */
static int mtp_embed(struct forward *f, const struct weights_mtp *w)
{
	size_t dim = (size_t)f->m->config->hidden_size;
	int rc = forward_norm(f, f->x, f->n_tok, (int)dim, w->enorm);
	return rc < 0 ? rc : forward_matrix(f, &w->e_proj, FORWARD_ACT, f->x, f->y);
}

/* Every stream becomes f->y + h_proj(hnorm(stream)); for the ops each is a token of its own. */
static int mtp_streams(struct forward *f, const struct weights_mtp *w)
{
	int dim = f->m->config->hidden_size, hc = f->m->config->hc_mult;
	struct dsv4_linear a = {
		.n_tok = f->n_tok * hc,
		.n_group = 1,
		.w = &w->h_proj,
		.x = f->streams,
		.ldx = w->h_proj.cols,
		.y = f->draft,
		.ldy = w->h_proj.rows,
	};
	struct dsv4_sum sum = {
		.dim = dim, .n_row = a.n_tok, .n_part = 1, .every = hc, .base = f->y, .ldb = dim, .x = f->draft,
		.ldx = dim, .y = f->streams, .ldy = dim,
	};
	int rc = forward_norm(f, f->streams, a.n_tok, dim, w->hnorm);

	rc = rc ? rc : forward_linear(f, (enum dsv4_wfmt)w->h_proj.fmt, FORWARD_ACT, &a);
	return rc ? rc : forward_sum(f, DSV4_W_F32, FORWARD_PLAIN, &sum);
}

static int mtp_layers(struct forward *f, const struct mtp_batch *b)
{
	const struct weights_mtp *w = f->m->weights->mtp;
	int rc = mtp_embed(f, w);

	if (rc == 0)
		rc = mtp_streams(f, w);
	if (rc == 0)
		rc = forward_block(f, &w->layer);
	rc = rc < 0 ? rc : forward_logits(f, &w->hc_head, w->norm, b->logits);
	if (rc == 0)
		forward_last(f);
	return rc;
}

static int mtp_pass(struct forward *f, const void *batch)
{
	const struct mtp_batch *b = batch;
	int rc;

	forward_set_step(f, b->kset, b->numerics, b->phase, b->tap, NULL);
	f->layer = f->m->config->n_layers;
	rc = forward_begin(f, f->why);
	if (rc == 0)
		rc = mtp_plan(f, b);
	if (rc == 0)
		rc = forward_capture(f);
	if (rc == 0)
		rc = forward_prepare(f);
	if (rc == 0)
		rc = mtp_start(f, b);
	rc = forward_agree_queue(f, rc);
	running_begin(f->running, NULL);
	if (rc == 0)
		rc = mtp_layers(f, b);
	rc = forward_end(f, forward_agree_launch(f, rc), b->logits);
	running_end(f->running);
	return rc;
}

int mtp_run(struct forward *f, const struct mtp_batch *b, struct buf *why)
{
	int rc;

	if (!f->m->weights->mtp)
		return buf_why(why, RC_UNSUPPORTED,
			"the checkpoint has no draft block that this engine runs");
	rc = forward_all(f, mtp_pass, b, why);
	for (int i = 0; i < b->n_item && rc == 0 && !b->ahead; i++)
		sequence_mtp_commit(b->item[i].seq, b->item[i].n);
	return rc;
}
