/* SPDX-License-Identifier: MIT
 * forward_attn.c - the attention of one layer: window, compressed rows, indexer, output (doc/format.md 3.3-3.6).
 * Threads: as forward.h. Locks: none. */
#include "engine/base/must.h"
#include "engine/model/forward_priv.h"

#include <errno.h>
#include <math.h>

static const struct sequence_layer *forward_shape(const struct forward *f)
{
	return &f->m->layout.layer[f->layer];
}

/* Rows of this layer that a token at pos may see. */
static int64_t forward_visible(const struct sequence_layer *y, int64_t pos)
{
	return y->ratio ? (pos + 1) / y->ratio : 0;
}

/* The caller says what is turned: x, n_head, dim, and inverse. */
static int forward_rotate(struct forward *f, enum forward_role role, struct dsv4_rope *a)
{
	a->n_tok = f->n_tok;
	a->rot = f->m->config->rope_dim;
	a->cs = forward_shape(f)->ratio ? f->cs_compress : f->cs_window;
	a->ldx = (int64_t)a->n_head * a->dim;
	return forward_rope(f, DSV4_W_F32, role, a);
}

/* Copies each part's rows of a flat [n_tok][width] array behind the rows its sequence keeps. */
static void forward_store(struct forward *f, enum sequence_tail tail, const float *flat)
{
	size_t width = (size_t)forward_shape(f)->width[tail];

	for (int i = 0; i < f->n_part; i++) {
		const struct forward_part *p = &f->part[i];

		queue_move(f->queue, sequence_tail(p->seq, f->layer, tail, p->pos0), flat + (size_t)p->tok0 * width,
			(size_t)p->n * width * sizeof *flat);
	}
}

/* ---- queries and window rows ---- */

static int forward_query(struct forward *f, const struct weights_layer *w)
{
	const struct model_config *d = f->m->config;
	struct dsv4_rope rope = { .x = f->q, .n_head = d->n_heads, .dim = d->head_dim };
	int rc = forward_matrix(f, &w->wq_a, FORWARD_ACT, f->x, f->qr);

	if (rc == 0)
		rc = forward_norm(f, f->qr, f->n_tok, d->q_lora_rank, w->q_norm);
	if (rc == 0)
		rc = forward_matrix(f, &w->wq_b, FORWARD_ACT, f->qr, f->q);
	if (rc == 0)
		rc = forward_norm(f, f->q, (int64_t)f->n_tok * d->n_heads, d->head_dim, NULL);
	if (rc == 0)
		rc = forward_rotate(f, FORWARD_PLAIN, &rope);
	return rc;
}

static int forward_window(struct forward *f, const struct weights_layer *w)
{
	const struct model_config *d = f->m->config;
	struct dsv4_rope rope = {
		.x = f->kv,
		.n_head = 1,
		.dim = d->head_dim,
	};
	int rc = forward_matrix(f, &w->wkv, FORWARD_ACT, f->x, f->kv);

	if (rc == 0)
		rc = forward_norm(f, f->kv, f->n_tok, d->head_dim, w->kv_norm);
	if (rc == 0)
		rc = forward_rotate(f, FORWARD_KV, &rope);
	if (rc == 0)
		forward_store(f, SEQUENCE_WINDOW, f->kv);
	return rc;
}

/* ---- compressed rows ---- */

/* What differs between the attention's and the indexer's compressor. */
struct forward_pool {
	const struct weights_compressor *w;
	enum sequence_tail kv, score;
	enum sequence_rows rows;
	enum forward_role role;
};

/* Cosines and sines at the first positions of n groups. */
static int forward_fill_pooled(struct forward *f, int64_t first, int ratio, int n)
{
	size_t bytes = (size_t)n * (size_t)f->m->config->rope_dim * sizeof(float);
	float *staged = queue_stage(f->queue, f->cs_pooled, bytes);

	if (!staged)
		return buf_why(f->why, -ENOMEM, "no memory to stage a step");
	rope_table_fill(&f->m->rope_compress, first * ratio, ratio, n, staged);
	queue_put(f->queue, f->cs_pooled, staged, bytes);
	return 0;
}

