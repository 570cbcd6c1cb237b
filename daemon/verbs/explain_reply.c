/* SPDX-License-Identifier: MIT
 * explain_reply.c - what the indexer made of a text, as io.dsv4.Kernels.Explain replies it.
 * Threads: control. Locks: none. */
#include "daemon/verbs/explain_reply.h"
#include "daemon/verbs/figures.h"
#include "daemon/kernels/side.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void explain_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

static json_t *explain_tokens(const struct explain_reply *e, int64_t begin, int64_t end)
{
	struct buf text = { 0 };
	json_t *s;

	tokenizer_decode(e->tokenizer, e->ask->id + begin, (int)(end - begin), false, &text);
	s = varlink_string(text.data, text.len);
	buf_fini(&text);
	return s;
}

static json_t *explain_number(int64_t n)
{
	return n > 0 ? json_integer(n) : json_null();
}

/* ---- what was verified ---- */

/* For people: the number, or ">=N" where only ranks say so, which other top-k change. */
static json_t *explain_told(int64_t bound, int verified)
{
	struct buf text = { 0 };
	json_t *o;

	if (bound <= 0)
		return json_null();
	buf_printf(&text, verified ? "%lld" : ">=%lld", verified ? (long long)verified : (long long)bound);
	o = json_string(buf_str(&text));
	buf_fini(&text);
	return o;
}

static void explain_needed(json_t *o, const char *name, const struct explain_reply *e, int place, int layer,
			   enum explain_want want, int64_t bound)
{
	int verified = explain_verified(e->verify, place, layer, want);
	char key[32];

	snprintf(key, sizeof key, "%s_verified", name);
	explain_set(o, key, explain_number(verified));
	snprintf(key, sizeof key, "%s_told", name);
	explain_set(o, key, explain_told(bound, verified));
}

/* Is anything of the list but a bound? */
static bool explain_has_bound(json_t *list)
{
	static const char *const told[] = { "some_told", "needed_told" };
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
		for (size_t k = 0; k < mem_countof(told); k++) {
			const char *s = json_string_value(json_object_get(o, told[k]));

			if (s && *s == '>')
				return true;
		}
	return false;
}

/* Why what is not verified is not; null: everything is. */
static json_t *explain_unverified(const struct explain_reply *e, json_t *places, json_t *layers)
{
	if (!explain_has_bound(places) && !explain_has_bound(layers))
		return json_null();
	if (e->verify->why.len)
		return json_string(buf_str(&e->verify->why));
	return json_string("what is taken as it is was not tried with less");
}

/* ---- rows ---- */

static json_t *explain_row_side(const struct explain_layer *l, int64_t row)
{
	return json_pack("{s:o, s:i, s:b}", "score", figures_real((double)l->score[row]), "rank", (int)l->rank[row],
			 "selected", l->selected[row]);
}

static json_t *explain_row(const struct explain_reply *e, const struct explain_result *r, int place, int layer,
			   int64_t row)
{
	const struct token_span *span = &e->ask->place[place];
	const struct explain_layer *l = &r[0].layer[layer];
	json_t *o = explain_row_side(l, row);
	int64_t begin, end, from, to;

	explain_row_tokens(l, row, &begin, &end);
	from = begin > span->begin ? begin : span->begin;
	to = end < span->end ? end : span->end;
	explain_set(o, "place", json_integer(e->ask->number[place]));
	explain_set(o, "layer", json_integer(l->layer));
	explain_set(o, "row", json_integer(row));
	explain_set(o, "first", json_integer(begin));
	explain_set(o, "last", json_integer(end - 1));
	explain_set(o, "holds", json_integer(to - from));
	explain_set(o, "text", explain_tokens(e, begin, end));
	if (e->n_side > 1)
		explain_set(o, "against", explain_row_side(&r[1].layer[layer], row));
	return o;
}

/* Under whichever set it is the better. */
static int32_t explain_best_rank(const struct explain_reply *e, const struct explain_result *r, int layer, int64_t row)
{
	int32_t rank = r[0].layer[layer].rank[row];

	return e->n_side > 1 && r[1].layer[layer].rank[row] < rank ? r[1].layer[layer].rank[row] : rank;
}

