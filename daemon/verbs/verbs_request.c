/* SPDX-License-Identifier: MIT
 * verbs_request.c - the request ring: list, show, messages, prompt, tokens, output, cancel.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_LIST_DEFAULT 20
#define REQUEST_LIST_MAX 1000

static const char *request_finish(enum gen_finish f)
{
	static const char *const names[] = { "running", "stop", "length", "tool_calls", "cancelled",
					     "error" };

	must((size_t)f < mem_countof(names));
	return names[f];
}

static void request_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

static json_t *request_string(const char *s)
{
	return varlink_string(s, strlen(s));
}

/* The record of the call's `id`, a reference for the caller. */
static int request_find(struct call *c, struct record **ret_r, struct buf *why)
{
	const char *id = call_string(c, "id", "");
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	*ret_r = engine_record(c->daemon->engine, id);
	return *ret_r ? 0 : buf_why(why, RC_NOT_FOUND, "no request '%.96s': unknown, or no longer kept", id);
}

/* The names of all sets it ran under, with where each took over. */
static json_t *request_kernels(struct record *rec)
{
	struct buf text = { 0 };
	json_t *s;

	record_kernels(rec, &text);
	s = varlink_string(text.data, text.len);
	buf_fini(&text);
	return s;
}

static json_t *request_sets(struct record *rec)
{
	json_t *list = json_array();
	struct record_set *s;
	int n = record_sets(rec, &s);

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:i, s:i}", "name", s[i].name, "generation",
						      (json_int_t)s[i].generation, "epoch", (json_int_t)s[i].epoch,
						      "prompt", s[i].prompt, "output", s[i].output));
	free(s);
	return list;
}

static json_t *request_usage(const struct gen_usage *u)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "prompt", u->prompt_tokens, "completion",
			 u->completion_tokens,
			 "reasoning", u->reasoning_tokens, "cached", u->cached_tokens, "drafted", u->drafted_tokens,
			 "accepted", u->accepted_tokens);
}

/* ---- list ---- */

static json_t *request_summary(struct record *rec)
{
	struct record_view v;
	json_t *o;
	double decode;

	record_view(rec, &v);
	o = json_pack("{s:o, s:o, s:s, s:o, s:o, s:f, s:o}", "id", request_string(v.id), "label",
		      request_string(v.label),
		      "finish", request_finish(v.finish), "detail", request_string(v.detail), "kernels",
		      request_kernels(rec), "submit", v.t_submit, "usage", request_usage(&v.usage));
	if (v.t_first > 0)
		request_set(o, "first_s", json_real(v.t_first - v.t_submit));
	if (v.t_end > 0)
		request_set(o, "total_s", json_real(v.t_end - v.t_submit));
	decode = v.t_last - v.t_first;
	if (v.t_first > 0 && decode > 0 && v.usage.completion_tokens > 1)
		request_set(o, "rate", json_real((v.usage.completion_tokens - 1) / decode));
	return o;
}

int verb_request_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	long long max = call_int(c, "max", REQUEST_LIST_DEFAULT);
	struct record *rec[REQUEST_LIST_MAX];
	json_t *list;
	int n, r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	if (max < 1 || max > REQUEST_LIST_MAX)
		return buf_why(why, RC_INVALID, "max: must be within 1 to %d", REQUEST_LIST_MAX);
	n = engine_records(c->daemon->engine, rec, (int)max);
	list = json_array();
	for (int i = 0; i < n; i++) {
		json_array_append_new(list, request_summary(rec[i]));
		record_unref(&rec[i]);
	}
	*ret_reply = json_pack("{s:o}", "requests", list);
	return 0;
}

/* ---- show ---- */

static json_t *request_numerics(const struct numerics *n)
{
	json_t *o = json_object();
	char value[32];

	for (int i = 0; i < numerics_count; i++)
		request_set(o, numerics_table[i].name, json_string(numerics_get(n, &numerics_table[i],
										value)));
	return o;
}

static json_t *request_sampling(const struct record_view *v)
{
	const struct gen_sampling *s = &v->sampling;
	json_t *o = json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:i, s:i, s:b}", "temperature",
			      (double)s->temperature,
			      "top_p", (double)s->top_p, "min_p", (double)s->min_p, "top_k", s->top_k,
			      "repetition_penalty", (double)s->repetition_penalty, "presence_penalty",
			      (double)s->presence_penalty, "frequency_penalty", (double)s->frequency_penalty,
			      "max_tokens",
			      v->max_tokens, "stops", s->n_stop, "logprobs", s->logprobs);

	if (s->has_seed)
		request_set(o, "seed", json_integer((json_int_t)s->seed));
	return o;
}