/* Pools the groups that this part completes and writes them to their pages. */
static int forward_pool_part(struct forward *f, const struct forward_pool *c, const struct forward_part *p)
{
	const struct sequence_layer *y = forward_shape(f);
	int64_t first = p->pos0 / y->ratio, end = (p->pos0 + p->n) / y->ratio;
	int64_t from = (first - y->overlap) * y->ratio;
	size_t dim = (size_t)y->dim[c->rows];
	struct dsv4_compress a = {
		.n_out = (int32_t)(end - first),
		.ratio = y->ratio,
		.dim = (int32_t)dim,
		.rot = f->m->config->rope_dim,
		.overlap = y->overlap,
		.first_absent = y->overlap && first == 0,
		.norm_eps = f->m->config->norm_eps,
		.ape = c->w->ape,
		.norm = c->w->norm,
		.cs = f->cs_pooled,
		.out = f->pooled,
	};
	int rc;

	if (end == first)
		return 0;
	a.kv = sequence_tail(p->seq, f->layer, c->kv, from);
	a.score = sequence_tail(p->seq, f->layer, c->score, from);
	f->at_part = (int)(p - f->part);
	rc = forward_fill_pooled(f, first, y->ratio, a.n_out);
	rc = rc ? rc : forward_compress(f, DSV4_W_F32, c->role, &a);
	for (int64_t e = first; e < end && rc == 0; e++)
		queue_move(f->queue, sequence_row(p->seq, f->layer, c->rows, e), f->pooled + (size_t)(e - first) * dim,
			dim * sizeof(float));
	return rc;
}

static int forward_pool_rows(struct forward *f, const struct forward_pool *c)
{
	int rc = forward_matrix(f, &c->w->wkv, FORWARD_PLAIN, f->x, f->proj);

	if (rc < 0)
		return rc;
	forward_store(f, c->kv, f->proj);
	rc = forward_matrix(f, &c->w->wgate, FORWARD_PLAIN, f->x, f->proj);
	if (rc < 0)
		return rc;
	forward_store(f, c->score, f->proj);
	for (int i = 0; i < f->n_part && rc == 0; i++)
		rc = forward_pool_part(f, c, &f->part[i]);
	return rc;
}

static int forward_pool_kv(struct forward *f, const struct weights_layer *w)
{
	struct forward_pool c = { &w->compressor, SEQUENCE_KV, SEQUENCE_SCORE, SEQUENCE_ROWS_KV,
				  FORWARD_KV };

	return forward_pool_rows(f, &c);
}

static int forward_pool_keys(struct forward *f, const struct weights_layer *w)
{
	struct forward_pool c = { &w->indexer.compressor, SEQUENCE_INDEX_KV, SEQUENCE_INDEX_SCORE,
				  SEQUENCE_ROWS_KEY, FORWARD_INDEX };

	return forward_pool_rows(f, &c);
}

/* ---- what each sequence shows to the ops ---- */

static void forward_views(struct forward *f)
{
	const struct sequence_layer *y = forward_shape(f);
	int64_t window = f->m->layout.window;

	for (int i = 0; i < f->n_part; i++) {
		const struct forward_part *p = &f->part[i];
		int64_t from = p->pos0 < window - 1 ? 0 : p->pos0 - (window - 1);
		int64_t n = forward_visible(y, p->pos0 + p->n - 1);

		f->seq[i] = (struct dsv4_seq){
			.size = sizeof f->seq[i],
			.tok0 = p->tok0,
			.n_tok = p->n,
			.ratio = y->ratio,
			.pos0 = p->pos0,
			.window = sequence_tail(p->seq, f->layer, SEQUENCE_WINDOW, from),
			.window_pos0 = from,
			.kv = sequence_rows(p->seq, f->layer, SEQUENCE_ROWS_KV, n),
			.key = sequence_rows(p->seq, f->layer, SEQUENCE_ROWS_KEY, n),
		};
	}
}

