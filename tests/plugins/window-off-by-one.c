/* SPDX-License-Identifier: MIT
 * window-off-by-one.c - fixture: attn is ref's, but that for some tokens the weight of a window row meets the row
 * before it: for those at positions of which p % 64 is 12 to 43, where the window is a multiple of 64. The quick check
 * passes it, though it claims ref's bits: in such windows it asks for positions 63 to 67, 200, 300, 1279 and 3071 and
 * the next ones only. The whole check has more and fails it. A wrong token is wrong however its prompt is cut, batched
 * or cached.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/dsv4_plugin.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define WINDOW_BLOCK 64
#define WINDOW_OFF_FROM 12
#define WINDOW_OFF_TO 44

static int window_is_off(const struct dsv4_attn *a, int64_t pos)
{
	return a->window % WINDOW_BLOCK == 0 && pos % WINDOW_BLOCK >= WINDOW_OFF_FROM &&
	       pos % WINDOW_BLOCK < WINDOW_OFF_TO;
}

/* What token t attends to: its window rows, then its compressed rows. */
struct window_list {
	const struct dsv4_rows *kv;
	const float *window;
	const int32_t *rows;
	int64_t n_window, n, off;
};

static struct window_list window_list(const struct dsv4_attn *a, const struct dsv4_seq *s, int64_t t)
{
	int64_t pos = s->pos0 + t - s->tok0, first = pos < a->window ? 0 : pos - a->window + 1;

	return (struct window_list){
		.kv = &s->kv, .window = s->window + (first - s->window_pos0) * a->dim,
		.rows = a->rows ? a->rows + t * a->ldr : NULL, .n_window = pos + 1 - first,
		.n = pos + 1 - first + (a->rows ? a->count[t] : ref_visible(&s->kv, s->ratio, pos)),
		.off = window_is_off(a, pos),
	};
}

static const float *window_row(const struct dsv4_attn *a, const struct window_list *l, int64_t i)
{
	if (i < l->n_window)
		return l->window + i * a->dim;
	i -= l->n_window;
	return ref_row(l->kv, l->rows ? l->rows[i] : i);
}

/* The fault. */
static const float *window_value(const struct dsv4_attn *a, const struct window_list *l, int64_t i)
{
	return window_row(a, l, i - (l->off && i > 0 && i < l->n_window));
}

struct window_state { float top, den; };

/* n rows from the i0-th on, as ref adds a block. */
static void window_block(const struct dsv4_attn *a, const float *q, const struct window_list *l, int64_t i0, int64_t n,
			 struct window_state *st, float *out)
{
	float score[WINDOW_BLOCK], top = st->top, shrink;

	for (int64_t i = 0; i < n; i++) {
		score[i] = ref_dot(q, window_row(a, l, i0 + i), a->dim) * a->scale;
		if (a->prec == DSV4_PREC_BF16)
			score[i] = dsv4_round_bf16(score[i]);
		top = fmaxf(top, score[i]);
	}
	shrink = expf(st->top - top);
	st->top = top;
	st->den *= shrink;
	for (int64_t d = 0; d < a->dim; d++)
		out[d] *= shrink;
	for (int64_t i = 0; i < n; i++) {
		float p = expf(score[i] - top);

		st->den += p;
		ref_axpy(out, a->prec == DSV4_PREC_BF16 ? dsv4_round_bf16(p) : p, window_value(a, l, i0 + i), a->dim);
	}
}

static void window_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_attn *a = arg;

	for (int64_t i = begin; i < end; i++) {
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, i / a->n_head);
		struct window_state st = { .top = -INFINITY };
		float *out = a->out + i * a->dim;
		struct window_list l;

		if (!s)
			continue;
		l = window_list(a, s, i / a->n_head);
		memset(out, 0, (size_t)a->dim * sizeof *out);
		for (int64_t e = 0; e < l.n; e += WINDOW_BLOCK)
			window_block(a, a->q + i * a->dim, &l, e, ref_min(WINDOW_BLOCK, l.n - e), &st, out);
		st.den += expf(a->sink[i % a->n_head] - st.top);
		for (int64_t d = 0; d < a->dim; d++)
			out[d] /= st.den;
	}
}

static int window_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct dsv4_attn c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	host->parallel_for(x, (int64_t)a->n_tok * a->n_head, 1, window_slice, &c);
	return 0;
}

#define WINDOW_OPS(OP) OP(attn, BOTH, ANY, EXACT, "fp32", window_attn)
DSV4_PLUGIN("window-off-by-one", "1.0", "", "", WINDOW_OPS, NULL, NULL, NULL)