static json_t *request_cache(const struct record_view *v)
{
	json_t *o = json_pack("{s:i, s:b, s:o}", "reused", v->reused_tokens, "kept", v->kept, "reason",
			      request_string(v->miss_reason));

	if (v->first_diff_byte >= 0)
		request_set(o, "first_diff_byte", json_integer(v->first_diff_byte));
	return o;
}

static json_t *request_loop(const struct gen_loop *l)
{
	struct buf text = { 0 };
	json_t *o;

	loopguard_describe(l, &text);
	o = json_pack("{s:s, s:s, s:i, s:b}", "part", loopguard_part_name(l->part), "what", buf_str(&text), "token",
		      l->token, "ended", l->ended);
	buf_fini(&text);
	return o;
}

static json_t *request_times(const struct record_view *v)
{
	const struct {
		const char *name;
		double t;
	} row[] = { { "submit", v->t_submit }, { "admit", v->t_admit }, { "first", v->t_first },
		    { "last", v->t_last },     { "end", v->t_end } };
	json_t *o = json_object();

	for (size_t i = 0; i < mem_countof(row); i++)
		if (row[i].t > 0)
			request_set(o, row[i].name, json_real(row[i].t));
	return o;
}

int verb_request_show(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct record *rec;
	struct record_view v;
	json_t *o;
	int r = request_find(c, &rec, why);

	if (r)
		return r;
	record_view(rec, &v);
	o = json_pack("{s:o, s:o, s:s, s:o, s:b, s:o, s:I, s:I}", "id", request_string(v.id), "label",
		      request_string(v.label), "finish", request_finish(v.finish), "detail",
		      request_string(v.detail),
		      "thinking", v.thinking, "kernels", request_kernels(rec), "kernels_generation",
		      (json_int_t)v.kset_generation, "epoch", (json_int_t)v.epoch);
	request_set(o, "sets", request_sets(rec));
	record_unref(&rec);
	if (v.finish == GEN_ERROR)
		request_set(o, "error", json_string(rc_text(v.rc)));
	if (v.loop.kind)
		request_set(o, "loop", request_loop(&v.loop));
	request_set(o, "numerics", request_numerics(&v.numerics));
	request_set(o, "sampling", request_sampling(&v));
	request_set(o, "cache", request_cache(&v));
	request_set(o, "usage", request_usage(&v.usage));
	request_set(o, "times", request_times(&v));
	*ret_reply = o;
	return 0;
}

/* ---- what the model saw and said ---- */

static int request_text(struct call *c, void (*get)(struct record *, struct buf *), json_t **ret_reply,
			struct buf *why)
{
	struct buf text = { 0 };
	struct record *rec;
	int r = request_find(c, &rec, why);

	if (r)
		return r;
	get(rec, &text);
	record_unref(&rec);
	*ret_reply = json_pack("{s:o}", "text", varlink_string(text.data, text.len));
	buf_fini(&text);
	return 0;
}

int verb_request_prompt(struct call *c, json_t **ret_reply, struct buf *why)
{
	return request_text(c, record_prompt, ret_reply, why);
}

int verb_request_output(struct call *c, json_t **ret_reply, struct buf *why)
{
	return request_text(c, record_output, ret_reply, why);
}

int verb_request_messages(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct buf text = { 0 };
	struct record *rec;
	json_t *messages;
	int r = request_find(c, &rec, why);

	if (r)
		return r;
	record_messages(rec, &text);
	record_unref(&rec);
	messages = text.len ? json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL) : json_null();
	buf_fini(&text);
	if (!messages)
		return RC_INTERNAL;
	*ret_reply = json_pack("{s:o}", "messages", messages);
	return 0;
}

static json_t *request_ids(const int32_t *id, int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_integer(id[i]));
	return list;
}

int verb_request_tokens(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct record *rec;
	int32_t *ids;
	int n, n_prompt, r = request_find(c, &rec, why);

	if (r)
		return r;
	n = record_tokens(rec, &ids, &n_prompt);
	record_unref(&rec);
	*ret_reply = json_pack("{s:o, s:o}", "prompt", request_ids(ids, n_prompt), "output",
			       request_ids(ids + n_prompt, n - n_prompt));
	free(ids);
	return 0;
}

int verb_request_cancel(struct call *c, json_t **ret_reply, struct buf *why)
{
	const char *id = call_string(c, "id", "");
	int r = daemon_need_engine(c->daemon, why);

	r = r ? r : engine_cancel(c->daemon->engine, id, RC_CANCELLED);
	if (r == RC_NOT_FOUND)
		return buf_why(why, r, "no running request '%.96s'", id);
	if (!r)
		*ret_reply = json_pack("{s:s}", "id", id);
	return r;
}