/* The parts of sequences that lie in tokens [tok0, tok0 + n_tok), renumbered from 0, into f->cut. */
static int forward_cut(struct forward *f, int tok0, int n_tok)
{
	int n = 0;

	for (int i = 0; i < f->n_part; i++) {
		struct dsv4_seq s = f->seq[i];
		int begin = s.tok0 > tok0 ? s.tok0 : tok0;
		int end = s.tok0 + s.n_tok < tok0 + n_tok ? s.tok0 + s.n_tok : tok0 + n_tok;

		if (begin >= end)
			continue;
		s.pos0 += begin - s.tok0;
		s.tok0 = begin - tok0;
		s.n_tok = end - begin;
		f->cut[n++] = s;
	}
	return n;
}

/* ---- indexer ---- */

static int forward_index_query(struct forward *f, const struct weights_layer *w)
{
	const struct model_config *d = f->m->config;
	struct dsv4_rope rope = {
		.x = f->iq,
		.n_head = d->index_heads,
		.dim = d->index_dim,
	};
	int rc = forward_matrix(f, &w->indexer.wq_b, FORWARD_ACT, f->qr, f->iq);

	if (rc == 0)
		rc = forward_rotate(f, FORWARD_INDEX, &rope);
	if (rc == 0)
		rc = forward_matrix(f, &w->indexer.weights_proj, FORWARD_PLAIN, f->x, f->iw);
	return rc;
}

/* Fills n_vis; returns the most rows that any token sees, or -ENOMEM. */
static int64_t forward_count_visible(struct forward *f)
{
	const struct sequence_layer *y = forward_shape(f);
	size_t bytes = (size_t)f->n_tok * sizeof *f->n_vis;
	int32_t *n_vis = queue_stage(f->queue, f->n_vis, bytes);
	int64_t most = 0;

	if (!n_vis)
		return buf_why(f->why, -ENOMEM, "no memory to stage a step");
	for (int i = 0; i < f->n_part; i++)
		for (int t = 0; t < f->part[i].n; t++) {
			int64_t n = forward_visible(y, f->part[i].pos0 + t);

			must(n <= INT32_MAX);
			n_vis[f->part[i].tok0 + t] = (int32_t)n;
			most = n > most ? n : most;
		}
	queue_put(f->queue, f->n_vis, n_vis, bytes);
	return most;
}

static int forward_score_slice(struct forward *f, int tok0, int n_tok, int64_t lds)
{
	const struct model_config *d = f->m->config;
	struct dsv4_index_score a = {
		.n_tok = n_tok,
		.n_head = d->index_heads,
		.dim = d->index_dim,
		.n_seq = forward_cut(f, tok0, n_tok),
		/* A tap is shown the scores of every token, those that keep all their rows included. */
		.k = f->tap && f->tap->rows ? 0 : f->num->index_topk,
		.scale = (float)(1.0 / sqrt((double)d->index_dim * d->index_heads)),
		.seq = f->cut,
		.q = f->iq + (int64_t)tok0 * d->index_heads * d->index_dim,
		.w = f->iw + (int64_t)tok0 * d->index_heads,
		.score = f->score,
		.lds = lds,
	};

	return forward_index_score(f, DSV4_W_F32, FORWARD_PLAIN, &a);
}

static int forward_topk_slice(struct forward *f, int tok0, int n_tok, int64_t lds, int64_t ldr)
{
	struct dsv4_index_topk a = {
		.n_tok = n_tok,
		.n_vis = f->n_vis + tok0,
		.score = lds ? f->score : NULL,
		.lds = lds,
		.rows = f->rows + tok0 * ldr,
		.ldr = ldr,
		.count = f->count + tok0,
	};
	int rc = 0;

	f->at_tok0 = tok0;
	if (lds)
		rc = forward_score_slice(f, tok0, n_tok, lds);
	if (rc == 0)
		rc = forward_index_topk(f, DSV4_W_F32, FORWARD_PLAIN, &a);
	if (rc == 0 && f->tap && f->tap->rows)
		rc = forward_look(f);
	if (rc == 0 && f->tap && f->tap->rows)
		f->tap->rows(f->tap->arg, f->layer, tok0, n_tok, &a);
	return rc;
}

