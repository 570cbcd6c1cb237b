/* SPDX-License-Identifier: MIT
 * eval.c - runs the cases of a vector file through a model and keeps every layer's numbers.
 * Threads: one. Locks: none. */
#include "engine/eval/eval.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/model/mtp.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVAL_MAX_LAYERS (MODEL_MAX_LAYERS + 1)

/* One case while it runs; output arrays are [n_pos][...], NULL where not wanted. */
struct eval_case {
	const struct eval_options *o;
	struct tensorfile *out;
	const char *name;
	size_t name_len;
	const int32_t *token, *position;
	int n_tok, n_pos;
	int32_t *row_of;                   /* [n_tok]: output row of a position, -1: not wanted */
	float *logits, *mtp;
	float *streams[EVAL_MAX_LAYERS], *margin[EVAL_MAX_LAYERS];
	int32_t *experts[EVAL_MAX_LAYERS], *rows[EVAL_MAX_LAYERS];
	int64_t rows_width;
	int first_out;                     /* index in out of this case's first tensor */
	/* The step that runs. */
	int pos0, n;
	float *last;                       /* [chunk][hc][hidden]: streams after the last layer, for MTP */
	float *step_logits;                /* [chunk][vocab] */
};

/* ---- taps: the rows of wanted positions go to the output arrays ---- */

static void eval_keep(const struct eval_case *c, int pos0, int n, void *to, const void *from,
	size_t row_bytes)
{
	for (int i = 0; i < n; i++) {
		const char *src = (const char *)from + (size_t)i * row_bytes;
		int32_t row = c->row_of[pos0 + i];

		if (row >= 0)
			memcpy((char *)to + (size_t)row * row_bytes, src, row_bytes);
	}
}

static size_t eval_stream_floats(const struct eval_case *c)
{
	return (size_t)c->o->model->config->hc_mult * (size_t)c->o->model->config->hidden_size;
}

static void eval_tap_streams(void *arg, int layer, int n_tok, const float *streams)
{
	struct eval_case *c = arg;
	size_t bytes = eval_stream_floats(c) * sizeof *streams;

	if (layer == c->o->model->config->n_layers)
		return;
	if (c->streams[layer])
		eval_keep(c, c->pos0, n_tok, c->streams[layer], streams, bytes);
	if (c->last && layer == c->o->model->config->n_layers - 1)
		memcpy(c->last, streams, (size_t)n_tok * bytes);
}

static void eval_tap_experts(void *arg, int layer, int n_tok, int k, const int32_t *ids, const float *weight)
{
	struct eval_case *c = arg;

	(void)weight;
	if (c->experts[layer])
		eval_keep(c, c->pos0, n_tok, c->experts[layer], ids, (size_t)k * sizeof *ids);
}

/* The gap between the lowest score kept and the highest dropped; infinite when nothing was dropped. */
static float eval_margin(const int32_t *rows, int n, const float *score, int n_vis)
{
	float kept = INFINITY, dropped = -INFINITY;
	int k = 0;

	if (n >= n_vis)
		return INFINITY;
	for (int i = 0; i < n_vis; i++) {
		if (k < n && rows[k] == i) {
			kept = fminf(kept, score[i]);
			k++;
		} else {
			dropped = fmaxf(dropped, score[i]);
		}
	}
	return kept - dropped;
}

static void eval_tap_rows(void *arg, int layer, int tok0, int n_tok, const struct dsv4_index_topk *a)
{
	struct eval_case *c = arg;

	if (!c->rows[layer])
		return;
	for (int i = 0; i < n_tok; i++) {
		const int32_t *rows = a->rows + i * a->ldr;
		int32_t row = c->row_of[c->pos0 + tok0 + i];
		int n = a->count[i];

		if (row < 0)
			continue;
		must(n <= c->rows_width);
		memcpy(c->rows[layer] + row * c->rows_width, rows, (size_t)n * sizeof *rows);
		c->margin[layer][row] = eval_margin(rows, n, a->score ? a->score + i * a->lds : NULL,
			a->n_vis[i]);
	}
}

/* ---- output arrays ---- */

static void *eval_add(struct eval_case *c, enum tensorfile_type type, int64_t d1, int64_t d2,
	const char *what, int layer)
{
	int64_t dim[] = { c->n_pos, d1, d2 };
	struct buf name = { 0 };
	void *data;

	buf_printf(&name, "%.*s.%s", (int)c->name_len, c->name, what);
	if (layer >= 0)
		buf_printf(&name, ".%d", layer);
	data = tensorfile_add(c->out, buf_str(&name), type, d2 ? 3 : d1 ? 2 : 1, dim);
	buf_fini(&name);
	return data;
}

/* As wide as top-k, but no wider than the model's own top-k or the case's rows need. */
static int64_t eval_rows_width(const struct eval_case *c, int ratio)
{
	int64_t k = c->o->numerics.index_topk, most = c->n_tok / ratio, own = c->o->model->config->index_topk;

	most = most > own ? most : own;
	return k < most ? k : most;
}

