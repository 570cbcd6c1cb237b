/* SPDX-License-Identifier: MIT
 * compare_store.c - A's streams, experts and rows of one step, kept for B to be held against.
 * Threads: as compare.h. Locks: none. */
#include "engine/beside/compare_store.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t compare_stream(const struct model *m)
{
	return (size_t)m->config->hc_mult * (size_t)m->config->hidden_size;
}

size_t compare_store_bytes(const struct model *m, int64_t ldr)
{
	size_t values = compare_stream(m) + (size_t)m->config->experts_per_tok + (size_t)ldr + 1;

	return (size_t)m->config->n_layers * values * sizeof(float);
}

/* ---- A's run ---- */

static float *compare_streams_at(const struct compare_store *s, int layer)
{
	return s->streams + (size_t)layer * (size_t)s->n_cap * compare_stream(s->model);
}

static int32_t *compare_expert_at(const struct compare_store *s, int layer)
{
	return s->expert + (size_t)layer * (size_t)s->n_cap * (size_t)s->model->config->experts_per_tok;
}

static size_t compare_row_at(const struct compare_store *s, int layer, int tok)
{
	return (size_t)layer * (size_t)s->n_cap + (size_t)tok;
}

static void compare_keep_streams(void *arg, int layer, int n_tok, const float *streams)
{
	struct compare_store *s = arg;

	must(n_tok == s->n_tok);
	memcpy(compare_streams_at(s, layer), streams, (size_t)n_tok * compare_stream(s->model) * sizeof *streams);
}

static void compare_keep_experts(void *arg, int layer, int n_tok, int k, const int32_t *ids, const float *weight)
{
	struct compare_store *s = arg;

	(void)weight;
	must(n_tok == s->n_tok && k == s->model->config->experts_per_tok);
	memcpy(compare_expert_at(s, layer), ids, (size_t)n_tok * (size_t)k * sizeof *ids);
}

/* The number of rows is clipped to what fits, here and below: a set under comparison is not trusted. */
static int32_t compare_clip(int64_t n, int64_t most)
{
	return (int32_t)(n < 0 ? 0 : n > most ? most : n);
}

static void compare_keep_rows(void *arg, int layer, int tok0, int n_tok, const struct dsv4_index_topk *c)
{
	struct compare_store *s = arg;

	must(tok0 + n_tok <= s->n_tok);
	for (int t = 0; t < n_tok; t++) {
		size_t at = compare_row_at(s, layer, tok0 + t);

		s->count[at] = compare_clip(c->count[t], c->ldr < s->ldr ? c->ldr : s->ldr);
		memcpy(s->row + at * (size_t)s->ldr, c->rows + t * c->ldr, (size_t)s->count[at] * sizeof *s->row);
	}
}

/* ---- B's run ---- */

static void compare_hold_streams(void *arg, int layer, int n_tok, const float *streams)
{
	struct compare_store *s = arg;
	struct op_out a = { .data = compare_streams_at(s, layer), .n_row = n_tok,
			    .width = (int64_t)compare_stream(s->model), .ld = (int64_t)compare_stream(s->model) };

	must(n_tok == s->n_tok);
	op_diff_add(&s->layer[layer].streams, &a, streams, s->pos0);
}

static void compare_hold_experts(void *arg, int layer, int n_tok, int k, const int32_t *ids, const float *weight)
{
	struct compare_store *s = arg;
	struct op_out a = { .data = compare_expert_at(s, layer), .is_int = true, .is_set = true, .n_row = n_tok,
			    .width = k, .ld = k };

	(void)weight;
	must(n_tok == s->n_tok);
	op_diff_add(&s->layer[layer].experts, &a, ids, s->pos0);
}

static void compare_hold_rows(void *arg, int layer, int tok0, int n_tok, const struct dsv4_index_topk *c)
{
	struct compare_store *s = arg;

	must(tok0 + n_tok <= s->n_tok);
	for (int t = 0; t < n_tok; t++) {
		size_t at = compare_row_at(s, layer, tok0 + t);

		op_diff_add_lists(&s->layer[layer].rows, s->row + at * (size_t)s->ldr, s->count[at],
			c->rows + t * c->ldr, compare_clip(c->count[t], c->ldr), s->pos0 + tok0 + t);
	}
}

/* ---- life ---- */

int compare_store_init(struct compare_store *s, const struct model *m, struct compare_layer *layer, int n_tok,
	int64_t ldr)
{
	size_t n = (size_t)m->config->n_layers * (size_t)n_tok;

	*s = (struct compare_store){ .model = m, .layer = layer, .n_cap = n_tok, .ldr = ldr };
	s->keep = (struct forward_tap){ s, compare_keep_streams, compare_keep_experts, compare_keep_rows, NULL };
	s->hold = (struct forward_tap){ s, compare_hold_streams, compare_hold_experts, compare_hold_rows, NULL };
	s->streams = mem_try(n * compare_stream(m), sizeof *s->streams);
	s->expert = mem_try(n * (size_t)m->config->experts_per_tok, sizeof *s->expert);
	s->row = mem_try(n * (size_t)ldr, sizeof *s->row);
	s->count = mem_try(n, sizeof *s->count);
	if (s->streams && s->expert && s->row && s->count)
		return 0;
	compare_store_fini(s);
	return -ENOMEM;
}

void compare_store_fini(struct compare_store *s)
{
	free(s->streams);
	free(s->expert);
	free(s->row);
	free(s->count);
	*s = (struct compare_store){ 0 };
}

void compare_store_begin(struct compare_store *s, int64_t pos0, int n_tok)
{
	must(n_tok > 0 && n_tok <= s->n_cap);
	s->pos0 = pos0;
	s->n_tok = n_tok;
}