/* Chooses each token's rows. While no token sees more than top-k, all are kept and nothing is scored. */
static int forward_choose_rows(struct forward *f, int64_t *ret_ldr)
{
	int64_t most = forward_count_visible(f), k = f->num->index_topk;
	int64_t scored = f->watch && f->watch->score_topk && f->watch->score_topk < k ? f->watch->score_topk : k;
	int64_t ldr = most < k ? most : k, lds = most > scored ? most : 0;
	int64_t slice = lds && f->max_scores / lds < f->n_tok ? f->max_scores / lds : f->n_tok;
	int rc;

	if (most < 0)
		return (int)most;
	ldr = ldr > 0 ? ldr : 1;
	slice = slice > 0 ? slice : 1;
	rc = forward_grow(f, FORWARD_B_rows, (size_t)f->n_tok * (size_t)ldr, sizeof *f->rows);
	if (rc == 0 && lds)
		rc = forward_grow(f, FORWARD_B_score, (size_t)slice * (size_t)lds, sizeof *f->score);
	for (int64_t t = 0; t < f->n_tok && rc == 0; t += slice)
		rc = forward_topk_slice(f, (int)t, (int)(f->n_tok - t < slice ? f->n_tok - t : slice), lds,
			ldr);
	*ret_ldr = ldr;
	return rc;
}

/* ---- attention and output ---- */

static int forward_attend(struct forward *f, const struct weights_layer *w, int64_t ldr)
{
	const struct model_config *d = f->m->config;
	bool chosen = forward_shape(f)->overlap;
	struct dsv4_attn a = {
		.n_tok = f->n_tok,
		.n_head = d->n_heads,
		.dim = d->head_dim,
		.n_seq = f->n_part,
		.window = d->window,
		.scale = (float)(1.0 / sqrt((double)d->head_dim)),
		.seq = f->seq,
		.q = f->q,
		.sink = w->sink,
		.rows = chosen ? f->rows : NULL,
		.ldr = ldr,
		.count = chosen ? f->count : NULL,
		.out = f->o,
	};

	return forward_attn(f, DSV4_W_F32, FORWARD_PLAIN, &a);
}

/* Back-rotation, the grouped projection (never rounds its input), and the second one. */
static int forward_output(struct forward *f, const struct weights_layer *w)
{
	const struct model_config *d = f->m->config;
	struct dsv4_linear a = {
		.n_tok = f->n_tok,
		.n_group = d->o_groups,
		.w = &w->wo_a,
		.x = f->o,
		.ldx = (int64_t)d->n_heads * d->head_dim,
		.y = f->oa,
		.ldy = (int64_t)d->o_groups * d->o_lora_rank,
	};
	struct dsv4_rope rope = { .x = f->o, .n_head = d->n_heads, .dim = d->head_dim, .inverse = true };
	const float *oa;
	int rc = forward_rotate(f, FORWARD_PLAIN, &rope);

	if (rc == 0)
		rc = forward_linear(f, (enum dsv4_wfmt)w->wo_a.fmt, FORWARD_PLAIN, &a);
	if (rc == 0)
		rc = forward_join_heads(f, &oa);
	if (rc == 0)
		rc = forward_matrix(f, &w->wo_b, FORWARD_ACT, oa, f->y);
	return rc;
}

int forward_attention(struct forward *f, const struct weights_layer *w)
{
	const struct sequence_layer *y = forward_shape(f);
	int64_t ldr = 0;
	int rc = forward_query(f, w);

	if (rc == 0)
		rc = forward_window(f, w);
	if (rc == 0 && y->ratio)
		rc = forward_pool_kv(f, w);
	if (rc == 0 && y->overlap)
		rc = forward_pool_keys(f, w);
	if (rc < 0)
		return rc;
	forward_views(f);
	if (y->overlap) {
		rc = forward_index_query(f, w);
		if (rc == 0)
			rc = forward_choose_rows(f, &ldr);
	}
	if (rc == 0)
		rc = forward_attend(f, w, ldr);
	return rc < 0 ? rc : forward_output(f, w);
}
