/* SPDX-License-Identifier: MIT
 * forward.c - one step of the model: embedding, the layers, the head; and the step's memory.
 * Threads: one at a time per struct forward. Locks: none (the pool's, inside ops). */
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

	f->m = m->shard ? m->shard[0] : m;
	f->rank = f->m->rank;
	f->pool = p;
	f->device = f->m->layout.device;
	f->gpu = device_is_gpu(f->device);
	f->running = pool_running(p);
	f->max_scores = FORWARD_MAX_SCORES;
	return f;
}

void forward_keep_experts(struct forward *f, int most)
{
	must(!f->queue && !f->slots);
	f->keep_experts = most;
	if (f->gpu)
		f->slots = expert_slots_new(f->m, most);
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

/* What describes the step is the host's, wherever its numbers are. */
static struct device *forward_place(const struct forward *f, enum forward_buf_id id)
{
	return id == FORWARD_B_part || id == FORWARD_B_seq || id == FORWARD_B_cut ? device_cpu() : f->device;
}

void forward_release(struct forward *f)
{
	for (int i = 0; i < FORWARD_N_BUF; i++) {
		void **p = forward_slot(f, (enum forward_buf_id)i);

		device_free(forward_place(f, (enum forward_buf_id)i), *p);
		*p = NULL;
		f->cap[i] = 0;
	}
}

void forward_free(struct forward **pf)
{
	struct forward *f = *pf;

	*pf = NULL;
	if (!f)
		return;
	forward_crew_free(&f->crew);
	queue_free(&f->queue);
	expert_slots_free(&f->slots);
	forward_release(f);
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
	if (forward_place(f, id) == f->device)
		queue_discard(f->queue, *p);
	else
		free(*p);
	f->cap[id] = 0;
	*p = device_alloc(forward_place(f, id), bytes, 1);
	if (!*p)
		return buf_why(f->why, -ENOMEM, "no memory for a step of %d tokens (%zu bytes)", f->n_tok,
			bytes);
	f->cap[id] = bytes;
	return 0;
}

/* Cosines and sines of each token's position, as the table has them. */
static int forward_fill_rope(struct forward *f, const struct rope_table *t, float *cs)
{
	int64_t dim = f->m->config->rope_dim;
	size_t bytes = (size_t)f->n_tok * (size_t)dim * sizeof *cs;
	float *staged = queue_stage(f->queue, cs, bytes);

	if (!staged)
		return buf_why(f->why, -ENOMEM, "no memory to stage a step");
	for (int i = 0; i < f->n_part; i++)
		rope_table_fill(t, f->part[i].pos0, 1, f->part[i].n, staged + f->part[i].tok0 * dim);
	queue_put(f->queue, cs, staged, bytes);
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
	if (rc == 0 && forward_own_logits(f))
		rc = forward_grow(f, FORWARD_B_logits, (size_t)f->n_want * (size_t)f->m->weights->head.rows,
				  sizeof *f->logits);
	if (rc == 0)
		rc = forward_prepare_ranks(f);
	if (rc == 0)
		rc = forward_fill_rope(f, &f->m->rope_window, f->cs_window);
	return rc < 0 ? rc : forward_fill_rope(f, &f->m->rope_compress, f->cs_compress);
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
static int forward_start_streams(struct forward *f, const int32_t *token)
{
	size_t hc = (size_t)f->m->config->hc_mult, dim = (size_t)f->m->config->hidden_size;
	size_t bytes = (size_t)f->n_tok * hc * dim * sizeof *f->streams;
	float *staged = queue_stage(f->queue, f->streams, bytes);

	if (!staged)
		return buf_why(f->why, -ENOMEM, "no memory to stage a step");
	for (size_t t = 0; t < (size_t)f->n_tok; t++) {
		float *row = staged + t * hc * dim;

		forward_embed(f, token[t], row);
		for (size_t j = 1; j < hc; j++)
			memcpy(row + j * dim, row, dim * sizeof *row);
	}
	queue_put(f->queue, f->streams, staged, bytes);
	return 0;
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
	if (rc == 0 && f->tap && f->tap->streams) {
		rc = forward_look(f);
		if (rc == 0)
			f->tap->streams(f->tap->arg, f->layer, f->n_tok, f->streams);
	}
	return rc;
}

static void forward_gather_last(struct forward *f)
{
	size_t row = (size_t)f->m->config->hc_mult * (size_t)f->m->config->hidden_size;
	float *to = f->last;

	for (int i = 0; i < f->n_part; i++) {
		const struct forward_part *p = &f->part[i];
		size_t n = (size_t)p->n_logits * row;

		queue_move(f->queue, to, f->streams + (size_t)(p->tok0 + p->n - p->n_logits) * row, n * sizeof *to);
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
		.y = forward_own_logits(f) ? f->logits : logits,
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
	if (rc == 0 && head->rows == 0)
		return forward_pass_by(f, DSV4_OP_linear, (enum dsv4_wfmt)head->fmt);
	rc = rc < 0 ? rc : forward_linear(f, (enum dsv4_wfmt)head->fmt, FORWARD_PLAIN, &l);
	if (rc == 0 && forward_own_logits(f))
		f->logits_back =
			queue_fetch(f->queue, f->logits, (size_t)f->n_want * (size_t)head->rows * sizeof *logits);
	return rc;
}

/* ---- a step ---- */

static bool forward_tap_looks(const struct forward_tap *t)
{
	return t && (t->streams || t->experts || t->rows);
}

void forward_set_step(struct forward *f, const struct kset *ks, const struct numerics *n, enum dsv4_phase phase,
	const struct forward_tap *tap, const struct forward_watch *watch)
{
	f->kset = ks;
	f->generation = kset_generation(ks);
	f->num = n;
	f->phase = phase;
	f->no_graph = watch ? "a shadow or an answer's watch looks on" : forward_tap_looks(tap) ? "a tap looks on" :
		NULL;
	f->tap = f->rank ? NULL : tap;
	f->watch = f->rank == 0 || (watch && watch->all_ranks) ? watch : NULL;
}

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
		f->part[i] = (struct forward_part){ sequence_rank(t->seq, f->rank), (int)n_tok, t->n, t->n_logits,
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
		if (sequence_reserve(f->part[i].seq, f->part[i].n, f->queue) < 0)
			return buf_why(f->why, -ENOMEM,
				"no memory for %d more tokens of a sequence at position %lld",
				f->part[i].n, (long long)f->part[i].pos0);
	return 0;
}

/* The tokens' ids, where ops read them. */
int32_t *forward_stage_tokens(struct forward *f)
{
	int32_t *token = queue_stage(f->queue, f->token, (size_t)f->n_tok * sizeof *token);

	if (!token)
		(void)buf_why(f->why, -ENOMEM, "no memory to stage a step");
	return token;
}

static int forward_start(struct forward *f, const struct forward_batch *b)
{
	int32_t *token = forward_stage_tokens(f);

	if (!token)
		return -ENOMEM;
	for (int i = 0; i < b->n_item; i++)
		memcpy(token + f->part[i].tok0, b->item[i].tokens, (size_t)b->item[i].n * sizeof *token);
	queue_put(f->queue, f->token, token, (size_t)f->n_tok * sizeof *token);
	return forward_start_streams(f, token);
}

static int forward_layers(struct forward *f, float *logits)
{
	const struct model_weights *w = f->m->weights;
	int rc = 0;

	for (f->layer = 0; f->layer < f->m->config->n_layers && rc == 0; f->layer++) {
		forward_fetch_layers(f, f->layer + 1);
		rc = forward_block(f, &w->layer[f->layer]);
	}
	f->layer = -1;
	rc = rc < 0 ? rc : forward_logits(f, &w->hc_head, w->norm, logits);
	if (rc == 0)
		forward_last(f);
	return rc;
}

static int forward_pass(struct forward *f, const void *batch)
{
	const struct forward_batch *b = batch;
	int rc;

	forward_set_step(f, b->kset, b->numerics, b->phase, b->tap, b->watch);
	f->name = b->name;
	forward_feel(f);
	rc = forward_begin(f, f->why);
	if (rc == 0)
		rc = forward_plan(f, b);
	if (rc == 0)
		rc = forward_reserve(f);
	if (rc == 0)
		rc = forward_capture(f);
	if (rc == 0)
		rc = forward_prepare(f);
	if (rc == 0)
		rc = forward_start(f, b);
	rc = forward_agree_queue(f, rc);
	running_begin(f->running, b->name ? b->name[0] : NULL);
	if (rc == 0)
		rc = forward_layers(f, b->logits);
	rc = forward_end(f, forward_agree_launch(f, rc), b->logits);
	running_end(f->running);
	return rc;
}

int forward_run(struct forward *f, const struct forward_batch *b, struct buf *why)
{
	int rc = forward_all(f, forward_pass, b, why);

	for (int i = 0; i < b->n_item && rc == 0; i++)
		sequence_commit(b->item[i].seq, b->drafts ? 1 : b->item[i].n);
	return rc;
}