static bool eval_add_layer(struct eval_case *c, int layer)
{
	const struct model_config *d = c->o->model->config;
	const struct sequence_layer *y = &c->o->model->layout.layer[layer];

	c->streams[layer] = eval_add(c, TENSORFILE_F32, d->hc_mult, d->hidden_size, "streams", layer);
	c->experts[layer] = eval_add(c, TENSORFILE_I32, d->experts_per_tok, 0, "experts", layer);
	if (!c->streams[layer] || !c->experts[layer])
		return false;
	if (!y->overlap || c->n_tok < y->ratio)
		return true;
	c->rows_width = eval_rows_width(c, y->ratio);
	c->rows[layer] = eval_add(c, TENSORFILE_I32, c->rows_width, 0, "rows", layer);
	c->margin[layer] = eval_add(c, TENSORFILE_F32, 0, 0, "margin", layer);
	if (!c->rows[layer] || !c->margin[layer])
		return false;
	for (int64_t i = 0; i < c->n_pos * c->rows_width; i++)
		c->rows[layer][i] = -1;
	return true;
}

static bool eval_add_outputs(struct eval_case *c)
{
	const struct model_config *d = c->o->model->config;

	c->logits = eval_add(c, TENSORFILE_F32, d->vocab_size, 0, "logits", -1);
	if (!c->logits)
		return false;
	if (c->o->top_only)
		return true;
	for (int i = 0; i < d->n_layers; i++)
		if (!eval_add_layer(c, i))
			return false;
	if (!c->o->model->weights->mtp)
		return true;
	c->mtp = eval_add(c, TENSORFILE_F32, d->vocab_size, 0, "mtp", -1);
	for (int64_t i = 0; c->mtp && i < (int64_t)c->n_pos * d->vocab_size; i++)
		c->mtp[i] = NAN; /* stays at the last position, which has no next token */
	return c->mtp != NULL;
}

/* tokens and positions, as they came */
static bool eval_add_inputs(struct eval_case *c, const struct tensorfile_tensor *tokens,
	const struct tensorfile_tensor *positions)
{
	int32_t *t = tensorfile_add(c->out, tokens->name, TENSORFILE_I32, 1, tokens->dim);
	int32_t *p = tensorfile_add(c->out, positions->name, TENSORFILE_I32, 1, positions->dim);

	if (!t || !p)
		return false;
	memcpy(t, tokens->i32, (size_t)tokens->n * sizeof *t);
	memcpy(p, positions->i32, (size_t)positions->n * sizeof *p);
	return true;
}

/* A position that is listed twice was computed into its last row only. */
static void eval_copy_repeats(struct eval_case *c)
{
	for (int t = c->first_out; t < c->out->n; t++) {
		struct tensorfile_tensor *x = &c->out->tensor[t];
		int64_t row = c->n_pos ? x->n / c->n_pos : 0;

		for (int i = 0; i < c->n_pos; i++) {
			int32_t from = c->row_of[c->position[i]];

			if (from != i)
				memcpy(x->f32 + i * row, x->f32 + from * row, (size_t)row * sizeof *x->f32);
		}
	}
}

/* ---- steps ---- */

/* Tokens at the end of [pos0, pos0 + n) from the first wanted on. */
static int eval_wanted(const struct eval_case *c, int n)
{
	for (int i = 0; i < n; i++)
		if (c->row_of[c->pos0 + i] >= 0)
			return n - i;
	return 0;
}

static int eval_mtp_step(struct eval_case *c, struct forward *f, struct sequence *seq, struct buf *why)
{
	int n = c->n < c->n_tok - 1 - c->pos0 ? c->n : c->n_tok - 1 - c->pos0;
	int wanted = n > 0 ? eval_wanted(c, n) : 0;
	struct mtp_item item = { seq, c->last, c->token + c->pos0 + 1, n, wanted };
	struct mtp_batch b = {
		.kset = c->o->kset,
		.numerics = &c->o->numerics,
		.phase = c->o->chunk == 1 ? DSV4_DECODE : DSV4_PREFILL,
		.item = &item,
		.n_item = 1,
		.logits = c->step_logits,
	};
	int rc;

	if (n <= 0)
		return 0;
	rc = mtp_run(f, &b, why);
	if (rc == 0)
		eval_keep(c, c->pos0 + n - wanted, wanted, c->mtp, c->step_logits,
			(size_t)c->o->model->config->vocab_size * sizeof *c->mtp);
	return rc;
}

static int eval_step(struct eval_case *c, struct forward *f, struct sequence *seq, struct buf *why)
{
	struct forward_tap tap = { c, eval_tap_streams, eval_tap_experts, eval_tap_rows, NULL };
	int wanted = eval_wanted(c, c->n);
	struct forward_item item = { seq, c->token + c->pos0, c->n, wanted };
	struct forward_batch b = {
		.kset = c->o->kset,
		.numerics = &c->o->numerics,
		.phase = c->o->chunk == 1 ? DSV4_DECODE : DSV4_PREFILL,
		.item = &item,
		.n_item = 1,
		.tap = c->o->top_only ? NULL : &tap,
		.logits = c->step_logits,
	};
	int rc = forward_run(f, &b, why);

	if (rc == 0)
		eval_keep(c, c->pos0 + c->n - wanted, wanted, c->logits, c->step_logits,
			(size_t)c->o->model->config->vocab_size * sizeof *c->logits);
	return rc < 0 || !c->mtp ? rc : eval_mtp_step(c, f, seq, why);
}

