/* SPDX-License-Identifier: MIT
 * forward.c - one step of the model: embedding, the layers, the head; and the step's memory.
 * Threads: one at a time per struct forward (the engine thread). Locks: none (the pool's, inside ops). */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORWARD_MAX_TOKENS (1 << 20) /* per step: keeps token counts well inside an int */
#define FORWARD_MAX_SCORES ((int64_t)1 << 24) /* 64 MiB */

/* ---- life and memory ---- */

struct forward *forward_new(const struct model *m, struct pool *p)
{
	struct forward *f = mem_new(sizeof *f);

	f->m = m;
	f->pool = p;
	f->running = pool_running(p);
	f->max_scores = FORWARD_MAX_SCORES;
	return f;
}

static void **forward_slot(struct forward *f, enum forward_buf_id id)
{
	must(id < FORWARD_N_BUF);
	switch (id) {
#define BUF(name, ...) case FORWARD_B_##name: return (void **)&f->name;
	FORWARD_BUFS(BUF)
	FORWARD_OTHER_BUFS(BUF)
#undef BUF
	case FORWARD_N_BUF:
		break;
	}
	return NULL;
}

void forward_free(struct forward **pf)
{
	struct forward *f = *pf;

	*pf = NULL;
	if (!f)
		return;
	for (int i = 0; i < FORWARD_N_BUF; i++)
		free(*forward_slot(f, (enum forward_buf_id)i));
	free(f);
}

size_t forward_bytes(const struct forward *f)
{
	size_t n = sizeof *f;

	for (int i = 0; i < FORWARD_N_BUF; i++)
		n += f->cap[i];
	return n;
}

int forward_grow(struct forward *f, enum forward_buf_id id, size_t n, size_t size)
{
	void **p = forward_slot(f, id);
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return buf_why(f->why, -ENOMEM, "a work buffer of a step of %d tokens overflows", f->n_tok);
	if (*p && bytes <= f->cap[id])
		return 0;
	free(*p);
	f->cap[id] = 0;
	*p = mem_try(bytes, 1);
	if (!*p)
		return buf_why(f->why, -ENOMEM, "no memory for a step of %d tokens (%zu bytes)", f->n_tok,
			bytes);
	f->cap[id] = bytes;
	return 0;
}

