/* SPDX-License-Identifier: MIT
 * probe_url.c - probes against a server by its URL, run in this process: no daemon is needed.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe_url.h"
#include "ctl/probe/probe_chat.h"
#include "ctl/probe/probe_http.h"
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>

#define URL_LIST_S 60 /* seconds without a byte of a list of models */

/* A run: the server behind the ops that the probes call. */
struct url_run {
	const struct probe_url *said;
	struct probe_http *http;
	struct probe_chat chat;
	struct buf model;
	int context;
	json_t *names, *options; /* options: {probe: {name: value}} */
	json_t *results;
	enum probe_verdict worst;
};

/* ---- the peer's ops ---- */

static int url_http(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why)
{
	struct url_run *u = arg;

	return probe_http_exchange(u->http, q, ret_r, why);
}

static int url_chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why)
{
	struct url_run *u = arg;

	return probe_chat(&u->chat, body, delta, delta_arg, ret_reply, why);
}

static void url_progress(void *arg, const char *probe, int done, int total)
{
	const struct url_run *u = arg;

	if (u->said->progress)
		u->said->progress(u->said->arg, probe, done, total);
}

/* ---- before the run ---- */

static int url_options(struct url_run *u, struct buf *why)
{
	json_t *name, *value;
	const char *key;
	size_t i;
	int r = 0;

	json_array_foreach(u->names, i, name) {
		json_t *o = json_object();

		if (u->said->quick)
			json_object_set_new(o, PROBE_QUICK, json_integer(1));
		must_zero(json_object_set_new(u->options, json_string_value(name), o));
	}
	json_object_foreach(u->said->options, key, value)
		r = r ? r : probe_option_give(u->names, key, json_string_value(value), u->options, why);
	return r;
}

/* Only a server that nobody can reach ends the run here: whatever else is wrong with its list is a probe's to tell. */
static int url_find_model(struct url_run *u, struct buf *why)
{
	json_int_t patience = json_integer_value(json_object_get(json_object_get(u->options, "api"), "patience"));
	struct buf text = { 0 };
	int r;

	u->chat.patience = patience ? (int)patience : URL_LIST_S;
	r = probe_chat_model(&u->chat, u->said->model, &u->model, &u->context, &text);
	u->chat.patience = 0;
	if (r && u->said->model)
		buf_adds(&u->model, u->said->model);
	r = r == -ECONNREFUSED ? buf_why(why, r, "%s", buf_str(&text)) : 0;
	buf_fini(&text);
	return r;
}

static int url_prepare(struct url_run *u, struct buf *why)
{
	const struct probe_http_options o = { .url = u->said->url, .key = u->said->key };
	int r = probe_names(u->said->names, &u->names, why);

	r = r ? r : url_options(u, why);
	r = r ? r : probe_http_new(&o, &u->http, why);
	u->chat = (struct probe_chat){ .http = url_http, .arg = u };
	return r ? r : url_find_model(u, why);
}

/* ---- the run ---- */

static int url_probe(struct url_run *u, const char *name, struct buf *why)
{
	const struct probe_peer peer = {
		.chat = url_chat, .http = url_http, .progress = url_progress, .arg = u,
		.model = u->model.len ? buf_str(&u->model) : NULL,
		.context = u->context, .local = probe_http_is_local(u->http),
	};
	struct probe_result result = { 0 };
	double start = clock_s();
	int r = probe_run(name, json_object_get(u->options, name), &peer, &result, why);

	if (r)
		return r;
	probe_http_hide(u->http, &result.why);
	must_zero(json_array_append_new(u->results, probe_result_json(name, &result, clock_s() - start)));
	u->worst = probe_worse(u->worst, result.verdict);
	probe_result_fini(&result);
	return 0;
}

int probe_url_run(const struct probe_url *said, json_t **ret_reply, struct buf *why)
{
	struct url_run u = { .said = said, .options = json_object(), .results = json_array() };
	json_t *name;
	size_t i;
	int r = url_prepare(&u, why);

	json_array_foreach(u.names, i, name)
		r = r ? r : url_probe(&u, json_string_value(name), why);
	if (r && u.http && why)
		probe_http_hide(u.http, why);
	if (!r)
		*ret_reply = json_pack("{s:s, s:O}", "verdict", probe_verdict_name(u.worst), "results", u.results);
	json_decref(u.names);
	json_decref(u.options);
	json_decref(u.results);
	probe_chat_fini(&u.chat);
	probe_http_free(&u.http);
	buf_fini(&u.model);
	return r;
}
