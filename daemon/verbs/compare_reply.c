/* SPDX-License-Identifier: MIT
 * compare_reply.c - the result of a comparison as io.dsv4.Kernels.Compare replies it.
 * Threads: any. Locks: none. */
#include "daemon/verbs/compare_reply.h"
#include "ctl/varlink.h"
#include "daemon/verbs/figures.h"
#include "engine/base/must.h"

#include <string.h>

static void reply_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

static json_t *reply_text(const struct compare_reply *c, const int32_t *id, int n)
{
	struct buf text = { 0 };
	json_t *s;

	tokenizer_decode(c->tokenizer, id, n, false, &text);
	s = varlink_string(text.data, text.len);
	buf_fini(&text);
	return s;
}

/* The set's name, then its parameters that are not those in force: as it would be typed. */
static json_t *reply_side(const struct compare_reply *c, int side)
{
	const struct compare_side *s = &c->side[side];
	struct buf name = { 0 };
	char value[32], now[32];
	json_t *o;

	buf_adds(&name, kset_name(s->kset));
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];

		if (strcmp(numerics_get(&s->numerics, row, value), numerics_get(&c->in_force, row, now)))
			buf_printf(&name, ",%s=%s", row->name, value);
	}
	o = json_string(buf_str(&name));
	buf_fini(&name);
	return o;
}

/* ---- layers and logits ---- */

static json_t *reply_overlap(const struct op_diff *d)
{
	return d->n_set ? figures_real(op_diff_jaccard(d)) : json_null();
}

static json_t *reply_layer(const struct compare_layer *l, int layer)
{
	const struct op_diff *d = &l->streams;
	json_t *o = json_object();

	reply_set(o, "layer", figures_layer(layer));
	reply_set(o, "relative", figures_real(op_diff_relative(d)));
	reply_set(o, "cosine", figures_cosine(d));
	reply_set(o, "max", figures_real(d->max_abs));
	reply_set(o, "values", json_integer((json_int_t)d->n));
	reply_set(o, "differing", json_integer((json_int_t)d->n_bits));
	reply_set(o, "nonfinite", json_integer((json_int_t)d->n_nonfinite));
	reply_set(o, "worst_token", d->worst_row > 0 ? json_integer(d->worst_at) : json_null());
	reply_set(o, "experts_overlap", reply_overlap(&l->experts));
	reply_set(o, "experts_differ", json_integer((json_int_t)l->experts.n_set_differ));
	reply_set(o, "rows_overlap", reply_overlap(&l->rows));
	reply_set(o, "rows_differ", json_integer((json_int_t)l->rows.n_set_differ));
	return o;
}

static json_t *reply_logits(const struct compare_logits *l)
{
	json_t *o = json_object();
	double n = (double)l->n;

	reply_set(o, "positions", json_integer((json_int_t)l->n));
	reply_set(o, "relative", figures_real(op_diff_relative(&l->diff)));
	reply_set(o, "cosine", figures_cosine(&l->diff));
	reply_set(o, "max", figures_real(l->diff.max_abs));
	reply_set(o, "differing", json_integer((json_int_t)l->diff.n_bits));
	reply_set(o, "nonfinite", json_integer((json_int_t)l->diff.n_nonfinite));
	reply_set(o, "kl", figures_real(l->kl / n));
	reply_set(o, "kl_worst", figures_real(l->worst_kl));
	reply_set(o, "kl_worst_token", l->worst_pos < 0 ? json_null() : json_integer(l->worst_pos));
	reply_set(o, "same_best", figures_real((double)l->same_top / n));
	reply_set(o, "top_overlap", figures_real(op_diff_jaccard(&l->top)));
	return o;
}

/* ---- answers ---- */

static json_t *reply_answer(const struct compare_reply *c, const struct compare_result *r, int side)
{
	json_t *o = json_object(), *ids = json_array();

	for (int i = 0; i < r->n_out[side]; i++)
		json_array_append_new(ids, json_integer(r->out[side][i]));
	reply_set(o, "side", json_string(side ? "b" : "a"));
	reply_set(o, "tokens", json_integer(r->n_out[side]));
	reply_set(o, "broken", json_boolean(r->broken[side]));
	reply_set(o, "text", reply_text(c, r->out[side], r->n_out[side]));
	reply_set(o, "ids", ids);
	return o;
}

/* The token of a side where the answers part; absent where that answer had ended. */
static void reply_parting(const struct compare_reply *c, const struct compare_result *r, int side, json_t *o)
{
	if (r->first_diff >= r->n_out[side])
		return;
	reply_set(o, side ? "b_id" : "a_id", json_integer(r->out[side][r->first_diff]));
	reply_set(o, side ? "b" : "a", reply_text(c, &r->out[side][r->first_diff], 1));
}

static json_t *reply_first_difference(const struct compare_reply *c, const struct compare_result *r)
{
	json_t *o;

	if (r->first_diff < 0)
		return json_null();
	o = json_pack("{s:i}", "token", r->first_diff);
	reply_parting(c, r, 0, o);
	reply_parting(c, r, 1, o);
	return o;
}

json_t *compare_reply_json(const struct compare_reply *c, const struct compare_result *r)
{
	json_t *o = json_object(), *layers = json_array(), *answers = json_array();

	for (int i = 0; i < r->n_layer; i++)
		json_array_append_new(layers, reply_layer(&r->layer[i], i));
	for (int side = 0; side < 2; side++)
		json_array_append_new(answers, reply_answer(c, r, side));
	reply_set(o, "a", reply_side(c, 0));
	reply_set(o, "b", reply_side(c, 1));
	reply_set(o, "source", json_string(c->source));
	reply_set(o, "prompt_tokens", json_integer(r->n_prompt));
	reply_set(o, "logits", reply_logits(&r->logits));
	reply_set(o, "first_difference", reply_first_difference(c, r));
	reply_set(o, "failures", json_integer((json_int_t)r->failures));
	if (r->failures)
		reply_set(o, "failure", varlink_string(r->why.data, r->why.len));
	reply_set(o, "same", figures_same(r->op, r->n_op));
	reply_set(o, "ops", figures_ops(r->op, r->n_op));
	reply_set(o, "layers", layers);
	reply_set(o, "answers", answers);
	return o;
}