int forward_prepare(struct forward *f)
{
	const struct model_config *d = f->m->config;
	size_t n = (size_t)f->n_tok, streams = (size_t)d->hc_mult * (size_t)d->hidden_size;
	int rc = 0;

#define BUF(name, type, per_token) \
	if (rc == 0) \
		rc = forward_grow(f, FORWARD_B_##name, n * (size_t)(per_token), sizeof(type));
	FORWARD_BUFS(BUF)
#undef BUF
	if (rc == 0)
		rc = forward_grow(f, FORWARD_B_last, (size_t)f->n_want * streams, sizeof *f->last);
	if (rc == 0)
		rc = forward_grow(f, FORWARD_B_seq, (size_t)f->n_part, sizeof *f->seq);
	if (rc == 0)
		rc = forward_grow(f, FORWARD_B_cut, (size_t)f->n_part, sizeof *f->cut);
	for (int i = 0; i < f->n_part && rc == 0; i++) {
		const struct forward_part *p = &f->part[i];
		int64_t at = (int64_t)p->tok0 * d->rope_dim;

		rope_table_fill(&f->m->rope_window, p->pos0, 1, p->n, f->cs_window + at);
		rope_table_fill(&f->m->rope_compress, p->pos0, 1, p->n, f->cs_compress + at);
	}
	return rc;
}

/* ---- embedding, layers, head ---- */

int forward_check_tokens(const struct forward *f, const int32_t *token, int n, struct buf *why)
{
	int vocab = f->m->config->vocab_size;

	for (int i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= vocab)
			return buf_why(why, RC_INVALID, "token %d is %d; the vocabulary has 0 to %d", i,
				token[i], vocab - 1);
	return 0;
}

void forward_embed(struct forward *f, int32_t token, float *row)
{
	const struct dsv4_weight *w = &f->m->weights->embed;
	const char *data = w->data;

	if (w->fmt == DSV4_W_F32) {
		memcpy(row, data + (size_t)token * (size_t)w->cols * sizeof *row,
			(size_t)w->cols * sizeof *row);
		return;
	}
	must(w->fmt == DSV4_W_BF16);
	data += (size_t)token * (size_t)w->cols * sizeof(uint16_t);
	for (int64_t i = 0; i < w->cols; i++) {
		uint16_t h;

		memcpy(&h, data + (size_t)i * sizeof h, sizeof h);
		row[i] = dsv4_bf16_to_f32(h);
	}
}

/* Every stream starts as the token's embedding. */
static void forward_start_streams(struct forward *f)
{
	size_t hc = (size_t)f->m->config->hc_mult, dim = (size_t)f->m->config->hidden_size;

	for (size_t t = 0; t < (size_t)f->n_tok; t++) {
		float *row = f->streams + t * hc * dim;

		forward_embed(f, f->token[t], row);
		for (size_t j = 1; j < hc; j++)
			memcpy(row + j * dim, row, dim * sizeof *row);
	}
}

/* Mixes the streams into f->x, normed; f->post and f->comb wait for the way back. */
static int forward_read_streams(struct forward *f, const struct dsv4_hc_weights *w, const float *norm)
{
	const struct model_config *d = f->m->config;
	struct dsv4_hc_pre a = {
		.n_tok = f->n_tok,
		.hc = d->hc_mult,
		.dim = d->hidden_size,
		.sinkhorn_iters = d->hc_sinkhorn_iters,
		.norm_eps = d->norm_eps,
		.hc_eps = d->hc_eps,
		.w = *w,
		.streams = f->streams,
		.y = f->x,
		.post = f->post,
		.comb = f->comb,
	};
	int rc = forward_hc_pre(f, DSV4_W_F32, FORWARD_PLAIN, &a);

	return rc < 0 ? rc : forward_norm(f, f->x, f->n_tok, d->hidden_size, norm);
}

static int forward_write_streams(struct forward *f)
{
	struct dsv4_hc_post a = {
		.n_tok = f->n_tok,
		.hc = f->m->config->hc_mult,
		.dim = f->m->config->hidden_size,
		.y = f->y,
		.post = f->post,
		.comb = f->comb,
		.streams = f->streams,
	};

	return forward_hc_post(f, DSV4_W_F32, FORWARD_PLAIN, &a);
}

int forward_block(struct forward *f, const struct weights_layer *w)
{
	int rc = forward_read_streams(f, &w->hc_attn, w->attn_norm);

	if (rc == 0)
		rc = forward_attention(f, w);
	if (rc == 0)
		rc = forward_write_streams(f);
	if (rc == 0)
		rc = forward_read_streams(f, &w->hc_ffn, w->ffn_norm);
	if (rc == 0)
		rc = forward_experts(f, w);
	if (rc == 0)
		rc = forward_write_streams(f);
	if (rc == 0 && f->tap && f->tap->streams)
		f->tap->streams(f->tap->arg, f->layer, f->n_tok, f->streams);
	return rc;
}

static void forward_gather_last(struct forward *f)
{
	size_t row = (size_t)f->m->config->hc_mult * (size_t)f->m->config->hidden_size;
	float *to = f->last;

	for (int i = 0; i < f->n_part; i++) {
		const struct forward_part *p = &f->part[i];
		size_t n = (size_t)p->n_logits * row;

		memcpy(to, f->streams + (size_t)(p->tok0 + p->n - p->n_logits) * row, n * sizeof *to);
		to += n;
	}
}

int forward_logits(struct forward *f, const struct dsv4_hc_weights *hc, const float *norm, float *logits)
{
	const struct model_config *d = f->m->config;
	const struct dsv4_weight *head = &f->m->weights->head;
	struct dsv4_hc_head a = {
		.n_tok = f->n_want,
		.hc = d->hc_mult,
		.dim = d->hidden_size,
		.norm_eps = d->norm_eps,
		.hc_eps = d->hc_eps,
		.w = *hc,
		.streams = f->last,
		.y = f->y,
	};
	struct dsv4_linear l = {
		.n_tok = f->n_want,
		.n_group = 1,
		.w = head,
		.x = f->y,
		.ldx = head->cols,
		.y = logits,
		.ldy = head->rows,
	};
	int rc;

	if (f->n_want == 0)
		return 0;
	must(logits != NULL);
	forward_gather_last(f);
	rc = forward_hc_head(f, DSV4_W_F32, FORWARD_PLAIN, &a);
	if (rc == 0)
		rc = forward_norm(f, f->y, f->n_want, d->hidden_size, norm);
	return rc < 0 ? rc : forward_linear(f, (enum dsv4_wfmt)head->fmt, FORWARD_PLAIN, &l);
}

/* ---- a step ---- */

/* Lays the items out as parts of one flat batch. */
static int forward_plan(struct forward *f, const struct forward_batch *b)
{
	int64_t n_tok = 0;
	int rc;

	must(b->n_item > 0);
	f->n_want = f->n_tok = 0;
	rc = forward_grow(f, FORWARD_B_part, (size_t)b->n_item, sizeof *f->part);
	for (int i = 0; i < b->n_item && rc == 0; i++) {
		const struct forward_item *t = &b->item[i];

		must(t->n > 0 && t->n_logits >= 0 && t->n_logits <= t->n);
		f->part[i] = (struct forward_part){ t->seq, (int)n_tok, t->n, t->n_logits,
			sequence_pos(t->seq) };
		n_tok += t->n;
		f->n_want += t->n_logits;
		if (n_tok > FORWARD_MAX_TOKENS)
			return buf_why(f->why, RC_TOO_LARGE, "a step of more than %d tokens",
				FORWARD_MAX_TOKENS);
		if (f->part[i].pos0 + t->n > f->m->config->max_context)
			return buf_why(f->why, RC_CONTEXT, "position %lld is beyond the context of %d",
				(long long)(f->part[i].pos0 + t->n - 1), f->m->config->max_context);
		rc = forward_check_tokens(f, t->tokens, t->n, f->why);
	}
	f->n_part = b->n_item;
	f->n_tok = (int)n_tok;
	return rc;
}

static int forward_reserve(struct forward *f)
{
	for (int i = 0; i < f->n_part; i++)
		if (sequence_reserve(f->part[i].seq, f->part[i].n) < 0)
			return buf_why(f->why, -ENOMEM,
				"no memory for %d more tokens of a sequence at position %lld",
				f->part[i].n, (long long)f->part[i].pos0);
	return 0;
}

static int forward_layers(struct forward *f, float *logits)
{
	const struct model_weights *w = f->m->weights;
	int rc = 0;

	forward_start_streams(f);
	for (f->layer = 0; f->layer < f->m->config->n_layers && rc == 0; f->layer++)
		rc = forward_block(f, &w->layer[f->layer]);
	f->layer = -1;
	return rc < 0 ? rc : forward_logits(f, &w->hc_head, w->norm, logits);
}

int forward_run(struct forward *f, const struct forward_batch *b, struct buf *why)
{
	int rc;

	f->kset = b->kset;
	f->generation = kset_generation(b->kset);
	f->num = b->numerics;
	f->phase = b->phase;
	f->tap = b->tap;
	f->watch = b->watch;
	f->name = b->name;
	f->why = why;
	rc = forward_plan(f, b);
	if (rc == 0)
		rc = forward_prepare(f);
	if (rc == 0)
		rc = forward_reserve(f);
	if (rc < 0)
		return rc;
	for (int i = 0; i < b->n_item; i++)
		memcpy(f->token + f->part[i].tok0, b->item[i].tokens,
			(size_t)b->item[i].n * sizeof *f->token);
	running_begin(f->running, b->name ? b->name[0] : NULL);
	rc = forward_layers(f, b->logits);
	running_end(f->running);
	for (int i = 0; i < b->n_item && rc == 0; i++)
		sequence_commit(b->item[i].seq, b->item[i].n);
	return rc;
}