static int eval_steps(struct eval_case *c, struct buf *why)
{
	struct forward *f = forward_new(c->o->model, c->o->pool);
	struct sequence *seq = NULL;
	int rc = sequence_new(&c->o->model->layout, &seq);

	for (c->pos0 = 0; c->pos0 < c->n_tok && rc == 0; c->pos0 += c->n) {
		c->n = c->n_tok - c->pos0 < c->o->chunk ? c->n_tok - c->pos0 : c->o->chunk;
		rc = eval_step(c, f, seq, why);
	}
	sequence_free(&seq);
	forward_free(&f);
	return rc;
}

/* ---- a case ---- */

static int eval_check_positions(struct eval_case *c, struct buf *why)
{
	for (int i = 0; i < c->n_tok; i++)
		c->row_of[i] = -1;
	for (int i = 0; i < c->n_pos; i++) {
		if (c->position[i] < 0 || c->position[i] >= c->n_tok)
			return buf_why(why, RC_INVALID, "%.*s.positions: %d is outside the %d tokens",
				(int)c->name_len, c->name, c->position[i], c->n_tok);
		c->row_of[c->position[i]] = i;
	}
	return 0;
}

static int eval_prepare(struct eval_case *c, struct buf *why)
{
	const struct model_config *d = c->o->model->config;
	size_t chunk = (size_t)(c->o->chunk < c->n_tok ? c->o->chunk : c->n_tok);

	c->row_of = mem_try((size_t)c->n_tok, sizeof *c->row_of);
	c->step_logits = mem_try(chunk, (size_t)d->vocab_size * sizeof *c->step_logits);
	c->last = mem_try(chunk, eval_stream_floats(c) * sizeof *c->last);
	if (!c->row_of || !c->step_logits || !c->last)
		return buf_why(why, -ENOMEM, "%.*s: no memory for its %d tokens", (int)c->name_len, c->name,
			c->n_tok);
	return eval_check_positions(c, why);
}

static int eval_case(const struct eval_options *o, const struct tensorfile_tensor *tokens,
	const struct tensorfile_tensor *positions, struct tensorfile *out, struct buf *why)
{
	struct eval_case c = {
		.o = o,
		.out = out,
		.name = tokens->name,
		.name_len = strlen(tokens->name) - strlen(".tokens"),
		.token = tokens->i32,
		.position = positions->i32,
		.n_tok = (int)tokens->n,
		.n_pos = (int)positions->n,
	};
	int rc = eval_prepare(&c, why);

	if (rc == 0 && !eval_add_inputs(&c, tokens, positions))
		rc = buf_why(why, -ENOMEM, "%s: no memory for the results", tokens->name);
	c.first_out = out->n;
	if (rc == 0 && !eval_add_outputs(&c))
		rc = buf_why(why, -ENOMEM, "%s: no memory for the results", tokens->name);
	if (rc == 0)
		rc = eval_steps(&c, why);
	if (rc == 0)
		eval_copy_repeats(&c);
	free(c.row_of);
	free(c.step_logits);
	free(c.last);
	return rc;
}

static int eval_check_list(const struct tensorfile_tensor *t, const char *name, int max, struct buf *why)
{
	if (!t)
		return buf_why(why, RC_INVALID, "%s: missing, or not of integers", name);
	if (t->type != TENSORFILE_I32 || t->n_dim != 1)
		return buf_why(why, RC_INVALID, "%s: expected a list of integers", name);
	if (t->n < 1 || t->n > max)
		return buf_why(why, RC_INVALID, "%s: %" PRId64 " entries; expected 1 to %d", name, t->n, max);
	return 0;
}

int eval_run(const struct eval_options *o, const struct tensorfile *in, struct tensorfile *out,
	struct buf *why)
{
	int n = 0, rc = 0;

	must(o->chunk > 0);
	for (int i = 0; i < in->n && rc == 0; i++) {
		const struct tensorfile_tensor *tokens = &in->tensor[i], *positions;
		size_t len = strlen(tokens->name), tail = strlen(".tokens");
		struct buf name = { 0 };

		if (len <= tail || strcmp(tokens->name + len - tail, ".tokens"))
			continue;
		buf_printf(&name, "%.*s.positions", (int)(len - tail), tokens->name);
		positions = tensorfile_find(in, buf_str(&name));
		rc = eval_check_list(tokens, tokens->name, o->model->config->max_context, why);
		if (rc == 0)
			rc = eval_check_list(positions, buf_str(&name), o->model->config->max_context, why);
		if (rc == 0)
			rc = eval_case(o, tokens, positions, out, why);
		buf_fini(&name);
		n++;
	}
	return rc == 0 && n == 0 ? buf_why(why, RC_INVALID, "no tensor is named NAME.tokens") : rc;
}