static int explain_rising(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* The rank down to which rows are told; *ret_ties: so many of that rank itself. */
static int32_t explain_cut(const struct explain_reply *e, const struct explain_result *r, int layer,
			   const struct explain_text *t, int *ret_ties)
{
	int64_t n = t->end - t->first;
	int32_t *rank, cut;

	*ret_ties = 1;
	if (n <= e->rows || e->rows == 0)
		return n <= e->rows ? INT32_MAX : 0;
	rank = mem_grow(NULL, (size_t)n, sizeof *rank);
	for (int64_t i = 0; i < n; i++)
		rank[i] = explain_best_rank(e, r, layer, t->first + i);
	qsort(rank, (size_t)n, sizeof *rank, explain_rising);
	cut = rank[e->rows - 1];
	for (int i = e->rows - 1; i > 0 && rank[i - 1] == cut; i--)
		++*ret_ties;
	free(rank);
	return cut;
}

/* The best `rows` of the text's rows, in the order of the prompt. Returns how many are left out. */
static int64_t explain_rows(const struct explain_reply *e, const struct explain_result *r, int place, int layer,
			    const struct explain_text *t, json_t *list)
{
	int ties;
	int32_t cut = explain_cut(e, r, layer, t, &ties);
	int64_t left_out = 0;

	for (int64_t n = t->first; n < t->end; n++) {
		int32_t rank = explain_best_rank(e, r, layer, n);

		if (rank < cut || (rank == cut && ties-- > 0))
			json_array_append_new(list, explain_row(e, r, place, layer, n));
		else
			left_out++;
	}
	return left_out;
}

/* ---- layers ---- */

static json_t *explain_layer_side(const struct explain_layer *l, const struct explain_text *t)
{
	json_t *o = json_object();

	explain_set(o, "topk", json_integer(l->top_k));
	explain_set(o, "selected", json_integer(t->n_selected));
	explain_set(o, "seen", json_integer(t->n_seen));
	explain_set(o, "best_rank", explain_number(t->topk_any));
	explain_set(o, "worst_rank", explain_number(t->topk_all));
	explain_set(o, "needed_topk", explain_number(t->topk_text));
	explain_set(o, "margin", figures_real(t->margin));
	explain_set(o, "misselected", json_integer(l->n_misselected));
	return o;
}

static json_t *explain_layer(const struct explain_reply *e, const struct explain_result *r, int place, int layer,
			     json_t *rows)
{
	const struct token_span *span = &e->ask->place[place];
	const struct explain_layer *l = &r[0].layer[layer];
	struct explain_text t;
	json_t *o;

	explain_text(l, span->begin, span->end, &t);
	o = explain_layer_side(l, &t);
	explain_needed(o, "some", e, place, layer, EXPLAIN_SOME, t.topk_any);
	explain_needed(o, "needed", e, place, layer, EXPLAIN_WHOLE, t.topk_text);
	explain_set(o, "place", json_integer(e->ask->number[place]));
	explain_set(o, "layer", json_integer(l->layer));
	explain_set(o, "rows", json_integer(l->n_row));
	explain_set(o, "text_rows", json_integer(t.end - t.first));
	explain_set(o, "held", json_integer(t.n_held));
	explain_set(o, "left_out", json_integer(explain_rows(e, r, place, layer, &t, rows)));
	if (e->n_side > 1) {
		explain_text(&r[1].layer[layer], span->begin, span->end, &t);
		explain_set(o, "against", explain_layer_side(&r[1].layer[layer], &t));
	}
	return o;
}

/* ---- places ---- */

static int64_t explain_overlap(const struct token_span *span, int64_t from, int64_t to)
{
	int64_t begin = span->begin > from ? span->begin : from, end = span->end < to ? span->end : to;

	return end > begin ? end - begin : 0;
}

/* Of the layers, how many take a row of it, and all of it; and with which top-k each would. */
static json_t *explain_place_side(const struct explain_result *r, const struct token_span *span)
{
	int some = 0, whole = 0, any = 0, needed = 0;

	for (int i = 0; i < r->n_layer; i++) {
		struct explain_text t;

		explain_text(&r->layer[i], span->begin, span->end, &t);
		some += t.n_selected > 0;
		whole += t.n_held > 0 && t.n_seen == t.n_held;
		any = t.topk_any > any ? t.topk_any : any;
		needed = t.topk_text > needed ? t.topk_text : needed;
	}
	return json_pack("{s:i, s:i, s:i, s:o, s:o}", "layers", r->n_layer, "layers_some", some, "layers_whole", whole,
			 "some_topk", explain_number(any), "needed_topk", explain_number(needed));
}

static json_t *explain_place(const struct explain_reply *e, const struct explain_result *r, int place)
{
	const struct token_span *span = &e->ask->place[place];
	json_t *o = explain_place_side(&r[0], span);
	int64_t p = r[0].position, some = json_integer_value(json_object_get(o, "some_topk"));
	int64_t needed = json_integer_value(json_object_get(o, "needed_topk"));

	explain_needed(o, "some", e, place, EXPLAIN_ALL, EXPLAIN_SOME, some);
	explain_needed(o, "needed", e, place, EXPLAIN_ALL, EXPLAIN_WHOLE, needed);

	explain_set(o, "place", json_integer(e->ask->number[place]));
	explain_set(o, "first", json_integer(span->begin));
	explain_set(o, "last", json_integer(span->end - 1));
	explain_set(o, "back", json_integer(p - span->begin));
	explain_set(o, "in_window", json_integer(explain_overlap(span, p + 1 - e->config->window, p + 1)));
	explain_set(o, "text", explain_tokens(e, span->begin, span->end));
	if (e->n_side > 1)
		explain_set(o, "against", explain_place_side(&r[1], span));
	return o;
}

/* ---- the whole ---- */

static json_t *explain_side(const struct explain_reply *e, int side)
{
	struct buf name = { 0 };
	json_t *o;

	side_print(kset_name(e->side[side].kset), &e->side[side].numerics, &e->ask->numerics, &name);
	o = json_string(buf_str(&name));
	buf_fini(&name);
	return o;
}

/* Layers that choose nothing: with compressed rows, of which they take all, or without any. */
static json_t *explain_other_layers(const struct explain_reply *e, bool with_rows)
{
	struct sequence_layout layout;
	json_t *list = json_array();

	sequence_layout_init(&layout, e->config);
	for (int i = 0; i < e->config->n_layers; i++)
		if (!layout.layer[i].overlap && (layout.layer[i].ratio > 0) == with_rows)
			json_array_append_new(list, json_integer(i));
	return list;
}

json_t *explain_reply_json(const struct explain_reply *e, const struct explain_result *r)
{
	json_t *o = json_object(), *places = json_array(), *layers = json_array(), *rows = json_array();
	int64_t p = r[0].position;

	for (int i = 0; i < e->ask->n_place; i++) {
		json_array_append_new(places, explain_place(e, r, i));
		for (int l = 0; l < r[0].n_layer; l++)
			json_array_append_new(layers, explain_layer(e, r, i, l, rows));
	}
	explain_set(o, "set", explain_side(e, 0));
	explain_set(o, "set_from", json_string(e->set_from));
	if (e->n_side > 1)
		explain_set(o, "against", explain_side(e, 1));
	explain_set(o, "index_topk", json_integer(e->side[0].numerics.index_topk));
	explain_set(o, "reruns", json_integer(e->verify->n_tried > 0 ? e->verify->n_tried - 1 : 0));
	explain_set(o, "unverified", explain_unverified(e, places, layers));
	explain_set(o, "position", json_integer(p));
	explain_set(o, "asking", explain_tokens(e, p, p + 1));
	if (e->ask->best)
		explain_set(o, "tried", json_integer(e->ask->position - e->ask->n_prompt + 2));
	explain_set(o, "prompt_tokens", json_integer(e->ask->n_prompt));
	explain_set(o, "window", json_integer(e->config->window));
	explain_set(o, "window_layers", explain_other_layers(e, false));
	explain_set(o, "all_rows_layers", explain_other_layers(e, true));
	explain_set(o, "found", json_integer(e->ask->n_found));
	explain_set(o, "places", places);
	explain_set(o, "layers", layers);
	explain_set(o, "rows", rows);
	return o;
}
